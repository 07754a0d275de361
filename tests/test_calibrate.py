import numpy as np
import pytest

from study.analyze.calibrate import calibrate, calibrate_looks, render_calibration
from study.analyze.calibrate_noise import Regimes, SimulatedStudy, draw_log_times, draw_regime_logs
from study.errors import InputError

SMALL = SimulatedStudy(studies=500)


def test_log_times_have_the_noise_asked_for():
    study = SimulatedStudy(blocks=50, users=20, levels=1, run_noise=0.005, launch_noise=0.01, effect=0.02)
    logs = draw_log_times(study, 200, np.random.default_rng(1))
    assert logs.shape == (200, 2, 50, 20)
    assert logs.std(axis=-1, ddof=1).mean() == pytest.approx(0.005, rel=0.03)
    assert logs.mean(axis=-1).std(axis=-1, ddof=1).mean() == pytest.approx(np.hypot(0.01, 0.005 / 20**0.5), rel=0.03)
    assert (logs[:, 1] - logs[:, 0]).mean() == pytest.approx(np.log(1.02), abs=0.0005)


# METHOD on -O0 on the H200: runs of 13 s scatter by 17 %, runs of 60 s by 9 %.
@pytest.mark.parametrize(("run_s", "scatter"), [(13.0, 0.17), (60.0, 0.09)])
def test_regimes_scatter_as_the_h200_does(run_s, scatter):
    times = np.exp(draw_regime_logs(Regimes(run_s=run_s), 20_000, np.random.default_rng(1)))
    assert times.std() / times.mean() == pytest.approx(scatter, abs=0.01)


def test_regimes_stay_between_the_two_speeds():
    logs = draw_regime_logs(Regimes(ratio=1.7, run_s=2.0), 5000, np.random.default_rng(1))
    assert logs.min() == pytest.approx(0.0)
    assert logs.max() == pytest.approx(np.log(1.7))


def test_the_same_seed_gives_the_same_rates():
    assert calibrate(SMALL, np.random.default_rng(1)) == calibrate(SMALL, np.random.default_rng(1))


def test_every_rate_lies_in_its_interval():
    result = calibrate(SMALL, np.random.default_rng(1))
    for name in ("comparison", "overall", "family_users", "study_raw", "wrong_sign", "undecided", "range_rule"):
        rate = getattr(result, name)
        assert 0 <= rate.low <= rate.point <= rate.high <= 1
        assert (rate.n, rate.unit) == (500, "study")


def test_shares_of_overall_verdicts_add_up():
    tight = SimulatedStudy(studies=500, run_noise=0.001, launch_noise=0.001)
    result = calibrate(tight, np.random.default_rng(1))
    assert result.equivalent.point > 0.99
    assert result.undecided.point < 0.01


def test_more_blocks_find_more():
    costly = {"effect": 0.02, "studies": 2000, "users": 1, "levels": 1}
    few, many = (
        calibrate(SimulatedStudy(blocks=blocks, **costly), np.random.default_rng(1)).overall.point for blocks in (3, 8)
    )
    assert many > few + 0.2


def test_a_faster_level_is_not_called_slower():
    result = calibrate(SimulatedStudy(effect=-0.05, studies=500), np.random.default_rng(1))
    assert result.overall.point > 0.9
    assert result.wrong_sign.point == 0


# METHOD: with looks after 3, 5 and 8 blocks 4.3 % false; a 10 % cost at sd(d) 1.58 % ends after 3.7 blocks on average.
def test_looks_keep_the_false_rate():
    looks = calibrate_looks(SimulatedStudy(users=1), np.random.default_rng(1))
    assert looks.difference.point == pytest.approx(0.043, abs=0.006)


def test_looks_end_a_clear_study_early():
    looks = calibrate_looks(SimulatedStudy(users=1, effect=0.10), np.random.default_rng(1))
    assert looks.blocks.point == pytest.approx(3.7, abs=0.1)
    assert looks.difference.point > 0.999


def test_looks_end_an_equivalent_study_early():
    quiet = SimulatedStudy(users=1, run_noise=0.0005, launch_noise=0.0005, studies=1000)
    looks = calibrate_looks(quiet, np.random.default_rng(1))
    assert looks.equivalent.point > 0.9
    assert looks.blocks.point < 3.5


def test_the_table_names_the_setup_and_every_rate():
    result = calibrate(SMALL, np.random.default_rng(1))
    text = render_calibration(result, calibrate_looks(SMALL, np.random.default_rng(2)))
    assert text.startswith("500 simulated studies: 4 levels, 7 numbers of users, 5 blocks")
    assert "difference false, overall cost of a level" in text
    assert "stopping early: blocks on average" in text
    assert f"{100 * result.study_raw.point:6.2f} %" in text


def test_the_table_says_found_where_there_is_a_cost_and_warns_of_two_blocks():
    study = SimulatedStudy(studies=50, effect=0.1, blocks=2, regimes=Regimes())
    text = render_calibration(calibrate(study, np.random.default_rng(1)))
    assert "difference found" in text
    assert "2 blocks earn no verdict" in text
    assert "two speeds" in text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"blocks": 1}, "blocks 1"),
        ({"users": 0}, "users 0"),
        ({"effect": -1.0}, "effect -1"),
        ({"margin": 0.0}, "margin 0"),
        ({"alpha": 1.0}, "alpha 1"),
        ({"run_noise": -0.1}, "run_noise -0.1"),
        ({"run_noise": 0.0, "launch_noise": 0.0}, "both 0"),
    ],
)
def test_unusable_setups_are_refused(changes, words):
    with pytest.raises(InputError, match=words):
        SimulatedStudy(**changes)


def test_unusable_regimes_are_refused():
    with pytest.raises(InputError, match="dwell_s 0"):
        Regimes(dwell_s=0.0)
