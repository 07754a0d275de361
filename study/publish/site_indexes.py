"""Pages of the site that list others: editions, studies, downloads."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from study.publish.site_downloads import Archive
from study.publish.site_editions import Published, link_archive, write_files
from study.publish.site_markdown import join_blocks, link, list_pages
from study.publish.site_studies import OnFile


def write_editions_index(
    editions: Sequence[Published], references: Sequence[str], pairs: Sequence[str], changes: bool = False
) -> str:
    """Return the list of editions, the newest first, of what was published before, and of comparisons.

    Args:
        editions: in the order shown.
        references: names of editions of which published medians are all there is.
        pairs: names of pages under `comparisons/`.
        changes: whether a changelog of editions stands beside this page.

    """
    rows = [
        f"| {link(one.name, f'{one.name}/index.md')} | {one.newest} | {_join(one, 'vLLM version')} | "
        f"{_join(one, 'card')} | {'rehearsal, no result' if one.rehearsal else 'result'} |"
        for one in editions
    ]
    head = ["| edition | newest record | vLLM | card | |", "| --- | --- | --- | --- | --- |"]
    none = (
        "No edition of this package has been published yet. Studies on file stand under [Studies](../studies/index.md)."
    )
    published = [f"- {link(f'Edition {name}, as published', f'../published/{name}.md')}" for name in references]
    compared = [f"- {link(name.replace('-beside-', ' beside '), f'../comparisons/{name}.md')}" for name in pairs]
    return join_blocks(
        "# Editions",
        "An edition is the answer for one vLLM release, built from raw records. The newest stands first.",
        "\n".join([*head, *rows]) if rows else none,
        *(["## Published before, medians alone", "\n".join(published)] if published else []),
        *(["## One beside another", "\n".join(compared)] if compared else []),
        *(["- [Changes from edition to edition](changelog.md)"] if changes else []),
        list_pages(
            *(f"{one.name}/index" for one in editions),
            *(["changelog"] if changes else []),
            *(f"/published/{name}" for name in references),
            *(f"/comparisons/{name}" for name in pairs),
        ),
    )


def _join(one: Published, what: str) -> str:
    return ", ".join(dict.fromkeys(stamp.get(what, "") for stamp in one.stamps))


def write_studies_index(studies: Sequence[OnFile]) -> str:
    """Return the list of studies on file."""
    rows = [
        f"| {link(one.published.name, f'{one.published.name}/index.md')} | {_join(one.published, 'card')} | "
        f"{_join(one.published, 'session')} | {_join(one.published, 'blocks')} | "
        f"{'rehearsal, no result' if one.published.rehearsal else ''} |"
        for one in studies
    ]
    head = ["| study | card | session | blocks | |", "| --- | --- | --- | --- | --- |"]
    return join_blocks(
        "# Studies on file",
        "Raw records that lie in this project, each shown as the section that an edition of it would have. Three "
        "blocks give preliminary verdicts, five earn one; one block is no verdict.",
        "\n".join([*head, *rows]) if rows else "No study is on file.",
        list_pages(*(f"{one.published.name}/index" for one in studies)),
    )


def write_data_page(site: Path, schema: Path, archives: Sequence[Archive]) -> str:
    """Return the page of downloads, and copy the schemas that it links to.

    Args:
        site: the site's source.
        schema: folder of the records' JSON Schemas.
        archives: raw archives that were made, below `site`.

    """
    schemas = sorted(schema.glob("*.json"))
    (site / "files" / "schema").mkdir(parents=True, exist_ok=True)
    for path in schemas:
        shutil.copyfile(path, site / "files" / "schema" / path.name)
    listed = [(one.path.name.removesuffix("-raw.tar.gz"), link_archive(one, site)) for one in archives]
    kinds = [
        (f"schema of a {path.name.split('-')[0]}", link(path.name, f"files/schema/{path.name}")) for path in schemas
    ]
    return join_blocks(
        "# Raw data",
        "Every figure here is built from raw records, written once and never edited. An archive holds one folder: "
        "the records, the servers' logs, and `SHA256SUMS`. The same records give the same archive, byte for byte.",
        write_files(listed) if listed else "No raw records are on file.",
        "Unpack an archive into `data/raw/` of a checkout, check it, and build its tables:",
        "```\ntar -xzf STUDY-raw.tar.gz -C data/raw\n(cd data/raw/STUDY && sha256sum --check SHA256SUMS)\n"
        "python -m study check STUDY\npython -m study tables STUDY\n```",
        "What every field means stands in the [data dictionary](data-dictionary.md); JSON Schemas for programs:",
        write_files(kinds),
    )
