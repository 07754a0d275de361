"""The model a study serves: a hub name, a folder, or a shape file from which a folder is made here.

A shape file (`notebooks/parameters/models/*.yaml`) holds a model's configuration and the size of its vocabulary. The
folder gets that configuration and a word-level tokenizer of our own, the same bytes every time, so that a study needs
no hub; its weights are random (`load_format: dummy`).
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from study.design.parameters import read_yaml
from study.design.whole_files import make_folder, write_whole
from study.errors import InputError

MODELS_DIR = Path("models")
NEEDED = ("bos_token_id", "eos_token_id", "max_position_embeddings")
"""Of a shape's configuration: what its tokenizer is made with."""
LONGEST_NAME = 250


def prepare_model(model: str, load_format: str, root: Path) -> str:
    """Return what vLLM gets as its model: the hub name, or a folder relative to `root` where it lies inside.

    Raises:
        InputError: a folder without config.json, a path that is not there, or a shape file that does not fit.

    """
    if len(model) > LONGEST_NAME:
        raise InputError(f"model '{model[:40]}...' has {len(model)} characters, more than a name or path here has")
    path = root / model
    if model.endswith((".yaml", ".yml")):
        if load_format != "dummy":
            raise InputError(f"model '{model}' is a shape without weights: use load_format dummy, not {load_format}")
        return make_model(path, root)
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise InputError(f"model folder '{model}' has no config.json; name a folder that a model was saved in")
        return model
    if model.startswith((".", "/", "~")) or path.exists() or model.count("/") > 1:
        raise InputError(f"model '{model}' is no folder; name a model folder, a hub name (org/name) or a shape file")
    return model


def make_model(shape_file: Path, root: Path) -> str:
    """Write the folder that a shape file describes, once, and return its path relative to `root`."""
    shape = read_yaml(shape_file)
    config, words = shape.get("config"), shape.get("vocabulary")
    if not isinstance(config, dict) or not isinstance(words, int) or config.get("vocab_size") != words:
        raise InputError(f"'{shape_file}' needs 'config' (a mapping) and 'vocabulary' equal to its vocab_size")
    for name in NEEDED:
        if not isinstance(config.get(name), int) or isinstance(config[name], bool):
            raise InputError(f"'{shape_file}': config needs '{name}', a whole number")
    files = {
        "config.json": json.dumps(config, indent=2, sort_keys=True),
        "tokenizer.json": json.dumps(_tokenizer(config, words)),
        "tokenizer_config.json": json.dumps(_tokenizer_config(config), indent=2, sort_keys=True),
    }
    digest = hashlib.sha256("".join(files.values()).encode()).hexdigest()[:8]
    folder = MODELS_DIR / f"{shape_file.stem}-{digest}"
    make_folder(root / folder)
    for name, text in files.items():
        if not (root / folder / name).is_file() or (root / folder / name).read_text(encoding="utf-8") != text:
            write_whole(root / folder / name, text)
    return str(folder)


def _special(config: dict[str, Any]) -> dict[str, int]:
    """Name the special tokens so that no ordinary word contains one."""
    return {"<|begin|>": config["bos_token_id"], "<|end|>": config["eos_token_id"]}


def _tokenizer(config: dict[str, Any], words: int) -> dict[str, Any]:
    """Describe a `tokenizers` model: one token a word, words between spaces."""
    special = _special(config)
    names = {index: name for name, index in special.items()}
    added = [
        {"id": index, "content": name, "special": True, "normalized": False}
        | {"single_word": False, "lstrip": False, "rstrip": False}
        for name, index in sorted(special.items(), key=lambda item: item[1])
    ]
    vocabulary = {names.get(index, f"w{index}"): index for index in range(words)}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": names.get(0, "w0")},
    }


def _tokenizer_config(config: dict[str, Any]) -> dict[str, Any]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": config["max_position_embeddings"],
        "bos_token": "<|begin|>",
        "eos_token": "<|end|>",
        "clean_up_tokenization_spaces": False,
    }
