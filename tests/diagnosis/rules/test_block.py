from __future__ import annotations

from dataclasses import replace

import pytest

from iotop_ai.diagnosis.verdict.acknowledge import first_to_acknowledge, value_of
from iotop_ai.model.finding import Finding, Severity
from iotop_ai.model.health.smart import SmartState
from iotop_ai.model.machine.filesystem import FilesystemUsage
from iotop_ai.model.reading import Status
from iotop_ai.model.snapshot import Event
from iotop_ai.model.verdict_class import State
from tests.diagnosis.build import (
    BUSY,
    GIB,
    MB,
    SLOW_SSD,
    STARVED,
    TRAINER,
    WORKERS,
    Disk,
    Machine,
    Task,
    classes,
    play,
    verdict_of,
)

READER = Task(60, "python", cpu=0.05, read=10 * MB, blocked=0.9)
NVME = Disk("nvme0n1", "nvme", mount="/fast")


def args(finding: Finding) -> dict[str, object]:
    return dict(finding.args)


def test_workers_in_state_d_on_a_slow_disk_are_starved() -> None:
    verdict = verdict_of(STARVED)
    finding = verdict.primary
    assert (verdict.state, finding.class_id, finding.subject) == (State.STARVED, "storage_read", "sda")
    assert finding.confidence >= 0.85
    assert finding.lost_ratio == pytest.approx(0.78)
    assert dict(finding.args)["gpus"] == 8
    assert args(finding)["tasks"] == 8
    assert {e.metric for e in finding.evidence} >= {
        "disks.sda.read_await_ms",
        "processes.pt_data_worker.blocked_ratio",
        "gpus.busy_ratio",
        "pressure.io.some_ratio",
    }
    assert "cpu_prep" in {r.class_id for r in finding.ruled_out}


def test_less_time_in_state_d_is_not_enough() -> None:
    tasks = (TRAINER, *(replace(w, blocked=0.3) for w in WORKERS))
    assert "storage_read" not in classes(verdict_of(replace(STARVED, tasks=tasks)))


def test_with_a_normal_await_the_disk_is_not_blamed() -> None:
    disk = replace(SLOW_SSD, await_ms=1.5)
    assert verdict_of(replace(STARVED, disks=(disk,))).state is State.UNSURE


def test_busy_gpus_are_not_starved() -> None:
    assert verdict_of(replace(STARVED, gpus=(0.75,) * 8, power=500.0)).state is State.UNSURE
    assert verdict_of(BUSY).state is State.OK


def test_nothing_is_claimed_from_unknown_figures() -> None:
    unknown = replace(STARVED, disks=(replace(SLOW_SSD, unknown=True),), gpus=(None,) * 8, power=None)
    assert classes(verdict_of(unknown)) == ["unknown"]
    assert classes(verdict_of(Machine(without_readings=True))) == ["unknown"]


def test_without_a_gpu_the_process_is_named_and_confidence_is_capped() -> None:
    disk = Disk(read_bytes_per_s=10 * MB, await_ms=60, busy=1.0)
    finding = verdict_of(Machine(disks=(disk,), tasks=(READER,), io_pressure=0.5)).primary
    assert (finding.class_id, args(finding)["task"], args(finding)["gpus"]) == ("storage_read", "python", 0)
    assert finding.confidence <= 0.6


def test_unreadable_io_lowers_confidence() -> None:
    disk = Disk(read_bytes_per_s=10 * MB, await_ms=60, busy=1.0)
    for hidden in (replace(READER, read=None, write=None), replace(READER, denied=True)):
        finding = verdict_of(Machine(disks=(disk,), tasks=(hidden,), io_pressure=0.5, ptrace=False)).primary
        assert finding.class_id == "storage_read"
        assert finding.confidence <= 0.55


