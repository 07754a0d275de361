import pytest
from make_records import make_launch, make_machine, make_run, make_telemetry
from pydantic import ValidationError
from two_cards import make_further_card, make_launch_on_two, make_run_on_two, make_second_columns, make_two_cards

from study.design.card_facts import name_card
from study.records import LaunchRecord, RunRecord


def test_records_on_two_cards_come_back_as_they_were():
    launch = make_launch_on_two()
    assert LaunchRecord.model_validate_json(launch.model_dump_json(), strict=True) == launch
    run = make_run_on_two(launch)
    assert RunRecord.model_validate_json(run.model_dump_json(), strict=True) == run


@pytest.mark.parametrize(("kind", "made"), [(LaunchRecord, make_launch), (RunRecord, make_run)])
def test_a_record_from_before_there_were_several_cards_is_valid(kind, made):
    record = made()
    old = record.model_dump(mode="json")
    for part in (old, old.get("machine") or {}, old.get("telemetry") or {}):
        part.pop("further_cards", None)
    for part in (old["gate"], old.get("server") or {}):
        part.pop("cards", None)
    assert kind.model_validate(old) == record


def test_a_launch_speaks_of_the_cards_of_its_machine():
    with pytest.raises(ValidationError, match="'further_cards' has"):
        make_launch(machine=make_two_cards())
    with pytest.raises(ValidationError, match="'further_cards' has"):
        make_launch_on_two(machine=make_machine(further_cards=[make_further_card(gpu_uuid="GPU-9")]))


def test_columns_of_a_further_card_are_as_long_as_the_samples():
    short = make_second_columns([1000.0, 1000.1], sm_clock_mhz=[1.0, 2.0])
    with pytest.raises(ValidationError, match="has 2 entries beside"):
        make_telemetry(1000.0, 1001.0).model_validate(
            {**make_telemetry(1000.0, 1001.0).model_dump(), "further_cards": [short.model_dump()]}
        )


def test_nothing_of_a_further_card_is_null_without_a_reason():
    with pytest.raises(ValidationError, match="'power_limit_w' is null without a reason"):
        make_further_card().model_validate({**make_further_card().model_dump(), "power_limit_w": None})


def test_a_card_is_named_by_its_place_from_one():
    assert name_card(1, ["GPU-a", "GPU-b"]) == "card 2 of 2 (GPU-b)"
