"""Machines and jobs from the answers of a real Prometheus, which ``tests.rigs.fleet.small`` recorded."""

from __future__ import annotations

import pytest

from iotop_ai.fleet.answer import Answer, Series
from iotop_ai.fleet.machines import dcgm_percent, fleet_of
from iotop_ai.fleet.names import MachineNames, host_of
from iotop_ai.fleet.queries import ALIVE, READING, queries
from iotop_ai.model.fleet.records import CRITICAL, OK, Fleet, FleetAlert, FleetHealth, FleetMachine
from tests.rigs.fleet.small import JOB, WINDOW_S, kept_answers

ANSWERS = kept_answers()


def fleet(**changes: Answer) -> Fleet:
    return fleet_of({**ANSWERS, **changes}, WINDOW_S)


def machines(found: Fleet | None = None) -> dict[str, FleetMachine]:
    return {one.name: one for one in (found or fleet()).machines}


def vector(*series: tuple[dict[str, str], float]) -> Answer:
    return Answer(tuple(Series(labels, value) for labels, value in series), 1000.0)


def test_every_query_has_an_answer() -> None:
    assert set(ANSWERS) == set(queries(WINDOW_S))


def test_each_machine_has_its_verdict_and_its_cause() -> None:
    found = machines()
    states = {name: (one.state, one.primary and one.primary.class_id) for name, one in found.items()}
    assert states == {
        "gpu01": ("OK", "gpu_bound"),
        "gpu02": ("OK", "gpu_bound"),
        "gpu03": ("STARVED", "storage_read"),
        "gpu04": ("STARVED", "single_thread"),
        "gpu05": ("FAILING", "failing_disk"),
        "gpu06": ("BLOCKED", "checkpoint_write"),
        "gpu07": ("BLOCKED", "comm_wait"),
        "gpu08": ("BLOCKED", "comm_wait"),
        "gpu09": ("STARVED", "storage_read"),
        "node01": ("", None),
        "blank02": ("", None),
    }
    assert {name for name, one in found.items() if one.troubled} == {
        *(f"gpu0{n}" for n in range(3, 10)),
        "node01",  # the disk of this machine fails
    }


def test_a_share_of_the_window_comes_from_the_counters() -> None:
    one = machines()["gpu03"]
    (part,) = one.job_parts
    assert part.share("data_disk") == pytest.approx(0.67, abs=0.05)
    assert part.gpus == 1
    assert sum(part.seconds or ()) == pytest.approx(WINDOW_S, rel=0.1)
    assert one.lost_gpu_h == pytest.approx(0.67 * WINDOW_S / 3600, rel=0.15)
    assert machines()["gpu01"].lost_gpu_h == pytest.approx(0.0, abs=1e-4)


def test_each_machine_has_its_busiest_disk() -> None:
    one = machines()["gpu03"]
    assert one.disk is not None
    assert one.disk.name == "loop0"
    assert one.disk.busy_ratio == pytest.approx(0.69, abs=0.1)
    assert one.disk.await_ms == pytest.approx(59, abs=10)
    assert one.gpu_busy == pytest.approx(0.26, abs=0.05)
    assert machines()["gpu05"].health == FleetHealth("nvme1n1", 2)
    assert machines()["gpu05"].no_gpu


def test_alerts_are_assigned_to_their_machines() -> None:
    found = fleet()
    assert machines(found)["gpu05"].alerts == (FleetAlert("IotopFailingDisk", "critical"),)
    assert found.alerts == (FleetAlert("LooseAlert"),)


@pytest.mark.parametrize(
    ("severity", "is_trouble"), [("none", False), ("info", False), ("None", False), ("", True), ("critical", True)]
)
def test_an_alert_of_severity_none_or_info_is_listed_but_is_not_trouble(severity: str, is_trouble: bool) -> None:
    labels = {"alertname": "Watchdog", **({"severity": severity} if severity else {})}
    found = fleet(alerts=vector(({**labels, "instance": "gpu01:9743"}, 1.0), (labels, 1.0)))
    one = machines(found)["gpu01"]
    assert [alert.name for alert in (*one.alerts, *found.alerts)] == ["Watchdog", "Watchdog"]
    assert one.troubled is is_trouble
    assert [alert.reports_trouble for alert in found.alerts] == [is_trouble]


