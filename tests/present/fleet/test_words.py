"""The causes, summary, order and filter of a fleet, from the recorded answers of a real Prometheus."""

from __future__ import annotations

from typing import Any

import pytest

from iotop_ai.export.json.fleet import fleet_object
from iotop_ai.export.text.fleet import fleet_lines
from iotop_ai.fleet.machines import fleet_of
from iotop_ai.fleet.queries import READING
from iotop_ai.model.fleet.records import Fleet, FleetAlert, FleetFinding, FleetMachine
from iotop_ai.model.verdict_class import State
from iotop_ai.present.fleet.words import (
    SORTS,
    alert_words,
    await_words,
    cause_words,
    gpu_words,
    health_words,
    losses,
    lost_words,
    matches,
    sort_machines,
    straggler_words,
    summary,
)
from tests.rigs.fleet.small import WINDOW_S, kept_answers

FLEET = fleet_of(kept_answers(), WINDOW_S)
BY_NAME = {one.name: one for one in FLEET.machines}


def names(key: str, *, reverse: bool = False) -> list[str]:
    return [one.name for one in sort_machines(FLEET.machines, key, reverse=reverse)]


def test_each_machine_has_its_cause_in_words() -> None:
    assert {name: cause_words(one) for name, one in BY_NAME.items()} == {
        "gpu01": "GPU-bound",
        "gpu02": "GPU-bound",
        "gpu03": "slow disk",
        "gpu04": "one thread",
        "gpu05": "failing disk nvme1n1",
        "gpu06": "checkpoint",
        "gpu07": "another rank",
        "gpu08": "another rank",
        "gpu09": "slow disk",
        "node01": "iotop-ai is not running",
        "blank02": "iotop-ai is not running",
    }
    silent = FleetMachine("a", "a:1", ("iotop",), silent=True, age_s=240.0)
    assert cause_words(silent) == "no reading for 4 min"
    assert cause_words(FleetMachine("a", "a:1", ("iotop",), "OK")) == "-"
    assert cause_words(FleetMachine("a", "a:1", ("iotop",))) == "?"


def test_cells_have_health_gpu_use_and_alerts_in_words() -> None:
    assert [health_words(BY_NAME[name]) for name in ("gpu05", "blank02", "gpu01")] == ["FAILING nvme1n1", "ok", "?"]
    assert [gpu_words(BY_NAME[name]) for name in ("gpu05", "blank02", "node01")] == ["-", "?", "80"]
    assert alert_words(BY_NAME["gpu05"]) == "IotopFailingDisk"
    assert alert_words(BY_NAME["gpu01"]._replace(alerts=(FleetAlert("A"), FleetAlert("B")))) == "A +1"


def test_a_wait_for_a_straggler_is_counted_under_the_cause_of_the_straggler() -> None:
    worst = losses(FLEET)[0]
    assert (worst.share, worst.machines) == ("data_disk", 2)
    assert "collective" not in {one.share for one in losses(FLEET)}


def test_the_summary_counts_machines_and_names_the_largest_loss() -> None:
    state, text = summary(FLEET)
    assert state is State.FAILING
    assert text.startswith("8 of 11 machines have trouble; ")
    assert text.endswith(" % data disk (2 machines)")
    calm = FLEET._replace(machines=(BY_NAME["gpu01"],), jobs=())
    assert summary(calm) == (State.OK, "1 machine, nothing wrong")
    state, text = summary(Fleet(0.0, 300.0))
    assert (state, text.startswith("no machine")) == (State.UNSURE, True)
    state, text = summary(calm._replace(machines=(BY_NAME["blank02"],)))
    assert (state, text) == (State.UNSURE, "1 machine, none with a verdict from iotop-ai")
    fine, bare = BY_NAME["gpu01"], BY_NAME["blank02"]
    for other, state in ((bare, State.OK), (fine._replace(state="UNSURE"), State.UNSURE)):
        mixed = calm._replace(machines=(fine, other))
        assert summary(mixed) == (state, "2 machines, nothing wrong seen; 1 without a verdict from iotop-ai")


