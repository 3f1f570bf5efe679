"""A device that accepts requests and completes none: simulated, and as a real loop device over a FUSE file."""

from __future__ import annotations

import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from iotop_ai.collectors.io.root import Root
from iotop_ai.diagnosis.engine import fold
from iotop_ai.diagnosis.memory.hung_devices import hung_s, hung_since
from iotop_ai.diagnosis.thresholds import LIMITS
from iotop_ai.diagnosis.verdict.acknowledge import identity
from iotop_ai.export.json.snapshot import device_objects
from iotop_ai.export.tables.frames import tables
from iotop_ai.model.finding import Finding, Severity
from iotop_ai.model.frame import Frame
from iotop_ai.model.settings import Settings
from iotop_ai.model.verdict_class import State
from iotop_ai.pipeline import frames
from iotop_ai.present.health.summary import health
from iotop_ai.present.verdict import headline
from iotop_ai.sources.live.source import LiveSource
from tests.diagnosis.build import MB, Disk, Machine, Task, classes, play
from tests.rigs.slowdisk import FuseDisk, why_no_fuse_disk

WORKS = Disk(read_bytes_per_s=10 * MB, await_ms=0.4, busy=0.2)
HANGS = Disk(in_flight=12, busy=1.0)
WAITER = Task(70, "python", blocked=1.0)


def hung(frame: Frame) -> list[Finding]:
    return [f for f in frame.verdict.findings if f.class_id == "failing_disk"]


def joined(spans: object) -> str:
    return "".join(span.text for span in spans)  # type: ignore[attr-defined]


def test_a_hang_is_shown_after_ten_seconds_and_is_critical_after_thirty() -> None:
    shown = play((Machine(disks=(WORKS,), cpu=0.5), 12), (Machine(disks=(HANGS,), cpu=0.5, tasks=(WAITER,)), 36))
    assert not hung(shown[20])
    (early,) = hung(shown[23])
    assert (early.subject, early.severity) == ("sda", Severity.WARNING)
    (late,) = hung(shown[-1])
    assert late.severity is Severity.CRITICAL
    last = shown[-1]
    assert last.verdict.state is State.FAILING
    assert joined(headline.headline(last.verdict)) == "sda does not answer: no completion for 35 s, 12 in flight"
    assert joined(headline.because(last.verdict)) == "it accepts requests and completes none; it holds /data"
    assert (
        joined(headline.advice(last.verdict)) == "check dmesg -T | grep sda for timeouts, and its server or controller"
    )
    assert health(last, "sda") == ("hung 35s", "bad", "no completion for 35 s, 12 in flight")
    (device,) = device_objects(last) or []
    assert device["hung_s"] == 35.0
    (table,) = (one for one in tables() if one.name == "devices")
    (cells,) = table.rows(last)
    assert cells[-1] == 35.0
    assert identity(late, last.snapshot) == "", "an earlier acknowledgement can silence the finding"


def test_a_rotating_disk_has_time_to_spin_up() -> None:
    spins = replace(HANGS, rotational=True)
    working = Machine(disks=(replace(WORKS, rotational=True),), cpu=0.5)
    shown = play((working, 12), (Machine(disks=(spins,), cpu=0.5, tasks=(WAITER,)), 36))
    assert not any(hung(frame) for frame in shown[:40])
    (late,) = hung(shown[-1])
    assert late.severity is Severity.CRITICAL
    assert next((one.metric, one.threshold) for one in late.evidence) == ("disks.sda.hung_s", LIMITS.hung_bad_s)


def test_the_finding_ends_when_the_device_answers_again() -> None:
    shown = play((Machine(disks=(WORKS,), cpu=0.5), 12), (Machine(disks=(HANGS,), cpu=0.5), 15),
                 (Machine(disks=(WORKS,), cpu=0.5), 15))  # fmt: skip
    assert hung(shown[25])
    assert "failing_disk" not in classes(shown[-1].verdict)
    assert shown[-1].carry.hung == {}
    assert health(shown[-1], "sda").word != "hung"


