import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
from edition_study import BASE_MS, COSTS, write_study
from matplotlib.text import Text

from study.analyze.compare import compare_levels
from study.analyze.compare_types import CompareOptions
from study.analyze.tables import comparison_input, run_table
from study.publish.figures import draw_starts, draw_tpot
from study.publish.forest import draw_costs, list_rows
from study.publish.level_marks import KNOWN, OTHERS, mark_level
from study.publish.panels import Frame
from study.publish.plates import ALARM, ALARM_INK, DARK_GROUND, DARK_INK, GROUND, INK, REHEARSAL
from study.publish.run_figures import draw_clock
from study.publish.study_view import tabulate_starts
from study.publish.traces import trace_card

BLOCKS = 3
FRAME = Frame(tuple(COSTS), tuple(BASE_MS), rehearsal=False)


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    return write_study(tmp_path_factory.mktemp("data"), blocks=BLOCKS).read()


@pytest.fixture(scope="module")
def comparison(records):
    return compare_levels(comparison_input(records), CompareOptions(alike=(("default", "O3"),)))


def points(axes):
    return sum(len(one.get_offsets()) for one in axes.collections if hasattr(one, "get_sizes") and len(one.get_sizes()))


def labels(axes):
    return [label.get_text() for label in axes.get_yticklabels()]


def test_tpot_has_a_point_for_every_level_and_seed(records):
    plate = draw_tpot(run_table(records), FRAME)
    panels = [axes for axes in plate.figure.axes if axes.axison]
    assert [axes.get_title() for axes in panels] == ["1 user", "8 users"]
    assert [points(axes) for axes in panels] == [BLOCKS * len(COSTS)] * 2
    assert labels(panels[0]) == list(COSTS)


def test_tpot_says_its_medians_and_unit(records):
    plate = draw_tpot(run_table(records), FRAME)
    assert "1 user: default 60.3" in plate.alt
    assert [axes.get_xlabel() for axes in plate.figure.axes] == ["median TPOT, ms per token"] * 2


def test_a_run_that_does_not_count_is_not_drawn(records):
    runs = run_table(records)
    runs.loc[0, "counts"] = False
    assert points(draw_tpot(runs, FRAME).figure.axes[0]) == BLOCKS * len(COSTS) - 1


def test_starts_have_a_point_a_launch(records):
    plate = draw_starts(tabulate_starts(records), FRAME)
    assert points(plate.figure.axes[0]) == BLOCKS * len(COSTS)
    assert "warm caches: default 68.9" in plate.alt
    assert "seconds" in plate.figure.axes[0].get_xlabel()


def test_a_level_without_a_run_that_counts_is_named_in_its_row(records):
    runs = run_table(records)
    runs.loc[runs["level"] == "eager", "counts"] = False
    texts = [text.get_text() for text in draw_tpot(runs, FRAME).figure.axes[0].texts]
    assert texts.count("no run counts") == 1


def test_the_median_stands_beside_its_points(records):
    texts = [text.get_text() for text in draw_tpot(run_table(records), FRAME).figure.axes[0].texts]
    assert len(texts) == len(COSTS)
    assert texts[0].startswith("60.")


def test_levels_far_apart_get_a_logarithmic_axis(tmp_path):
    runs = run_table(write_study(tmp_path, costs={"default": 0.0, "O0": 6.0}, blocks=1).read())
    frame = Frame(("default", "O0"), (1,), rehearsal=False)
    assert draw_tpot(runs, frame).figure.axes[0].get_xscale() == "log"
    assert draw_tpot(runs[runs["level"] == "default"], frame).figure.axes[0].get_xscale() == "linear"


def test_costs_have_every_pair_the_margin_and_the_aa_pair(comparison):
    plate = draw_costs(comparison, FRAME)
    axes = plate.figure.axes[0]
    assert labels(axes) == [
        *(f"{level}{name}" if level else name for level in ("O0", "O3", "eager")
          for level, name in ((level, ", overall"), ("", "1 user"), ("", "8 users"))),
        "A/A: O3 and default",
    ]  # fmt: skip
    assert [band.get_width() for band in axes.patches] == [2.0]
    assert "eager +2.2" in plate.alt
    assert "slower (preliminary)" in plate.alt
    assert "percent" in axes.get_xlabel()


def test_a_row_keeps_its_interval(comparison):
    row = list_rows(comparison, FRAME)[0]
    assert row.estimate.low < row.estimate.point < row.estimate.high


def test_without_a_comparison_the_figure_says_why():
    assert "no run counts" in draw_costs(None, FRAME, "no run counts").alt


