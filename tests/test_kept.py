"""Figures and tables that are kept on disk are what was made first, and never for anything else."""

from dataclasses import replace

import pytest
from edition_study import make_root, rewrite_log, write_study

from study.publish.kept import draw_or_take, make_or_take
from study.publish.study_view import FIGURES, ViewOptions, read_view
from study.store import Store


@pytest.fixture
def root(tmp_path):
    write_study(make_root(tmp_path) / "data", "big", blocks=1)
    return tmp_path


def look(root, **options):
    return read_view(root, Store(root / "data", "big"), ViewOptions(**options))


def kept_file(root):
    return root / "data/processed/.cache/big.figures"


def take(view, others=()):
    return list(draw_or_take(view, others, least_runs=1))


def was_drawn(plates):
    return not any(plate.kept for plate in plates)


def test_a_second_time_gives_the_same_files_without_drawing(root):
    first, second = take(look(root)), take(look(root))
    assert was_drawn(first)
    assert [plate.key for plate in second] == list(FIGURES)
    assert all(plate.kept for plate in second)
    assert [plate.svg() for plate in second] == [plate.svg() for plate in first]
    assert [plate.inline_svg("a") for plate in second] == [plate.inline_svg("a") for plate in first]
    assert [plate.full_caption for plate in second] == [plate.full_caption for plate in first]


def test_small_studies_leave_nothing(root):
    assert was_drawn(list(draw_or_take(look(root), ())))
    assert not kept_file(root).exists()


def test_another_choice_of_users_or_margin_is_drawn_again(root):
    take(look(root))
    assert was_drawn(take(look(root, users=(1,))))
    assert was_drawn(take(look(root, margin=0.05)))


def test_a_record_of_other_bytes_is_drawn_again(root):
    take(look(root))
    path = next(Store(root / "data", "big").raw.glob("run-*-u1-a1.json"))
    path.write_text(path.read_text() + " ")
    assert was_drawn(take(look(root)))


def test_a_changed_or_lost_log_is_drawn_again(root):
    store = Store(root / "data", "big")
    take(look(root))
    store.log_path("b1-default-a1").unlink()
    assert was_drawn(take(look(root)))
    rewrite_log(store, "b1-default-a1", "INFO 09-21 14:13:25 [api_server.py:1] vLLM API server version 0.31.0\n")
    assert was_drawn(take(look(root)))


def test_another_study_beside_it_is_drawn_again(root):
    view = look(root)
    take(view, [view])
    other = replace(view, lost_logs=("its log is not there",))
    assert was_drawn(take(view, [view, other]))


@pytest.mark.parametrize("spoil", [lambda text: text[:-9], lambda text: text.replace("svg", "SVG", 1), lambda _: ""])
def test_a_damaged_file_is_drawn_again(root, spoil):
    first = take(look(root))
    path = kept_file(root)
    path.write_text(spoil(path.read_text()))
    again = take(look(root))
    assert was_drawn(again)
    assert [plate.svg() for plate in again] == [plate.svg() for plate in first]
    assert not was_drawn(take(look(root)))


def test_tables_are_the_same_and_are_made_once(root):
    first = make_or_take(look(root), least_runs=1)
    # the second time a view that can make none is enough
    kept = make_or_take(replace(look(root), judged=()), least_runs=1)
    assert kept == first
    assert first["runs"].startswith("run_id,")
    assert make_or_take(look(root)) == first


def test_tables_of_another_threshold_are_made_again(root):
    make_or_take(look(root), least_runs=1)
    made = make_or_take(look(root, below_share=0.99), least_runs=1)
    assert made == make_or_take(look(root, below_share=0.99))


def test_a_place_that_cannot_be_written_changes_nothing(root):
    kept_file(root).parent.parent.mkdir(exist_ok=True)
    kept_file(root).parent.write_text("a file where the folder would be")
    assert was_drawn(take(look(root)))
