"""Checks a text's claims about vLLM's switches against the installed vLLM: joins what is asked with what follows."""

from pathlib import Path

from study.analyze.claims import judge_claims, read_verdicts, render_verdicts, verdicts_json
from study.design.card import read_card
from study.design.claims_file import read_claims
from study.design.root import find_root
from study.errors import InputError
from study.measure.claims_ask import ask_vllm


def check_claims_command(path: Path, card: str | None, out: Path | None, earlier: Path | None = None) -> int:
    """Print the verdicts on a claims file and write them where asked: `study switches --check FILE`.

    Args:
        path: the claims file (YAML).
        card: as `--as-gpu` takes it, for claims that name none; None: the file's, else this machine's platform.
        out: where the verdicts go as JSON; None: nowhere.
        earlier: verdicts on the same text that were recorded before; what was not false then is *changed* at worst.

    Returns:
        The exit code: 0, or 1 where a correct form that the file gives does not hold.

    Raises:
        InputError: an unusable file or card, verdicts that exist already, or no vLLM here.

    """
    if out and out.exists():
        raise InputError(f"'{out}' exists already; verdicts are written once, under a name of their own")
    file = read_claims(path)
    before = read_verdicts(earlier) if earlier else None
    named = str(read_card(card)) if card else None
    told = ask_vllm(file, named, find_root())
    verdicts = judge_claims(file, told, named, before)
    print(render_verdicts(verdicts), end="")
    if out:
        try:
            out.write_text(verdicts_json(verdicts), encoding="utf-8", newline="\n")
        except OSError as error:
            raise InputError(f"'{out}' cannot be written: {error.strerror}") from None
    return 1 if verdicts.wrong_corrections() else 0
