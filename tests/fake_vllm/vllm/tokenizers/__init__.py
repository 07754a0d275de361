"""A fake tokenizer: one token a word."""


class Words:
    all_special_ids = [0, 1]

    def __len__(self):
        return 100

    def encode(self, text, add_special_tokens=True):
        return [int(word[1:]) for word in text.split()]

    def decode(self, ids):
        return " ".join(f"w{token}" for token in ids)


def get_tokenizer(_name, trust_remote_code=False):
    return Words()
