"""Records of servers on two L4: the builders of `make_records`, with a second card beside the first."""

from make_records import STARTED_S, build, make_canary, make_launch, make_machine, make_run

from study.design.card_facts import CardColumns, CardOfLaunch, FurtherCard

FIRST, SECOND = "GPU-1", "GPU-2"
SECOND_NAMED = "card 2 of 2 (GPU-2)"


def make_further_card(**fields):
    """The second card of the machine, of the same kind."""
    seen = {"gpu_name": "NVIDIA L4", "gpu_index": 1, "gpu_memory_gib": 22.5, "max_sm_clock_mhz": 2040.0}
    return build(FurtherCard, {"gpu_uuid": SECOND, "power_limit_w": 72.0, **seen, **fields})


def make_two_cards(**fields):
    """A machine of two L4."""
    return make_machine(further_cards=[make_further_card(**fields)])


def make_launch_on_two(level="default", block=1, second=None, **fields):
    """A launch on both; `second` are the second card's fields: canaries, temperature and power at rest."""
    canaries = {"canary_before": make_canary(), "canary_after": make_canary(started_s=2003.0)}
    around = {"gpu_uuid": SECOND, **canaries, "idle_c": 41.0, "idle_power_w": 32.0, **(second or {})}
    cards = {"machine": make_two_cards(), "further_cards": [build(CardOfLaunch, around)]}
    return make_launch(level, block, **{**cards, **fields})


def make_second_columns(t_s, **fields):
    """The second card's samples: a column given as a number holds it throughout."""
    power_w = fields.pop("power_w", 68.0)
    columns = {"sm_clock_mhz": 1260.0, "memory_clock_mhz": 6250.0, "temperature_c": 58.0, "memory_temperature_c": None}
    drawn_w = power_w if isinstance(power_w, int | float) else 68.0
    energy_j = [drawn_w * (one - STARTED_S) + 5e5 for one in t_s]
    columns |= {"power_w": power_w, "energy_j": energy_j, "event_reasons": 0, "gpu_utilisation": 99.0, **fields}
    counters = dict.fromkeys(("sw_power_cap", "sw_thermal", "hw_thermal", "power_brake"), 0)
    around = {"throttle_before_ns": counters, "throttle_after_ns": counters}
    rest = ("missing", "field_errors")
    spread = {name: [one] * len(t_s) if isinstance(one, int | float) else one for name, one in columns.items()}
    kept = {name: spread[name] for name in rest if name in spread}
    return build(CardColumns, {"gpu_uuid": SECOND, **around, **spread, **kept})


def make_run_on_two(launch=None, second=None, **fields):
    """A run on both; `second` are columns of the second card, or a function of the sample times that returns them."""
    launch = launch or make_launch_on_two()
    run = make_run(launch, **fields)
    given = second(run.telemetry.t_s) if callable(second) else second or {}
    columns = make_second_columns(run.telemetry.t_s, **given)
    return run.model_copy(update={"telemetry": run.telemetry.model_copy(update={"further_cards": [columns]})})
