from make_records import build, make_canary, make_gate, make_server_view
from two_cards import FIRST, SECOND, SECOND_NAMED, make_launch_on_two, make_run_on_two

from study.analyze.validity import judge_run
from study.design.card_facts import CardGate, CardProcesses


def find(code, launch=None, second=None, **fields):
    launch = launch or make_launch_on_two()
    validity = judge_run(make_run_on_two(launch, second, **fields), launch)
    return next((one.state, one.detail) for one in validity.evidence if one.code == code), validity


def card_gate(uuid, status, temperature_c, target_c=45.0):
    facts = {"target_c": target_c, "temperature_c": temperature_c, "sm_clock_mhz": None}
    return build(CardGate, {"gpu_uuid": uuid, "status": status, **facts})


def test_a_good_run_on_two_cards_is_valid():
    _, validity = find("run_failed")
    assert validity.valid


def test_a_second_card_that_stayed_warm_is_named():
    cards = [card_gate(FIRST, "reached", 44.0), card_gate(SECOND, "timed_out", 71.0, 47.0)]
    found, validity = find("cool_gate_timed_out", gate=make_gate(status="timed_out", waited_s=300.0, cards=cards))
    assert found == ("failed", f"run: {SECOND_NAMED}: 71.0 degC of 47.0 after 300 s")
    assert "cool_gate_timed_out" in validity.reasons


def test_a_second_card_without_a_temperature_is_named():
    cards = [card_gate(FIRST, "reached", 44.0), card_gate(SECOND, "unavailable", None)]
    found, validity = find("cool_gate_timed_out", gate=make_gate(status="unavailable", cards=cards))
    assert found == ("unavailable", f"{SECOND_NAMED}: not measured in this test")
    assert "cool_gate_timed_out (unavailable)" in validity.reasons


def test_a_throttled_second_card_is_a_fault_of_a_cooled_session():
    found, validity = find("throttled_in_cooled_session", second={"event_reasons": 0x40})
    assert found[0] == "failed"
    assert found[1].startswith(f"{SECOND_NAMED}: hw_thermal in ")
    assert not validity.valid


def test_a_second_card_whose_canary_moved_is_a_fault():
    launch = make_launch_on_two(second={"canary_after": make_canary(gemm_tflops=54.0)})
    found, validity = find("canary_moved", launch)
    assert found == ("failed", f"{SECOND_NAMED}: gemm_tflops -10.0%")
    assert "canary_moved" in validity.reasons


def test_a_second_card_without_a_canary_is_no_pass():
    found, validity = find("canary_moved", make_launch_on_two(second={"canary_after": None}))
    assert found == ("unavailable", f"{SECOND_NAMED}: not measured in this test")
    assert "canary_moved (unavailable)" in validity.reasons


def test_a_foreign_process_on_the_second_card_is_named():
    def seen(uuid, pids):
        return CardProcesses(gpu_uuid=uuid, foreign_gpu_processes=pids)

    server = make_server_view(foreign_gpu_processes=[4711], cards=[seen(FIRST, []), seen(SECOND, [4711])])
    found, validity = find("foreign_gpu_process", server=server)
    assert found == ("failed", f"{SECOND_NAMED}: 1 on the card")
    assert "foreign_gpu_process" in validity.reasons


def test_a_second_card_that_falls_off_the_bus_leaves_a_gap_of_its_own():
    def lost(t_s):
        columns = ("sm_clock_mhz", "temperature_c", "power_w", "event_reasons", "energy_j", "gpu_utilisation")
        here = len(t_s) // 2
        return {name: [1.0 if name != "event_reasons" else 0] * here + [None] * (len(t_s) - here) for name in columns}

    found, validity = find("telemetry_gap", second=lost)
    assert found[0] == "failed"
    assert found[1].startswith(f"{SECOND_NAMED}: longest gap ")
    assert "card 1 of 2" not in found[1]
    assert "telemetry_gap" in validity.reasons