def test_the_parts_of_a_job_are_joined_and_its_straggler_is_named() -> None:
    (job,) = [job for job in fleet().jobs if len(job.parts) > 1]
    assert (job.name, [part.machine for part in job.parts]) == (f"slurm {JOB}", ["gpu07", "gpu08", "gpu09"])
    late = job.straggler
    assert late is not None
    assert (late.machine, late.ranks, late.cause) == ("gpu09", "8", "data_disk")
    assert [part.numbers for part in job.parts] == ["0-3", "4-7", "8"]
    assert late.waited == pytest.approx(0.67, abs=0.02)
    assert late.finding is not None
    assert late.finding.class_id == "storage_read"
    assert {job.straggler for job in fleet().jobs if len(job.parts) == 1} == {None}


def test_a_disk_counts_as_healthy_only_if_its_warnings_are_known() -> None:
    own: dict[str, str] = {"instance": "node01:9633", "device": "sda"}

    def health(passed: float, **more: Answer) -> FleetHealth | None:
        answers = {"reading": vector(), "smartctl": vector((own, passed)), **more}
        return machines(fleet_of(answers, WINDOW_S))["node01"].health

    warning = "smartctl's warning"
    assert health(1.0) is None
    assert health(0.0) == FleetHealth("sda", CRITICAL)
    assert health(1.0, **{warning: vector()}) == FleetHealth("sda", OK)
    assert health(1.0, **{warning: vector((own, 4.0))}) == FleetHealth("sda", CRITICAL)


@pytest.mark.parametrize("passed", [(1.0, 0.0), (0.0, 1.0)])
def test_the_worst_disk_of_two_exporters_on_one_machine_counts(passed: tuple[float, float]) -> None:
    disks = (({"instance": f"node01:{9633 + n}", "device": f"sd{n}"}, one) for n, one in enumerate(passed))
    found = fleet_of({"reading": vector(), "smartctl": vector(*disks), "smartctl's warning": vector()}, WINDOW_S)
    assert machines(found)["node01"].health == FleetHealth(f"sd{passed.index(0.0)}", CRITICAL)


def test_a_machine_with_only_other_exporters_is_listed() -> None:
    one, blank = machines()["node01"], machines()["blank02"]
    assert one.sources == blank.sources == ("node", "dcgm", "smartctl")
    # One of the four GPUs reports the value that DCGM uses for "unknown".
    assert (one.gpus, one.gpu_busy) == (4, pytest.approx(0.8))
    assert (blank.gpus, blank.gpu_busy) == (4, None)
    assert one.disk is not None
    assert (one.disk.name, one.disk.busy_ratio) == ("sda", pytest.approx(0.97, abs=0.01))
    assert one.disk.await_ms == pytest.approx(40, abs=1)
    assert (one.health, blank.health) == (FleetHealth("sdb", 2), FleetHealth("sda", 0))
    assert (one.state, one.lost_gpu_h, one.age_s) == ("", None, None)


@pytest.mark.parametrize("blank", [2147483632, 140737488355328.0, 9223372036854775794, -1, None])
def test_values_that_dcgm_uses_for_unknown_are_none(blank: float | None) -> None:
    assert dcgm_percent(blank) is None
    assert dcgm_percent(0) == 0


