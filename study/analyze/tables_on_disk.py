"""Writes the tables of a study to its processed folder: the same records give the same bytes.

    data/processed/<study>/<table>.csv, .json   runs, comparison_input, session, session_figures, levels, starts,
                                                left_out
    data/processed/<study>/cards, run_cards     where a study ran on several kinds of card; where servers on several
    data/processed/<study>/validity.json        every check of every run, with what it saw

CSV and JSON hold floats in their shortest exact form, `null` (an empty cell) where a figure is missing, lines that end
in LF, and no time of writing.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from study.analyze.cards_table import run_card_table
from study.analyze.evidence import Evidence
from study.analyze.first_requests import first_request_table
from study.analyze.indented_json import write_indented
from study.analyze.judged_runs import JudgedRun, judge_runs
from study.analyze.level_tables import level_table, start_table
from study.analyze.run_digest import Study
from study.analyze.runs import DEFAULT_BELOW_SHARE
from study.analyze.tables import comparison_input, left_out_table, run_table, session_figures, session_table
from study.design.whole_files import make_folder, write_whole
from study.errors import InputError


def validity_report(study: Study, judged: Sequence[JudgedRun] | None = None) -> dict[str, Any]:
    """Return, by run id, whether a run is valid and counts, and each check and note with what it saw; JSON-ready."""
    return {one.run.run_id: _report(one) for one in judged or judge_runs(study)}


def _report(one: JudgedRun) -> dict[str, Any]:
    return {
        "valid": one.validity.valid,
        "counts": one.counts,
        "reasons": list(one.validity.reasons),
        "left_out": list(one.left_out),
        "evidence": [_evidence(found) for found in one.validity.evidence],
        "notes": [_evidence(note) for note in one.notes],
    }


def _evidence(found: Evidence) -> dict[str, str]:
    return {"code": found.code, "state": found.state, "detail": found.detail}


def write_tables(
    study: Study,
    folder: Path,
    use_for: Mapping[str, str] | None = None,
    levels: Sequence[str] = (),
    below_share: float = DEFAULT_BELOW_SHARE,
) -> list[Path]:
    """Write every table of a study as CSV and JSON, and return the files.

    Args:
        study: the records, or digests of them.
        folder: where to; made if it is not there, files of the same names are replaced.
        use_for: level to what it is for, from the level files.
        levels: the order of levels; without, the default first and the rest by name.
        below_share: of the card's highest SM clock; a busy clock below counts as throttled.

    Raises:
        InputError: the folder cannot be written.

    """
    judged = judge_runs(study, below_share)
    return write_judged(study, judged, make_frames(study, judged, use_for, levels), folder)


def make_frames(
    study: Study, judged: Sequence[JudgedRun], use_for: Mapping[str, str] | None = None, levels: Sequence[str] = ()
) -> dict[str, pd.DataFrame]:
    """Return every table of a study by its name; arguments as in `write_tables`."""
    frames = {
        "runs": run_table(study, judged),
        "comparison_input": comparison_input(study, judged, levels),
        "session_figures": session_figures(study, judged, levels),
        "session": session_table(study, None, levels, judged),
        "levels": level_table(study, use_for, levels),
        "starts": start_table(study, levels),
        "first_requests": first_request_table(study, levels),
        "left_out": left_out_table(study, judged),
    }
    by_card = run_card_table(judged)
    if len(by_card):
        frames["run_cards"] = by_card
    return frames


def write_csv(frame: pd.DataFrame) -> str:
    """Return a table as CSV."""
    return frame.to_csv(index=False, lineterminator="\n")


def write_judged(
    study: Study, judged: Sequence[JudgedRun], frames: Mapping[str, pd.DataFrame], folder: Path
) -> list[Path]:
    """Write tables that are made as CSV and JSON, and what was judged of each run, and return the files.

    Raises:
        InputError: the folder cannot be written.

    """
    texts = {f"{name}.csv": write_csv(frame) for name, frame in frames.items()}
    texts |= {f"{name}.json": _to_json(_to_records(frame)) for name, frame in frames.items()}
    texts["validity.json"] = _to_json(validity_report(study, judged))
    try:
        make_folder(folder)
        return [_replace(folder / name, text) for name, text in sorted(texts.items())]
    except OSError as error:
        raise InputError(f"'{folder}' cannot be written: {error.strerror}; name a folder of yours") from None


def _to_records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows as Python values, None where pandas has a null of any kind."""
    plain = frame.astype(object).where(frame.notna(), None)
    return [dict(zip(plain.columns, row, strict=True)) for row in plain.itertuples(index=False, name=None)]


def _to_json(value: object) -> str:
    return write_indented(value) + "\n"


def _replace(path: Path, text: str) -> Path:
    write_whole(path, text)
    return path
