"""A very slow or saturated disk has a line of its own beside a verdict that does not name it."""

from __future__ import annotations

from dataclasses import replace

from iotop_ai.model.verdict_class import State
from iotop_ai.present.screen.view import View
from iotop_ai.present.verdict import headline
from iotop_ai.present.verdict.banner import banner_rows
from tests.diagnosis.build import BUSY, JOB_PREPARING, JOB_STARVED, MB, Disk, Machine, Task, play

DROWNING = Disk("vda", "virtio", write_bytes_per_s=40 * MB, await_ms=1002.0, busy=1.0)
FAST_NVME = Disk("nvme0n1", "nvme", read_bytes_per_s=900 * MB, await_ms=2.5, busy=0.99)


def banner(machine: Machine, ticks: int = 15) -> list[str]:
    frame = play((machine, ticks))[-1]
    return [line.text for line in banner_rows(frame, View(), 80, 4)]


def test_a_slow_disk_is_shown_beside_any_cause() -> None:
    for machine in (JOB_PREPARING, BUSY):
        rows = banner(replace(machine, disks=(*machine.disks, DROWNING)))
        assert rows[2].startswith("▌and      disk vda answers in 1002 ms (typical ≤ 5)"), rows
        assert "vda" not in "".join(banner(machine))


def test_a_disk_that_the_verdict_names_is_not_repeated() -> None:
    frame = play((replace(JOB_STARVED, disks=(replace(JOB_STARVED.disks[0], busy=1.0),)), 15))[-1]
    assert frame.verdict.slow_disk is not None
    assert frame.verdict.slow_disk.device == "sda"
    assert headline.second(frame.verdict) == []


def test_an_unproven_cause_names_the_slow_disk_as_the_suspect() -> None:
    waits = replace(JOB_STARVED.job, disk=0.3, running=0.3) if JOB_STARVED.job else None
    frame = play((replace(JOB_STARVED, job=waits, disks=(DROWNING,)), 15))[-1]
    assert frame.verdict.state is State.UNSURE
    text = headline.text_of(headline.headline(frame.verdict))
    assert text.endswith(", suspect: disk vda")
    assert "vda answers in 1002 ms" in headline.text_of(headline.because(frame.verdict))


def test_a_fast_disk_at_full_utilisation_is_not_called_slow() -> None:
    machine = Machine(disks=(FAST_NVME,), cpu=0.3, tasks=(Task(60, "fio", read=900 * MB, cpu=0.3),))
    assert play((machine, 15))[-1].verdict.slow_disk is None


def test_the_line_stays_until_the_disk_is_clearly_faster() -> None:
    machine = Machine(disks=(DROWNING,), cpu=0.3)
    better, fine = (replace(machine, disks=(replace(DROWNING, await_ms=ms, busy=0.8),)) for ms in (40.0, 4.0))
    named = [f.verdict.slow_disk for f in play((machine, 15), (better, 15), (fine, 15))]
    assert all(named[12:30])
    assert named[-1] is None


def test_a_slow_disk_that_is_hardly_busy_is_not_at_its_limit() -> None:
    for busy, state in ((0.03, State.CALM), (0.85, State.BUSY)):
        machine = Machine(disks=(replace(DROWNING, await_ms=65.0, busy=busy),), cpu=0.3)
        verdict = play((machine, 15))[-1].verdict
        assert verdict.state is state
        assert "answers in 65 ms (typical ≤ 5)" in headline.text_of(headline.because(verdict))


def test_nothing_is_named_before_a_window_has_passed() -> None:
    assert play((Machine(disks=(DROWNING,)), 2))[-1].verdict.slow_disk is None