@pytest.mark.parametrize("missing", sorted(set(ANSWERS) - {READING}))
def test_facts_of_an_unanswered_query_are_unknown(missing: str) -> None:
    found = fleet_of({name: one for name, one in ANSWERS.items() if name != missing}, WINDOW_S, (missing,))
    assert found.unanswered == (missing,)
    assert {one.name for one in found.machines} >= {f"gpu0{n}" for n in range(1, 10)}
    unknown = {"job time": "lost_gpu_h", "disk use": "disk", "GPU use": "gpu_busy", "health": "health"}
    if missing in unknown:
        assert getattr(machines(found)["gpu03"], unknown[missing]) is None
    assert [one.name for one in found.machines if one.silent] == [one.name for one in fleet().machines if one.silent]


def test_a_machine_that_stopped_reporting_is_silent_and_has_no_verdict() -> None:
    at_s = ANSWERS[READING].at_s
    assert at_s is not None
    old = [
        one._replace(value=at_s - 300) if one.label("instance") == "gpu03:9743" else one
        for one in ANSWERS[READING].series
    ]
    alive = Answer(tuple(one for one in ANSWERS[ALIVE].series if one.label("instance") != "gpu03:9743"), at_s)
    one = machines(fleet(**{READING: Answer(tuple(old), at_s), ALIVE: alive}))["gpu03"]
    assert (one.silent, one.age_s, one.state, one.findings) == (True, 300.0, "", ())
    assert one.troubled
    node = machines(fleet(**{"node's reading": vector()}))["node01"]
    assert node.silent


@pytest.mark.parametrize("clock_s", [-120.0, 0.0, 3600.0])
def test_the_clock_of_a_machine_does_not_decide_whether_it_is_silent(clock_s: float) -> None:
    own, now_s = {"instance": "gpu07:9743"}, 1000.0
    verdict = vector(({**own, "state": "STARVED"}, 1.0))
    live = {READING: vector((own, now_s - 2 + clock_s)), ALIVE: vector((own, 3.0)), "verdict": verdict}
    one = machines(fleet_of(live, WINDOW_S))["gpu07"]
    assert (one.silent, one.state) == (False, "STARVED")
    dead = {READING: vector((own, now_s - 3000 + clock_s)), ALIVE: vector()}
    one = machines(fleet_of(dead, WINDOW_S))["gpu07"]
    assert (one.silent, one.troubled) == (True, True)


def test_without_an_answer_about_readings_their_age_decides() -> None:
    own = {"instance": "gpu07:9743"}
    ages = {age_s: fleet_of({READING: vector((own, 1000.0 - age_s))}, WINDOW_S) for age_s in (80.0, 100.0)}
    assert [machines(found)["gpu07"].silent for found in ages.values()] == [False, True]


def test_a_silent_node_exporter_does_not_make_a_machine_with_iotop_silent() -> None:
    more = vector(({"instance": "gpu01:9100", "nodename": "gpu01"}, 1.0))
    one = machines(fleet(node=more))["gpu01"]
    assert one.sources == ("iotop", "node")
    assert not one.silent


@pytest.mark.parametrize("ports", [("9100", "9101"), ("9101", "9100")])
def test_a_machine_whose_node_exporter_has_moved_is_not_silent(ports: tuple[str, str]) -> None:
    node = vector(*(({"instance": f"node07:{port}", "nodename": "node07"}, 1.0) for port in ports))
    reading = vector(({"instance": "node07:9101"}, 1000.0))
    one = machines(fleet(node=node, **{"node's reading": reading}))["node07"]
    assert (one.silent, one.instance) == (False, "node07:9101")


def test_a_gpu_that_two_scrape_jobs_report_counts_once() -> None:
    gpus = [
        ({"instance": instance, "Hostname": "dgx07", "gpu": str(n), "UUID": f"GPU-{n}"}, 10.0 * n)
        for instance in ("10.0.0.5:9400", "dgx07:9400")
        for n in range(8)
    ]
    one = machines(fleet(dcgm=vector(*gpus)))["dgx07"]
    assert (one.gpus, one.gpu_busy) == (8, pytest.approx(0.35))