def test_a_process_that_reads_from_another_disk_does_not_wait_for_the_slow_disk() -> None:
    disk = Disk(read_bytes_per_s=80 * MB, await_ms=60, busy=1.0)
    assert classes(verdict_of(Machine(disks=(disk,), tasks=(replace(READER, read=1 * MB),)))) == ["unknown"]


def test_a_writer_is_not_called_starved_by_reads() -> None:
    disk = Disk(read_bytes_per_s=1 * MB, write_bytes_per_s=50 * MB, await_ms=60, busy=1.0)
    writer = replace(READER, read=1 * MB, write=50 * MB)
    verdict = verdict_of(Machine(disks=(disk,), tasks=(writer,)))
    assert (classes(verdict), verdict.state) == (["unknown"], State.BUSY)
    assert args(verdict.primary)["task"] == "python"


def test_a_kernel_thread_in_state_d_is_not_named() -> None:
    disk = Disk(read_bytes_per_s=10 * MB, await_ms=60, busy=1.0)
    verdict = verdict_of(Machine(disks=(disk,), tasks=(replace(READER, name="kworker/u8:0", kernel=True),)))
    assert classes(verdict) == ["unknown"]
    assert "task" not in args(verdict.primary)


def test_delay_accounting_is_used_instead_of_samples_of_state_d() -> None:
    disk = Disk(read_bytes_per_s=10 * MB, await_ms=60, busy=1.0)
    finding = verdict_of(Machine(disks=(disk,), tasks=(replace(READER, blocked=0.0, delay=0.8),))).primary
    assert args(finding)["blocked"] == pytest.approx(0.8)


def test_an_nvme_at_full_utilisation_with_normal_latency_is_not_slow() -> None:
    disk = replace(NVME, read_bytes_per_s=900 * MB, await_ms=0.4, busy=1.0)
    assert verdict_of(replace(STARVED, disks=(disk,))).state is State.UNSURE


def test_an_nvme_is_slow_by_its_latency_whatever_its_utilisation() -> None:
    disk = replace(NVME, read_bytes_per_s=92 * MB, await_ms=8.0, busy=0.4)
    finding = verdict_of(replace(STARVED, disks=(disk,))).primary
    assert (finding.class_id, finding.subject) == ("storage_read", "nvme0n1")
    assert not [e for e in finding.evidence if e.metric.endswith("busy_ratio") and e.metric.startswith("disks")]


@pytest.mark.parametrize(
    ("await_ms", "busy", "blocked", "severity"),
    [
        (25, 0.85, 0.97, Severity.WARNING),
        (55, 1.0, 0.97, Severity.CRITICAL),
        (19, 0.85, 0.97, None),
        (25, 0.75, 0.97, None),
        (25, 0.85, 0.1, None),
    ],
)
def test_a_rotating_disk_is_slow_only_with_high_utilisation_high_await_and_waiting_workers(
    await_ms: float, busy: float, blocked: float, severity: Severity | None
) -> None:
    disk = Disk(rotational=True, read_bytes_per_s=92 * MB, await_ms=await_ms, busy=busy)
    tasks = (TRAINER, *(replace(w, blocked=blocked) for w in WORKERS))
    finding = verdict_of(replace(STARVED, disks=(disk,), tasks=tasks)).primary
    assert (finding.severity if finding.class_id == "storage_read" else None) == severity


def test_a_spinning_thread_and_a_slow_ssd_give_low_confidence() -> None:
    spinning = replace(TRAINER, cpu=1.0, read=92 * MB)
    found = verdict_of(replace(STARVED, tasks=(spinning,), gpus=(0.2,))).findings
    storage = next(f for f in found if f.class_id == "storage_read")
    assert storage.confidence <= 0.5
    assert "processes.python.cpu_ratio" in {e.metric for e in storage.evidence}


def test_the_rule_without_a_job_needs_an_idle_gpu() -> None:
    disk = replace(SLOW_SSD, await_ms=90)
    spinning = replace(TRAINER, cpu=1.0, read=92 * MB)
    verdict = verdict_of(replace(STARVED, disks=(disk,), tasks=(spinning,), gpus=(0.4,)))
    assert "storage_read" not in classes(verdict)


