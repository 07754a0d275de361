"""Publishes an edition: its folder, a comparison with the edition before it, and its line in `editions/CHANGELOG.md`.

    editions/2026.12/section.md, index.html, ...    see `edition`; prose between generated parts is kept
                     comparison.md, comparison.html  set beside the edition before
    editions/CHANGELOG.md                            a line an edition, newest first; prose is kept here too

Folders of other editions are read and never written. A draft (a name that is no `YYYY.MM`) has a folder alone.
"""

from collections.abc import Sequence
from pathlib import Path

from study.design.whole_files import write_whole
from study.errors import InputError
from study.publish.edition import Edition, Follow, draw_quietly, read_edition, save_edition
from study.publish.last_edition import Compared, compare_with_last, release_key
from study.publish.marked_parts import TOP, MarkedText, Prose, read_marked, write_marked
from study.publish.page import Before, render_comparison
from study.publish.plain_text import escape_markdown
from study.publish.stamp import newest_date

COMPARISON = "comparison"
LOG = "CHANGELOG.md"
_LOG_HEAD = "# Editions\n\nNewest first. Each line is generated with its edition."


def publish_edition(root: Path, edition: str, studies: Sequence[str], data_dir: Path | str = "data") -> Path:
    """Read and publish an edition, and return its folder.

    Args:
        root: the project's root.
        edition: name of the folder under `editions/`.
        studies: in the order printed; none: those of its `edition.yaml`.
        data_dir: folder of `raw/`, from the root.

    Raises:
        InputError: what `read_edition` and `save_edition` refuse; a changelog with broken markers. Nothing was written.

    """
    return publish_draft(root, read_edition(root, edition, studies, data_dir), data_dir)


def publish_draft(root: Path, edition: Edition, data_dir: Path | str = "data", follow: Follow = draw_quietly) -> Path:
    """Publish an edition that was read; arguments and errors are those of `publish_edition` and `save_edition`."""
    compared = compare_with_last(root, edition, data_dir)
    log = _read_log(edition.folder.parent / LOG)
    folder = save_edition(edition, None if compared is None else _say_before(compared), follow)
    try:
        _write_comparison(edition, compared)
        if release_key(folder.name) is not None:
            write_whole(folder.parent / LOG, add_entry(log, folder.name, _say_entry(edition, compared)))
    except OSError as error:
        raise InputError(f"'{error.filename}' cannot be written: {error.strerror}") from None
    return folder


def _write_comparison(edition: Edition, compared: Compared | None) -> None:
    """Write the comparison in both forms, or take away one that an earlier build left."""
    page, markdown = (edition.folder / f"{COMPARISON}.{ending}" for ending in ("html", "md"))
    if compared is None or compared.markdown is None:
        for path in (page, markdown):
            path.unlink(missing_ok=True)
    else:
        write_whole(markdown, compared.markdown)
        write_whole(page, render_comparison(edition.file.edition, compared.markdown))


def _say_before(compared: Compared) -> Before:
    if compared.markdown is None:
        return Before(f"The edition before, {compared.before}, could not be read: {compared.reason}.", None)
    return Before(f"The edition before: {compared.before}.", COMPARISON)


def _read_log(path: Path) -> MarkedText:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return MarkedText({}, {TOP: Prose(_LOG_HEAD, 1)})
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"'{path}' cannot be read: {error}") from None
    return read_marked(text, str(path))


def add_entry(log: MarkedText, name: str, text: str) -> str:
    """Return the changelog with the entry of an edition, new or in place of its old one, newest first."""
    entries = {**log.parts, name: text}
    order = sorted(entries, key=lambda one: release_key(one) or (0, 0, 0), reverse=True)
    return write_marked({one: entries[one] for one in order}, log.prose)


def _say_entry(edition: Edition, compared: Compared | None) -> str:
    """Write one line: the edition, what it rests on, its headlines, and where it is set beside the one before."""
    name, views = edition.folder.name, edition.views
    cards = dict.fromkeys(card.name or "CPU host" for view in views for card in view.found.cards)
    versions = dict.fromkeys(f"vLLM {view.found.versions.get('vllm', 'not recorded')}" for view in views)
    newest = max(newest_date(view.records) for view in views)
    about = escape_markdown(", ".join([*versions, *cards, f"records to {newest}"]))
    said = " ".join(str(escape_markdown(view.headline)) for view in views)
    beside = ""
    if compared is not None and compared.markdown is not None:
        beside = f" Set beside {escape_markdown(compared.before)}: [comparison]({name}/{COMPARISON}.md)."
    return f"- **[{name}]({name}/section.md)** ({about}): {said}{beside}"
