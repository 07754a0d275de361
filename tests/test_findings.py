import copy
import random

import pytest
from make_records import (
    COMPARABLE,
    RESOLVED,
    make_cpu_machine,
    make_gate,
    make_launch,
    make_machine,
    make_outcome,
    make_run,
    make_study,
)

from study.analyze.breakeven import Regime
from study.analyze.compare_types import Verdict
from study.analyze.findings import FindOptions, find
from study.design.parameters import fingerprint
from study.errors import InputError

SWITCHES = {
    "O0": {"optimization_level": 0, "mode": 0, "cudagraph_mode": 0, "autotune": False},
    "O3": {"optimization_level": 3},
    "eager": {"mode": 0, "cudagraph_mode": 0, "enforce_eager": True, "jit": False},
    "graphs-only": {"optimization_level": 0, "mode": 0, "cudagraph_mode": [2, 0], "autotune": False},
    "compile-only": {"cudagraph_mode": 0},
}


def resolve(level):
    """What a server of this level answers, apart from what is alike in all."""
    told, asked = copy.deepcopy(RESOLVED), SWITCHES.get(level, {})
    told["optimization_level"] = asked.get("optimization_level", 2)
    for name in ("mode", "cudagraph_mode"):
        told["compilation_config"][name] = asked.get(name, told["compilation_config"][name])
    told["model_config"]["enforce_eager"] = asked.get("enforce_eager", False)
    told["kernel_config"] = {
        "enable_jit_warmup": asked.get("jit", True),
        "enable_flashinfer_autotune": asked.get("autotune", True),
    }
    return told


def power_of(tpot_ms, base_ms, idle_w=120.0, base_w=437.0):
    """Power of a card that does the default's work per token in another time."""
    return idle_w + (base_w - idle_w) * base_ms / tpot_ms


class Card:
    """A card on which levels cost what the test says; scatter is drawn from a seed."""

    def __init__(self, tpot_ms, start_s, noise=0.003, blocks=5, seed=1, **shared):
        self.tpot_ms, self.start_s, self.noise, self.blocks = tpot_ms, start_s, noise, blocks
        self.draw, self.shared = random.Random(seed), shared
        self.machine = shared.pop("machine", make_machine(gpu_name="NVIDIA H200", max_sm_clock_mhz=1980.0))
        self.telemetry = shared.pop("telemetry_fields", {})

    def launch(self, level, block, **fields):
        start_s = self.start_s[level] * (1 + self.draw.gauss(0, 0.01))
        facts = {"resolved": resolve(level), "machine": self.machine, "idle_power_w": 120.0, **self.shared}
        return make_launch(level, block, **{"first_token_s": 800.0 + start_s, **facts, **fields})

    def run(self, launch, users, tpot_ms):
        scattered = tpot_ms * (1 + self.draw.gauss(0, self.noise))
        power_w = power_of(scattered, self.tpot_ms["default"][users])
        fields = {"sm_clock_mhz": 1980.0, "power_w": power_w, "period_s": 0.5, **self.telemetry}
        gate = {"gate": self.shared["gate"]} if "gate" in self.shared else {}
        return make_run(launch, users, tpot_ms=scattered, tokens=1025, waves=4, telemetry_fields=fields, **gate)

    def study(self):
        launches = [self.launch(level, block) for block in range(1, self.blocks + 1) for level in self.start_s]
        runs = [
            self.run(launch, users, tpot_ms)
            for launch in launches
            for users, tpot_ms in self.tpot_ms.get(launch.level, {}).items()
        ]
        return make_study(launches, runs)


H200_TPOT = {"default": {1: 5.09, 8: 5.42}, "O3": {1: 5.09, 8: 5.43}, "O0": {1: 24.0, 8: 25.0}}
H200_START = {"default": 69.0, "O3": 69.0, "O0": 36.0}


@pytest.fixture(scope="module")
def h200():
    return find(Card(H200_TPOT, H200_START).study())


def test_identity(h200):
    assert (h200.session, h200.device, h200.rehearsal) == ("cooled", "cuda", False)
    assert h200.levels == ("default", "O0", "O3")
    assert (h200.users, h200.blocks, h200.seeds) == ((1, 8), (1, 2, 3, 4, 5), (1, 2, 3, 4, 5))
    assert [(card.name, card.launches) for card in h200.cards] == [("NVIDIA H200", 15)]
    assert h200.versions == {"vllm": "0.31.0"}
    assert h200.comparable == COMPARABLE
    assert h200.fresh_servers


def test_levels_that_resolved_alike_are_one_result(h200):
    assert h200.aa_pairs == (("default", "O3"),)
    assert h200.results == ("O0",)
    assert h200.comparison.aa[0].contains_zero is True


def test_o0_costs_what_was_built_in(h200):
    pair = h200.pair("O0", 1)
    assert pair.verdict is Verdict.SLOWER
    assert pair.effect_percent.point == pytest.approx(100 * (24.0 / 5.09 - 1), rel=0.01)
    assert h200.pair("O0", 4) is None