def test_what_was_not_answered_is_unknown_and_not_absent() -> None:
    """Only the readings, the verdicts and the use of the disks were answered."""
    answers = kept_answers()
    answered = {name: answers[name] for name in (READING, "verdict", "disk use")}
    unanswered = tuple(name for name in answers if name not in answered)
    fleet = fleet_of(answered, WINDOW_S, unanswered)
    one = next(one for one in fleet.machines if one.name == "gpu03")
    state, text = summary(fleet)
    assert (state, text) == (State.UNSURE, f"9 machines, nothing wrong seen; {len(unanswered)} queries not answered")
    assert summary(fleet._replace(unanswered=("alerts",)))[1].endswith("; 1 query not answered")
    unknown = (cause_words(one), alert_words(one), await_words(one), lost_words(one), health_words(one), gpu_words(one))
    assert set(unknown) == {"?"}
    titles, *rows = (line.split() for line in fleet_lines(fleet, (one,))[2:4])
    (row,) = (dict(zip(titles, cells, strict=True)) for cells in rows)
    assert {title for title, cell in row.items() if cell == "?"} == {
        *("GPU-h", "lost%", "GPU%", "await", "health", "alerts", "cause")
    }
    found = fleet_object(fleet, (one,))
    assert found["alerts"] is None
    (machine,) = found["machines"]
    assert [machine[name] for name in ("trouble", "findings", "alerts", "health")] == [None] * 4
    assert machine["disk"]["await_ms"] is None


def test_a_machine_without_a_job_lost_nothing() -> None:
    calm = FleetMachine("a", "a:1", ("iotop",), state="CALM")
    assert lost_words(calm) == "-"
    assert lost_words(calm._replace(unanswered=("job time",))) == "?"


@pytest.mark.parametrize(
    ("changes", "gpus"), [({}, None), ({"no_gpu": True}, 0), ({"gpus": 8}, 8), ({"no_gpu": True, "gpus": 8}, 8)]
)
def test_a_machine_without_a_gpu_has_0_gpus_in_json(changes: dict[str, Any], gpus: int | None) -> None:
    (found,) = fleet_object(FLEET, (FleetMachine("a", "a:1", ("iotop",))._replace(**changes),))["machines"]
    assert found["gpus"] == gpus


def test_the_straggler_is_described_in_words() -> None:
    job = next(job for job in FLEET.jobs if job.straggler is not None)
    assert job.straggler is not None
    text = straggler_words(job, job.straggler)
    assert text.startswith("rank 8 on gpu09: data disk 6")
    assert text.endswith("slow disk; 1 of 9 ranks; the others wait for it 67 % of the time")
    known = job.straggler._replace(ranks="8-15")
    assert straggler_words(job, known).startswith("ranks 8-15 on gpu09: data disk 6")
    assert straggler_words(job, known._replace(ranks="")).startswith("gpu09: data disk 6")


@pytest.mark.parametrize(
    ("key", "first"),
    [
        ("lost", ["gpu07", "gpu08"]),
        ("state", ["gpu05"]),
        ("name", ["blank02", "gpu01", "gpu02"]),
        ("gpu", ["gpu04"]),
        ("health", ["gpu05", "node01", "blank02"]),
        ("alerts", ["gpu05"]),
    ],
)
def test_the_worst_machines_come_first(key: str, first: list[str]) -> None:
    assert names(key)[: len(first)] == first
    assert names(key, reverse=True)[-1] == names(key)[0]


def test_the_busiest_disks_come_first() -> None:
    assert set(names("util")[:2]) == {"node01", "blank02"}
    assert set(names("await")[:2]) == {"gpu03", "gpu09"}


def test_every_order_contains_every_machine() -> None:
    for key in SORTS:
        assert sorted(names(key)) == sorted(BY_NAME)


def test_numbers_in_names_are_sorted_by_value() -> None:
    machines = [FleetMachine(name, name) for name in ("gpu10", "gpu9", "gpu09a", "login")]
    assert [one.name for one in sort_machines(machines, "name")] == ["gpu9", "gpu09a", "gpu10", "login"]


def test_a_filter_matches_words_of_any_column() -> None:
    def found(pattern: str) -> set[str]:
        return {one.name for one in FLEET.machines if matches(one, pattern)}

    assert found("") == set(BY_NAME)
    assert found("starved gpu0") == {"gpu03", "gpu04", "gpu09"}
    assert found("48213") == {"gpu07", "gpu08", "gpu09"}
    assert found("dcgm") == {"node01", "blank02"}
    assert found("failing") == {"gpu05", "node01"}
    assert found("IotopFailing") == {"gpu05"}


def test_classes_and_states_of_another_version_are_shown_unchanged() -> None:
    new = FleetMachine(
        "a", "a:1", ("iotop",), "MOLTEN", findings=(FleetFinding("meltdown", "MOLTEN", "sda", "critical", True),)
    )
    assert cause_words(new) == "meltdown"
    assert sort_machines([new], "state") == [new]
    assert not new.troubled