def test_a_fast_card_gets_a_logarithmic_axis(tmp_path):
    records = write_study(tmp_path, costs={"default": 0.0, "O0": 4.0, "O3": 0.002}).read()
    plate = draw_costs(compare_levels(comparison_input(records)), FRAME)
    axes = plate.figure.axes[0]
    assert axes.get_xscale() == "symlog"
    plate.figure.canvas.draw()
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["\N{MINUS SIGN}2", "0", "2", "10", "100", "1000"]


def test_svg_is_the_same_twice_and_has_no_date(records):
    first, second = (draw_tpot(run_table(records), FRAME) for _ in range(2))
    assert first.svg() == first.svg() == second.svg()
    assert "dc:date" not in first.svg()


def test_the_readers_settings_change_nothing(records):
    plain = draw_starts(tabulate_starts(records), FRAME).svg()
    with mpl.rc_context({"font.size": 20, "svg.fonttype": "none", "axes.facecolor": "red"}):
        assert draw_starts(tabulate_starts(records), FRAME).svg() == plain
        assert mpl.rcParams["font.size"] == 20


def test_figures_leave_pyplot_alone(records, comparison):
    draw_costs(comparison, FRAME).png()
    draw_clock(trace_card(records.runs), FRAME).png()
    assert plt.get_fignums() == []


def test_inline_svg_has_ids_of_its_own_and_the_pages_ink(records):
    plate = draw_starts(tabulate_starts(records), FRAME)
    text = plate.inline_svg("a")
    assert 'id="a-' in text
    assert "currentColor" in text
    assert "#1b1f24" not in text
    assert "<desc" in text
    assert "DOCTYPE" not in text


def test_rehearsal_is_written_on_the_figure_and_in_its_words(tmp_path):
    records = write_study(tmp_path, rehearsal=True, blocks=1).read()
    plate = draw_tpot(run_table(records), Frame(tuple(COSTS), (1,), rehearsal=True))
    assert plate.figure.get_suptitle() == REHEARSAL
    assert plate.full_caption.startswith(REHEARSAL)
    assert plate.full_alt.startswith(REHEARSAL)


def test_png_for_a_notebook_has_alternative_text(records):
    shown = draw_starts(tabulate_starts(records), FRAME)._repr_html_()
    assert 'alt="Start to the first token.' in shown
    assert "data:image/png;base64," in shown


def test_a_level_has_one_mark_whatever_stands_beside_it():
    assert mark_level("default") == KNOWN["default"]
    assert mark_level("my-level") == mark_level("my-level")
    assert mark_level("my-level").colour in {mark.colour for mark in OTHERS}


GROUNDS = (GROUND, DARK_GROUND, "#121212")


@pytest.mark.parametrize("mark", [*KNOWN.values(), *OTHERS])
@pytest.mark.parametrize("ground", GROUNDS)
def test_colours_stand_out_from_light_and_dark_pages(mark, ground):
    assert contrast(mark.colour, ground) >= 3.0  # WCAG 2.2, 1.4.11: graphical objects


@pytest.mark.parametrize(
    ("ink", "ground"), [(INK, GROUND), (DARK_INK, DARK_GROUND), (DARK_INK, "#121212"), (ALARM_INK, ALARM)]
)
def test_letters_are_legible(ink, ground):
    assert contrast(ink, ground) >= 4.5  # WCAG 2.2, 1.4.3: text


def test_no_letter_has_a_colour_of_its_own(records, comparison):
    frame = Frame(FRAME.levels, FRAME.users, rehearsal=True)
    plates = (draw_tpot(run_table(records), frame), draw_costs(comparison, frame))
    texts = [text for plate in plates for text in plate.figure.findobj(Text) if text.get_text()]
    assert {text.get_color() for text in texts if text.get_text() != REHEARSAL} == {INK}
    assert {text.get_color() for text in texts if text.get_text() == REHEARSAL} == {ALARM_INK}


def test_a_file_brings_ground_and_ink_together(records):
    text = draw_starts(tabulate_starts(records), FRAME).svg()
    assert f'color="{INK}"' in text
    assert text.count(INK) == 1
    assert f'class="ground" width="100%" height="100%" fill="{GROUND}"' in text
    dark = f"svg {{ color: {DARK_INK} }} .ground {{ fill: {DARK_GROUND} }}"
    assert f"@media (prefers-color-scheme: dark) {{ {dark} }}" in text


def contrast(one, other):
    first, second = sorted((luminance(one), luminance(other)))
    return (second + 0.05) / (first + 0.05)


def luminance(colour):
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