def test_an_unrelated_reader_does_not_starve_the_gpus() -> None:
    backup = Task(900, "rsync", 1, cpu=0.1, read=92 * MB, blocked=0.95)
    assert "storage_read" not in classes(verdict_of(replace(STARVED, tasks=(TRAINER, backup))))


def test_a_constant_rate_with_a_slightly_high_latency_has_low_confidence() -> None:
    disk = Disk("vda", "virtio", read_bytes_per_s=10 * MB, await_ms=12, busy=0.99)
    finding = verdict_of(
        replace(STARVED, disks=(disk,), tasks=(TRAINER, *(replace(w, read=1.2 * MB) for w in WORKERS)))
    )
    assert finding.primary.class_id == "storage_read"
    assert finding.primary.confidence <= 0.6
    assert "more_reads_at_once" in {a.template for a in finding.primary.advice}


def test_the_bottom_device_of_a_stack_is_named_with_the_mount() -> None:
    lower = replace(SLOW_SSD, mount="", holders=("dm-0",))
    upper = replace(SLOW_SSD, name="dm-0", kind="dm", transport="virtual", slaves=("sda",))
    finding = verdict_of(replace(STARVED, disks=(lower, upper))).primary
    assert (finding.subject, args(finding)["mount"]) == ("sda", "/data")


def test_a_copy_is_advised_if_it_fits() -> None:
    tb = 1 << 40
    usage = {
        "/data": FilesystemUsage(2 * tb, tb, tb, 0, 0),
        "/fast": FilesystemUsage(8 * tb, 4 * tb, 4 * tb, 0, 0),
    }
    finding = verdict_of(replace(STARVED, disks=(SLOW_SSD, NVME), usage=usage)).primary
    copy = finding.advice[0]
    assert copy.template == "copy_data"
    assert dict(copy.args) | {"hours": 0} == {
        "source": "/data",
        "bytes": float(tb),
        "hours": 0,
        "target": "/fast",
        "target_device": "nvme0n1",
        "room": float(4 * tb - 10 * GIB),
        "shared": 0.0,
    }
    full = usage | {"/fast": FilesystemUsage(8 * tb, GIB, GIB, 0, 0)}
    advice = verdict_of(replace(STARVED, disks=(SLOW_SSD, NVME), usage=full)).primary.advice
    assert "copy_data" not in {a.template for a in advice}


def test_a_copy_to_memory_is_advised_if_memory_is_free() -> None:
    usage = {
        "/data": FilesystemUsage(200 * GIB, 100 * GIB, 100 * GIB, 0, 0),
        "/dev/shm": FilesystemUsage(500 * GIB, 500 * GIB, 500 * GIB, 0, 0),
    }
    for available, total, cure, room in (
        (None, None, "copy_data", 500 * GIB),
        (120 * GIB, None, "copy_data", 120 * GIB),
        # Like iotop-ai stage, it leaves a tenth of the memory available.
        (124 * GIB, 150 * GIB, "copy_data", 109 * GIB),
        (120 * GIB, 200 * GIB, "", 0),
        (300 * GIB, 500 * GIB, "keep_in_memory", 300 * GIB),
        (50 * GIB, 200 * GIB, "", 0),
    ):
        machine = replace(STARVED, usage=usage, available_bytes=available, total_bytes=total)
        advice = verdict_of(machine).primary.advice
        found = [(a.template, dict(a.args)["room"]) for a in advice if a.template in ("copy_data", "keep_in_memory")]
        assert found == ([(cure, float(room))] if cure else [])


DYING = SmartState("sda", "ata", "X", "1", "1", "FAIL", "critical", ("312 reallocated sectors",), reallocated=312)


