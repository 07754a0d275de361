"""The stamp: what was measured, on what, and when; all from the records."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

import study
from study.analyze.findings import Findings
from study.analyze.formats import format_model
from study.analyze.run_digest import Study
from study.design.counting import format_counted
from study.publish.sheets import Sheet

NOT_RECORDED = "not recorded"


def newest_date(records: Study) -> str:
    """Return the day (UTC) of the newest record, so that an edition built again says the same."""
    stamps = [*(one.spawn_unix_s for one in records.launches), *(one.started_unix_s for one in records.runs)]
    return datetime.fromtimestamp(max(stamps), tz=UTC).date().isoformat()


def make_stamp(edition: str, found: Findings, records: Study) -> Sheet:
    """Lay out the stamp of one study."""
    machines = [launch.machine for launch in records.launches]
    asked = found.comparable
    rows = (
        ("vLLM version", found.versions.get("vllm", NOT_RECORDED)),
        ("vLLM commit", _join(one.vllm_commit for one in machines)),
        ("date of the newest record", newest_date(records)),
        ("edition", edition),
        ("card", _say_cards(found)),
        ("driver", _join(one.driver_version for one in machines)),
        ("host", _join(one.cpu_model for one in machines)),
        ("model", format_model(asked)),
        ("weights", "random: speed does not depend on their values" if _is_dummy(asked) else "the model's own"),
        ("pool", _say_pool(found)),
        ("session", str(found.session or NOT_RECORDED)),
        ("blocks", f"{len(found.blocks)}, {'a fresh server each' if found.fresh_servers else 'one server a level'}"),
        ("study", found.study),
        ("study fingerprint", str(found.fingerprint or NOT_RECORDED)),
        ("rehearsal", "yes: this is no result" if found.rehearsal else "no"),
        ("built by", f"vllm-compile-study {study.__version__}"),
    )
    return Sheet(f"Stamp of {found.study}", ("what", "value"), rows)


def _is_dummy(asked: Mapping[str, object]) -> bool:
    return asked.get("load_format") == "dummy"


def _join(values: Iterable[str | None]) -> str:
    return ", ".join(sorted({value or NOT_RECORDED for value in values})) or NOT_RECORDED


def _say_cards(found: Findings) -> str:
    if found.device == "cpu":
        return "none: vLLM's CPU backend"
    names = [f"{card.name or NOT_RECORDED} ({format_counted(card.launches, 'launch')})" for card in found.cards]
    return ", ".join(names) or NOT_RECORDED


def _say_pool(found: Findings) -> str:
    asked = found.comparable
    lengths = [
        f"{asked[name]} {text}"
        for name, text in (("input_tokens", "tokens in"), ("output_tokens", "tokens out"))
        if name in asked
    ]
    return ", ".join([str(asked.get("pool", NOT_RECORDED)), *lengths])