@pytest.mark.parametrize("disks", [(), (replace(HANGS, unknown=True),)], ids=["removed", "counts anew"])
def test_the_finding_ends_at_once_when_the_device_is_gone(disks: tuple[Disk, ...]) -> None:
    shown = play((Machine(disks=(WORKS,), cpu=0.5), 12), (Machine(disks=(HANGS,), cpu=0.5), 12),
                 (Machine(disks=(Disk("sdb"), *disks), cpu=0.5), 2))  # fmt: skip
    assert hung(shown[23])
    assert not hung(shown[-1])


def test_the_lowest_device_of_a_stack_is_named_or_a_suspended_volume() -> None:
    above = Disk("md0", kind="md", slaves=("sda", "sdb"), in_flight=12)
    both = Machine(disks=(above, replace(HANGS, name="sda"), Disk("sdb")), cpu=0.5, tasks=(WAITER,))
    assert [f.subject for f in hung(play((both, 20))[-1])] == ["sda"]
    volume = Machine(
        disks=(Disk("dm-0", kind="dm", slaves=("sda",), in_flight=3), Disk("sda")), tasks=(WAITER,), cpu=0.5
    )
    frame = play((volume, 20))[-1]
    assert [(f.subject, f.advice[0].template) for f in hung(frame)] == [("dm-0", "resume_device")]


@pytest.mark.parametrize(
    "machine",
    [
        Machine(disks=(HANGS,), cpu=0.5),
        Machine(disks=(replace(WORKS, in_flight=12),), cpu=0.5, tasks=(WAITER,)),
        Machine(disks=(replace(HANGS, unknown=True),), cpu=0.5, tasks=(WAITER,)),
        Machine(disks=(Disk(),), cpu=0.5, tasks=(WAITER,)),
        Machine(disks=(replace(HANGS, kind="zram"),), cpu=0.5, tasks=(WAITER,)),
    ],
    ids=["miscounted from the start", "completes", "unknown rates", "idle", "memory"],
)
def test_scenes_that_only_resemble_a_hang_are_not_found(machine: Machine) -> None:
    assert "failing_disk" not in classes(play((machine, 20))[-1].verdict)


def test_without_requests_in_flight_no_new_mapping_is_made() -> None:
    (frame,) = play((Machine(disks=(WORKS,), cpu=0.5), 1))
    known = frame.carry.hung
    assert hung_since(known, frame.sample) is known
    assert hung_s({"sda": 5}, "sdb", 9) == 0.0


@pytest.mark.xdist_group("a slow disk")
@pytest.mark.skipif(bool(why_no_fuse_disk()), reason=why_no_fuse_disk())
def test_a_real_device_that_stops_is_found(tmp_path: Path) -> None:
    limits = LIMITS._replace(hung_s=1.5)
    with FuseDisk(tmp_path, 16) as disk:
        source = LiveSource(Settings(interval_s=0.5, smart=False), Root())
        stream, found = frames(source), []
        next(stream)
        disk.set(delay_us=6_000_000)
        with subprocess.Popen(["dd", f"if={disk.node}", "of=/dev/null", "bs=4k", "count=1", "iflag=direct"],
                              stderr=subprocess.DEVNULL) as reader:  # fmt: skip
            begun = time.monotonic()
            for frame in stream:
                _, verdict = fold(frame.carry._replace(decided_ns=None), frame.snapshot, frame.history, limits)
                found.append((frame.carry.hung, [f for f in verdict.findings if f.subject == disk.name]))
                if time.monotonic() - begun > 4:
                    break
            disk.set()
            reader.wait(20)
        assert any(disk.name in known for known, _ in found)
        hangs = [finding for _, findings in found for finding in findings if dict(finding.args).get("hung_s")]
        assert hangs
        assert dict(hangs[-1].args)["in_flight"] == 1.0
        for _, frame in zip(range(4), stream, strict=False):
            last = frame
        assert disk.name not in last.carry.hung
        source.close()