def test_a_failing_disk_is_listed_after_a_cause_and_otherwise_comes_first() -> None:
    assert classes(verdict_of(replace(STARVED, smart=(DYING,)))) == ["storage_read", "failing_disk"]
    alone = verdict_of(Machine(smart=(DYING,), cpu=0.5))
    assert (classes(alone), alone.state) == (["failing_disk"], State.FAILING)
    assert alone.primary.severity is Severity.CRITICAL
    at_rest = verdict_of(Machine(smart=(DYING,)))
    assert (classes(at_rest), at_rest.state) == (["failing_disk", "idle"], State.FAILING)


def test_a_failing_disk_is_shown_before_the_window_is_full() -> None:
    verdict = verdict_of(Machine(smart=(DYING,)), ticks=1)
    assert classes(verdict) == ["unknown", "failing_disk"]


def test_a_failing_disk_that_no_longer_answers_has_not_recovered() -> None:
    dying = Machine(smart=(DYING,), cpu=0.5)
    silent = replace(dying, smart_silent=True)
    well = Machine(smart=(DYING._replace(severity="ok"),), cpu=0.5)
    frames = play((dying, 12), (silent, 30), (well, 2))
    assert classes(frames[41].verdict) == ["failing_disk"]
    assert classes(frames[-1].verdict) == ["unknown"]


def test_a_failing_disk_that_drops_off_its_bus_has_not_recovered() -> None:
    dying = Machine(smart=(DYING,), cpu=0.5)
    gone = replace(dying, disks=(), smart=())
    frames = play((dying, 20), (gone, 30))
    assert classes(frames[-1].verdict) == ["failing_disk"]
    frames = play((dying, 20), (gone, 30), (replace(dying, smart=(DYING._replace(serial="2", severity="ok"),)), 2))
    assert "failing_disk" not in classes(frames[-1].verdict)
    assert "failing_disk" not in classes(play((dying, 20), (gone, 5), (replace(dying, smart=()), 2))[-1].verdict)


def test_an_acknowledged_disk_that_is_taken_out_does_not_come_back() -> None:
    dying = Machine(smart=(DYING,), cpu=0.5)
    gone = replace(dying, disks=(), smart=())
    ack = Event(0, 0, "ack", "failing_disk:1 critical critical=1 reallocated=312")
    frames = play((dying, 20), (replace(dying, events=(ack,)), 1), (dying, 5), (gone, 10))
    assert ["failing_disk" in classes(frame.verdict) for frame in (frames[19], frames[25], frames[-1])] == [
        True, False, False
    ]  # fmt: skip


def test_a_dropped_disk_can_be_acknowledged_by_its_name() -> None:
    dying = Machine(smart=(DYING,), cpu=0.5)
    gone = replace(dying, disks=(), smart=())
    frame = play((dying, 20), (gone, 10))[-1]
    found = first_to_acknowledge(frame.verdict.findings, frame.snapshot)
    assert found is not None
    ack = Event(0, 0, "ack", f"{found[1]} {value_of(found[0])}")
    frames = play((dying, 20), (gone, 10), (replace(gone, events=(ack,)), 1), (gone, 10))
    assert all("failing_disk" not in classes(frame.verdict) for frame in frames[30:])


def test_warnings_and_missing_answers_are_not_a_failing_disk() -> None:
    worn = DYING._replace(severity="warning")
    assert "failing_disk" not in classes(verdict_of(Machine(smart=(worn,), cpu=0.5)))
    assert "failing_disk" not in classes(verdict_of(Machine(cpu=0.5)))


def test_a_gpu_whose_reading_is_pending_is_not_counted() -> None:
    disk = Disk(read_bytes_per_s=10 * MB, await_ms=60, busy=1.0)
    machine = Machine(disks=(disk,), tasks=(READER,), gpu_status=Status.PENDING)
    finding = verdict_of(machine).primary
    assert (finding.class_id, args(finding)["gpus"]) == ("storage_read", 0)
