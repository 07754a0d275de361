"""The manifest of an edition: every raw file behind it with its SHA-256, and the version of the code.

It has no time of writing, so that building again changes nothing.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import study
from study.analyze.run_digest import Study
from study.store import Store, sha256


@dataclass(frozen=True)
class Source:
    """One study that an edition publishes: where it lies and what was read of it."""

    store: Store
    records: Study


def make_manifest(edition: str, sources: Sequence[Source], references: Mapping[str, str] | None = None) -> str:
    """Return the manifest as JSON, studies in the order published and files by name.

    Args:
        edition: as printed in the stamp.
        sources: its studies.
        references: other files that it prints from: path from the project's root to SHA-256 (hex).

    """
    content: dict[str, object] = {
        "edition": edition,
        "code": {"package": "vllm-compile-study", "version": study.__version__},
        "studies": [_describe(source) for source in sources],
    }
    if references:
        content["references"] = dict(references)
    return json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _describe(source: Source) -> dict[str, object]:
    launches = source.records.launches
    logs = [source.store.log_path(launch.launch_id) for launch in launches]
    files = {**source.records.files, **{path.name: sha256(path) for path in logs if path.is_file()}}
    return {
        "study": source.records.study,
        "fingerprint": launches[0].fingerprint if launches else source.records.runs[0].fingerprint,
        "rehearsal": any(one.rehearsal for one in launches) or any(one.rehearsal for one in source.records.runs),
        "measured_by": sorted({one.machine.study_commit or "not recorded" for one in launches}),
        "files": files,
    }