def test_a_card_that_does_the_same_work_in_more_time_waits_for_its_host(h200):
    seen = next(one for one in h200.host_bound if (one.level, one.users) == ("O0", 1))
    assert seen.holds
    assert seen.energy_ratio == pytest.approx(1.0, abs=0.02)
    assert seen.time_ratio == pytest.approx(4.7, abs=0.1)
    assert "4.7" in seen.evidence
    assert not next(one for one in h200.host_bound if one.level == "O3").holds


def test_break_even_is_that_of_the_formula(h200):
    at = next(one for one in h200.break_evens if (one.level, one.users) == ("O0", 1))
    assert at.result.regime is Regime.WINS_UNTIL
    # S_D + T_D (S_D - S_X) / (T_X - T_D), a token's time being N / output throughput.
    x, d = at.level_input, at.default_input
    start, token = d.start_s.mean() - x.start_s.mean(), x.token_s.mean() - d.token_s.mean()
    assert at.result.t_star_s.point == pytest.approx(d.start_s.mean() + d.token_s.mean() * start / token)
    assert at.result.t_star_s.point == pytest.approx(78, abs=2)
    assert (at.cache, at.unit, at.result.t_star_s.n) == ("warm", "block", 5)


def test_start_gain(h200):
    gain = next(one for one in h200.start_gains if one.level == "O0")
    assert gain.gain_s.contains(33.0)
    assert gain.gain_s.low > 30


def test_an_empty_study_has_reasons():
    found = find(make_study([]))
    assert (found.session, found.levels, found.comparison) == (None, (), None)
    assert found.comparison_reason == "the study has no record"
    assert found.break_even_reason == "nothing was launched"
    assert found.throttling is None


def test_starts_alone():
    found = find(Card({}, {"default": 69.0, "eager": 36.0}).study())
    assert found.comparison is None
    assert "starts alone" in found.comparison_reason
    assert (found.break_evens, found.users) == ((), ())
    assert "starts alone" in found.break_even_reason
    assert found.failed_levels == {}
    assert found.start_gains[0].gain_s.contains(33.0)


@pytest.mark.parametrize("blocks", [1, 2])
def test_few_blocks_decide_nothing(blocks):
    found = find(Card(H200_TPOT, H200_START, blocks=blocks).study())
    assert found.pair("O0").verdict is Verdict.UNDECIDED
    assert found.break_evens[0].result.regime is Regime.UNDECIDED
    assert found.start_gains[0].gain_s.low is None
    assert found.start_gains[0].reason.startswith(f"{blocks} block")
    assert found.comparison.notes == ("A/A not measured",)


def test_all_runs_invalid():
    study = Card(H200_TPOT, H200_START, blocks=1).study()
    runs = [run.model_copy(update={"outcome": make_outcome(status="failed", stage="load")}) for run in study.runs]
    found = find(make_study(study.launches, runs))
    assert found.comparison_reason == "none of 6 runs counts: run_failed"
    assert found.failed_levels["O0"] == "no run counts: run_failed"
    assert len(found.left_out) == 6


def test_the_default_must_be_measured():
    found = find(
        Card({"O0": {1: 24.0}, "default": {1: 5.0}}, {"O0": 36.0, "default": 60.0}).study(), FindOptions(default="O2")
    )
    assert found.comparison is None
    assert "'O2' has no run that counts; levels that have: default, O0" in found.comparison_reason
    assert "'O2'" in found.break_even_reason


def test_only_the_default():
    found = find(Card({"default": {1: 5.0}}, {"default": 69.0}).study())
    assert "only the default" in found.comparison_reason
    assert found.results == ()


def test_a_level_that_does_not_start_has_its_reason_and_no_figure():
    card = Card(H200_TPOT, H200_START)
    study = card.study()
    bad = make_outcome(status="failed", stage="ready", message="out of memory")
    none = dict.fromkeys(("healthy_s", "first_token_s", "resolved"))
    failed = [card.launch("O0", block, outcome=bad, **none) for block in range(1, 6)]
    kept = [one for one in study.launches if one.level != "O0"]
    found = find(make_study([*kept, *failed], [run for run in study.runs if run.level != "O0"]))
    assert found.failed_levels == {"O0": "failed at ready: out of memory"}
    assert [pair.level for pair in found.comparison.overall] == ["O3"]
    assert found.break_evens == ()


def test_starts_that_fill_caches_are_kept_out():
    study = Card(H200_TPOT, H200_START, blocks=3).study()
    fill = make_launch("default", 0, launch_id="fill-default-a1", fills_caches=True, resolved=resolve("default"))
    found = find(make_study([fill, *study.launches], study.runs))
    assert found.unmeasured == ("fill-default-a1",)
    assert found.blocks == (1, 2, 3)
    assert found.starts.set_index("level").loc["default", "n"] == 3


