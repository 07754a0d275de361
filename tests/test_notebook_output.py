"""What the notebooks show: tables, and a progress bar where drawing takes long."""

import re

import pytest
from edition_study import make_root, write_study

from study.publish import notebook
from study.publish.sheets import Sheet
from study.publish.study_view import FIGURES, ViewOptions, read_view


@pytest.fixture
def shown(monkeypatch):
    """Collect what a cell shows, each output as its last state."""
    outputs = []

    class Handle:
        def __init__(self, place):
            self.place = place

        def update(self, output):
            outputs[self.place] = output._repr_html_()

    def display(output, display_id=False):
        outputs.append(output._repr_html_())
        return Handle(len(outputs) - 1)

    monkeypatch.setattr(notebook, "display", display)
    return outputs


def test_a_long_table_is_folded_under_its_title(shown):
    notebook.show_sheets(Sheet("a < b", ("x",), (("1",),), folded=True), None, Sheet("c", ("x",), (("2",),)))
    assert shown[0].startswith("<details><summary><b>a &lt; b</b></summary>")
    assert "<details>" not in shown[1]
    assert len(shown) == 2


def test_lines_are_shown_as_they_are(shown):
    notebook.show_lines("a\n  <b>")
    assert shown == ["<pre>a\n  &lt;b&gt;</pre>"]


@pytest.fixture(scope="module")
def view(tmp_path_factory):
    root = make_root(tmp_path_factory.mktemp("project"))
    return read_view(root, write_study(root / "data", "one", blocks=1), ViewOptions())


def test_what_is_done_soon_shows_no_bar(view, shown, monkeypatch):
    monkeypatch.setattr(notebook, "BAR_AFTER_S", 600.0)
    assert tuple(notebook.draw_plates(view)) == FIGURES
    assert shown == []


def test_what_takes_long_shows_one_bar_with_the_time_left(view, shown, monkeypatch):
    monkeypatch.setattr(notebook, "BAR_AFTER_S", 1e-6)
    notebook.draw_plates(view)
    assert len(shown) == 1
    assert re.search(r"figures of one: 100%.* 8/8 \[\d\d:\d\d&lt;00:00", shown[0])
