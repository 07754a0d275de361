"""Studies on file as pages of the site, and what each level costs on every card: what the site opens with."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from study.analyze.compare_types import Verdict
from study.analyze.versus_types import Part
from study.design.counting import format_counted
from study.publish.edition import Edition, save_edition
from study.publish.edition_file import EditionFile
from study.publish.sheets import Sheet
from study.publish.site_downloads import Archive
from study.publish.site_editions import Published, read_published, write_edition_pages
from study.publish.study_view import ViewOptions, read_view
from study.publish.wording import NOT_ENOUGH, say_percent
from study.record_files import is_record_name
from study.store import Store

NO_EDITION = "none: a study on file"


@dataclass(frozen=True)
class OnFile:
    """A study on file: its page as it was written, and the raw archive."""

    published: Published
    archives: tuple[Archive, ...]


def list_studies(raw: Path) -> list[str]:
    """Return the studies that have records, by name; the folder of schemas has none."""
    folders = sorted(path for path in raw.iterdir() if path.is_dir()) if raw.is_dir() else []
    return [path.name for path in folders if any(is_record_name(file.name, "launch", "run") for file in path.iterdir())]


def write_study_pages(root: Path, data_dir: Path, study: str, target: Path) -> OnFile:
    """Write the pages of one study into its folder of the site's source: the section that an edition of it would have.

    Args:
        root: the project's root, for the level files.
        data_dir: folder of `raw/`.
        study: its name.
        target: its folder in the source tree.

    Raises:
        InputError: its records cannot be read.

    """
    view = read_view(root, Store(data_dir, study), ViewOptions())
    file = EditionFile(edition=NO_EDITION, studies=[study])
    with tempfile.TemporaryDirectory() as made:
        folder = save_edition(Edition(Path(made) / study, file, (view,)))
        published = replace(read_published(folder), is_study=True)
        archives = write_edition_pages(published, target, data_dir / "raw")
    return OnFile(published, tuple(archives))


def list_costs(parts: Sequence[Part]) -> Sheet:
    """Lay out what each level costs on each card, least to greatest over users, and what that rests on."""
    rows = [row for part in parts for level in part.levels if (row := _cost_row(part, level))]
    head = ("card", "session", "level", "time per token against default", "users", "what it rests on")
    return Sheet("What each level costs per token, card by card", head, tuple(rows))


def _cost_row(part: Part, level: str) -> tuple[str, ...] | None:
    if level == part.default:
        return None
    costs = [
        (users, cost) for users in part.users if (cost := part.cost(users, level)) and cost.point_percent is not None
    ]
    if not costs:
        return None
    points = sorted(cost.point_percent for _, cost in costs if cost.point_percent is not None)
    ends = [say_percent(points[0]), say_percent(points[-1])]
    said = f"{' to '.join(dict.fromkeys(ends))} percent" + (" (resolved like default)" if level in part.alike else "")
    users = ", ".join(f"{count:,}" for count, _ in costs)
    return (" and ".join(part.cards) or "no card", str(part.session), level, said, users, _say_ground(part, level))


def _say_ground(part: Part, level: str) -> str:
    """Say what a cost rests on: a publication, a verdict over all users, or too few blocks for one."""
    overall = part.cost(None, level)
    if part.published:
        return f"medians published as {part.name}, not remeasured"
    if overall is None or overall.effect_percent is None:
        return f"{part.name}: no verdict"
    units = format_counted(overall.effect_percent.n, overall.effect_percent.unit)
    if overall.verdict is None:
        return f"{part.name}: {units}, too few for a verdict"
    said = NOT_ENOUGH if overall.verdict is Verdict.UNDECIDED else f"overall {overall.verdict.value}"
    return f"{part.name}: {units}, {said}{' (preliminary)' if overall.preliminary else ''}"
