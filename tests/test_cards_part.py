"""An edition of a study whose blocks came from two kinds of card."""

import json

import pytest
from edition_study import make_root, write_study

from study.publish.cards_part import TITLE
from study.publish.edition import write_edition

H200 = {"gpu_name": "NVIDIA H200", "gpu_uuid": "GPU-H", "gpu_memory_gib": 140.0, "max_sm_clock_mhz": 1980.0}


def move_blocks(store, blocks):
    """Say that the launches of these blocks were on an H200."""
    for path in store.raw.glob("launch-*.json"):
        record = json.loads(path.read_text())
        if record["block"] in blocks:
            record["machine"] |= H200
            path.write_text(json.dumps(record) + "\n")


@pytest.fixture(scope="module")
def edition(tmp_path_factory):
    root = make_root(tmp_path_factory.mktemp("root"))
    move_blocks(write_study(root / "data", "both", blocks=6, costs={"default": 0.0, "eager": 0.022}), {4, 5, 6})
    return write_edition(root, "cards", ["both"])


def test_the_section_shows_the_levels_on_each_card_and_pools_none(edition):
    section = (edition / "section.md").read_text()
    assert TITLE in section
    assert "On one NVIDIA H200 " in section
    assert "On one NVIDIA L4 " in section
    assert "This study ran on 2 kinds of card: NVIDIA H200 (1 with 3 blocks), NVIDIA L4 (1 with 3 blocks)." in section
    assert "Each level against default, over all users" not in section
    assert "NVIDIA L4: default / eager: medians over runs" in section


def test_the_table_across_cards_is_published_beside_the_others(edition):
    (table,) = edition.glob("tables/*cards.csv")
    rows = table.read_text().splitlines()
    assert rows[0].startswith("card,cards_each,machines,blocks,level,users,")
    assert {row.split(",")[0] for row in rows[1:]} == {"NVIDIA H200", "NVIDIA L4"}
    assert not list(edition.glob("tables/*run_cards.csv"))  # one card a server