def test_seeds_on_one_server_are_no_blocks():
    comparable = {**COMPARABLE, "fresh_server_per_seed": False}
    shared = {"comparable": comparable, "fingerprint": fingerprint(comparable)}
    card = Card({"default": {1: 5.0}, "O0": {1: 24.0}}, {"default": 69.0, "O0": 36.0})
    launches = [card.launch(level, 1, **shared) for level in ("default", "O0")]
    runs = [
        card.run(launch, 1, card.tpot_ms[launch.level][1]).model_copy(
            update={"seed": seed, "run_id": f"b{seed}-{launch.level}-u1-a1"}
        )
        for launch in launches
        for seed in (1, 2, 3, 4, 5)
    ]
    found = find(make_study(launches, runs))
    assert not found.fresh_servers
    assert found.pair("O0").verdict is Verdict.UNDECIDED
    assert found.break_evens[0].level_input.start_s.size == 1


def throttled_card(clock_mhz, uuid="GPU-1"):
    comparable = {**COMPARABLE, "session": "throttled"}
    gate = make_gate(kind="soak", sm_clock_mhz=clock_mhz, target_c=None, target_source=None)
    shared = {"session": "throttled", "comparable": comparable, "fingerprint": fingerprint(comparable), "gate": gate}
    return Card(
        {"default": {1: 104.0}, "O0": {1: 106.0}},
        {"default": 69.0, "O0": 36.0},
        machine=make_machine(gpu_name="NVIDIA H200", gpu_uuid=uuid, max_sm_clock_mhz=1980.0),
        telemetry_fields={"sm_clock_mhz": clock_mhz, "period_s": 2.0},
        **shared,
    )


@pytest.mark.parametrize(("clock_mhz", "reached"), [(210.0, True), (1900.0, False)])
def test_a_throttled_session_says_whether_it_was(clock_mhz, reached):
    found = find(throttled_card(clock_mhz).study())
    assert found.throttling.asked
    assert found.throttling.reached is reached
    assert (found.throttling.throttled, found.throttling.judged) == (10 if reached else 0, 10)
    assert f"{clock_mhz:.0f}" in found.throttling.evidence[0]
    assert (found.comparison is not None) is reached


def test_units_stand_in_the_order_of_their_blocks_whatever_cards_are_called():
    study = Card({"default": {1: 5.0}, "O0": {1: 24.0}}, {"default": 69.0, "O0": 36.0}, blocks=3).study()
    cards = {1: "GPU-c", 2: "GPU-a", 3: "GPU-b"}
    named = [
        one.model_copy(update={"machine": make_machine(gpu_name="NVIDIA H200", gpu_uuid=cards[one.block])})
        for one in study.launches
    ]
    found = find(make_study(named, study.runs))
    starts = {(one.level, one.block): one.first_token_s - one.spawn_s for one in study.launches}
    in_order = [starts["default", block] for block in (1, 2, 3)]
    assert found.start_gains[0].default_s == pytest.approx(in_order)
    assert found.break_evens[0].default_input.start_s == pytest.approx(in_order)


def test_blocks_over_two_machines_make_the_machine_the_unit():
    study = Card({"default": {1: 5.0}, "O0": {1: 24.0}}, {"default": 69.0, "O0": 36.0}).study()
    other = make_machine(gpu_uuid="GPU-2", gpu_name="NVIDIA H200", max_sm_clock_mhz=1980.0)
    launches = [one.model_copy(update={"machine": other}) if one.block > 3 else one for one in study.launches]
    found = find(make_study(launches, study.runs))
    assert found.break_evens[0].unit == "machine"
    assert found.break_evens[0].result.reason == "2 machines: three are preliminary, five earn a verdict"
    assert found.start_gains[0].gain_s.n == 2
    assert len(found.cards) == 2


def test_without_power_the_host_is_not_judged():
    found = find(Card(H200_TPOT, H200_START, blocks=1, telemetry_fields={"power_w": None}).study())
    assert found.host_bound[0].holds is None
    assert found.host_bound[0].evidence.startswith("not measured: ")
    assert found.host_bound[0].time_ratio is not None


def test_a_rehearsal_is_marked():
    comparable = {**COMPARABLE, "device": "cpu"}
    shared = {"rehearsal": True, "comparable": comparable, "fingerprint": fingerprint(comparable)}
    found = find(Card(H200_TPOT, H200_START, blocks=1, machine=make_cpu_machine(), **shared).study())
    assert found.rehearsal
    assert found.device == "cpu"


def test_order_of_levels_and_of_files():
    study = Card(H200_TPOT, H200_START, blocks=3).study()
    assert find(study, FindOptions(levels=("O3", "default", "O0"))).levels == ("default", "O3", "O0")
    turned = make_study(study.launches[::-1], study.runs[::-1])
    assert find(turned).comparison == find(study).comparison


@pytest.mark.parametrize("wrong", [{"margin": 1.5}, {"alpha": 0.0}, {"below_share": 2.0}])
def test_options_are_shares(wrong):
    with pytest.raises(InputError, match="share between 0 and 1"):
        FindOptions(**wrong)