def test_instances_are_shortened_to_names() -> None:
    assert [host_of(text) for text in ("gpu07:9743", "[::1]:9743", "::1", "gpu07", "a:b")] == [
        *("gpu07", "::1", "::1", "gpu07", "a:b")
    ]
    two = MachineNames({"box:9743", "box:9744", "gpu07:9743"})
    assert [two.of("box:9743"), two.of("box:9744"), two.of("gpu07:9743")] == ["box:9743", "box:9744", "gpu07"]
    # A DCGM exporter in a pod has the pod's address.
    assert two.of("10.1.2.3:9400", "gpu07") == "gpu07"
    assert two.of("10.1.2.4:9400", "gpu08") == "gpu08"
    assert two.of("10.1.2.5:9400") == "10.1.2.5"


@pytest.mark.parametrize("gone", [(), ("10.0.0.8:9100",)], ids=["both report", "one has moved"])
@pytest.mark.parametrize("own", [(), ("10.0.0.9:9743",)], ids=["no iotop-ai", "iotop-ai on one"])
def test_two_machines_with_the_same_node_name_are_two_machines(gone: tuple[str, ...], own: tuple[str, ...]) -> None:
    addresses = ("10.0.0.8:9100", "10.0.0.9:9100")
    node = vector(*(({"instance": one, "nodename": "ubuntu"}, 1.0) for one in addresses))
    current = vector(*(({"instance": one}, 1000.0) for one in addresses if one not in gone))
    reading = vector(*(({"instance": one}, 1000.0) for one in own))
    found = machines(fleet_of({READING: reading, "node": node, "node's reading": current}, WINDOW_S))
    if gone:
        assert list(found) == (["10.0.0.9"] if own else ["ubuntu"])
    else:
        assert list(found) == ["10.0.0.8", "10.0.0.9"]
    assert not any(one.silent for one in found.values())


def test_a_machine_that_is_scraped_by_address_is_listed_once() -> None:
    at_s = 1000.0
    reading = vector(*(({"instance": f"10.0.0.{n}:9743"}, at_s) for n in (7, 8, 9)))
    nodes = vector(
        ({"instance": "10.0.0.7:9100", "nodename": "gpu07"}, 1.0),
        ({"instance": "10.0.0.8:9100", "nodename": "ubuntu"}, 1.0),
        ({"instance": "10.0.0.9:9100", "nodename": "ubuntu"}, 1.0),
    )
    dcgm = vector(
        ({"instance": "10.244.1.3:9400", "Hostname": "gpu07", "gpu": "0", "UUID": "GPU-1"}, 80.0),
        # Two pods whose Hostname belongs to two nodes are listed by their addresses.
        ({"instance": "10.244.1.4:9400", "Hostname": "ubuntu", "gpu": "0", "UUID": "GPU-2"}, 80.0),
        ({"instance": "10.244.1.5:9400", "Hostname": "ubuntu", "gpu": "0", "UUID": "GPU-3"}, 80.0),
    )
    found = machines(fleet_of({READING: reading, "node": nodes, "dcgm": dcgm}, WINDOW_S))
    assert {name: one.sources for name, one in found.items()} == {
        "10.0.0.7": ("iotop", "node", "dcgm"),
        "10.0.0.8": ("iotop", "node"),
        "10.0.0.9": ("iotop", "node"),
        "10.244.1.4": ("dcgm",),
        "10.244.1.5": ("dcgm",),
    }
    assert [one.gpus for name, one in found.items() if "dcgm" in one.sources] == [1, 1, 1]


def test_hostile_values_make_a_figure_unknown() -> None:
    bad = vector(
        ({"instance": "gpu01:9743", "bucket": "no_such"}, 5.0),
        ({"instance": "gpu01:9743", "bucket": "data_disk", "pid": "x"}, -3.0),
        ({}, 1.0),
    )
    found = fleet(**{"job time": bad, "health": vector(({"instance": "gpu05:9743", "device": "sda"}, 7.0))})
    assert machines(found)["gpu01"].lost_gpu_h is None
    assert machines(found)["gpu05"].health is None
