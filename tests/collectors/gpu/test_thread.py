"""The GPU thread with an NVML that the test controls: its interval, hangs, faults, AMD cards beside it, its end."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from iotop_ai.collectors.base import Unavailable, take_reading
from iotop_ai.collectors.gpu.collector import HUNG_S, OPENING_S, GpuCollector, GpuDetailCollector
from iotop_ai.collectors.gpu.nvml.library import ForeignNvml, GpuUnavailable, Nvml
from iotop_ai.collectors.gpu.nvml.xid_events import XidWatch
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.model.gpu.detail import GpuDetail
from iotop_ai.model.gpu.state import GpuProcess, GpuState
from iotop_ai.model.reading import Reading, Status
from tests.clocks import SetClock, ShiftedClock
from tests.machines import build, parse
from tests.rigs.threads import no_thread


class Card(Nvml):
    """An NVML with one GPU that answers at once, or only after ``release`` is set."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.release = threading.Event()
        self.release.set()
        self.sweeps = 0
        self.closed = 0

    def open(self) -> None:
        self.release.wait(20)

    def close(self) -> None:
        self.closed += 1

    def gpus(self) -> dict[str, GpuUnavailable | None]:
        return {"GPU-1": None}

    def state(self, uuid: str) -> GpuState:
        self.release.wait(20)
        self.sweeps += 1
        return GpuState(uuid, 0, "card", utilization_percent=self.sweeps % 100)


@pytest.mark.alone
def test_each_tick_finds_the_result_of_a_new_sweep() -> None:
    clock = Clock()
    collector = GpuCollector(clock, Card(clock), every_s=0.2)
    assert collector.wait(5)
    times, ages = [], []
    for _ in range(12):
        time.sleep(0.2)
        reading = take_reading(collector, clock)
        assert reading.at_ns is not None
        assert reading.value is not None
        assert reading.value["GPU-1"].at_ns is not None
        assert reading.value["GPU-1"].at_ns <= reading.at_ns
        times.append(reading.at_ns)
        ages.append(clock.monotonic_ns() - reading.at_ns)
    collector.close()
    # In the first two ticks the thread finds its interval; on a busy machine two more ticks may find an old sweep.
    assert len(set(times[2:])) >= 8
    assert statistics.median(ages[2:]) < 0.1e9


def test_the_first_reading_is_pending_and_a_hang_shows_its_age() -> None:
    clock = ShiftedClock()
    card = Card(clock)
    card.release.clear()
    collector = GpuCollector(clock, card, every_s=0.05)
    first = take_reading(collector, clock)
    assert (first.status, first.reason) == (Status.PENDING, "NVML has not answered yet")
    time.sleep(0.05)
    clock.skip(OPENING_S + 1)
    hung = take_reading(collector, clock)
    assert hung.status is Status.FAILED
    assert hung.reason.startswith("NVML has not answered for 61 s")
    card.release.set()
    assert collector.wait(5)
    assert take_reading(collector, clock).status is Status.OK
    card.release.clear()
    time.sleep(0.2)
    clock.skip(HUNG_S + 1)
    assert take_reading(collector, clock).status is Status.FAILED
    card.release.set()
    collector.close()
    assert card.closed >= 1


def test_a_shorter_interval_applies_at_once() -> None:
    clock = Clock()
    card = Card(clock)
    collector = GpuCollector(clock, card, every_s=3600.0)
    assert collector.wait(5)
    assert card.sweeps == 1
    collector.every_s = 0.02
    end = time.monotonic() + 30
    while card.sweeps < 5:
        assert time.monotonic() < end
        time.sleep(0.01)
    collector.close()


class FailingCard(Card):
    """An NVML that fails as a whole while ``failure`` is set."""

    failure: Unavailable | None = None

    def open(self) -> None:
        if self.failure is not None:
            raise self.failure

    def state(self, uuid: str) -> GpuState:
        if self.failure is not None:
            raise self.failure
        return super().state(uuid)


def wait_until(seen: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not seen():
        assert time.monotonic() < end
        time.sleep(0.02)


MISMATCH = Unavailable(Status.FAILED, "the library and the module have different versions", "reboot")


def shown(collector: GpuCollector) -> dict[str, tuple[Status, str, int | None]]:
    """Each GPU with its status, the reason, and its number."""
    table = take_reading(collector, Clock()).value or {}
    return {uuid: (one.status, one.reason, one.value and one.value.number) for uuid, one in table.items()}


def test_nvidia_gpus_stay_listed_with_the_reason_beside_an_amd_card(tmp_path: Path) -> None:
    clock = Clock()
    root = build(parse((Path(__file__).parents[2] / "data" / "gpu" / "made-amd-gpu.tree").read_text()), tmp_path)
    card = FailingCard(clock)
    collector = GpuCollector(clock, card, every_s=0.05, retry_s=0.1, root=root)
    assert collector.wait(5)
    first = shown(collector)
    (amd,) = set(first) - {"GPU-1"}
    assert (first["GPU-1"], first[amd]) == ((Status.OK, "", 0), (Status.OK, "", 1))
    card.failure = MISMATCH
    wait_until(lambda: shown(collector)["GPU-1"][0] is Status.FAILED)
    assert shown(collector) == {"GPU-1": (Status.FAILED, MISMATCH.reason, None), amd: (Status.OK, "", 1)}
    card.failure = None
    wait_until(lambda: shown(collector) == first)
    collector.close()


@pytest.mark.parametrize("failure", [MISMATCH, Unavailable(Status.ABSENT, "no NVIDIA driver")])
def test_an_entry_beside_an_amd_card_has_the_reason_why_nvml_fails_unless_the_driver_is_absent(
    tmp_path: Path, failure: Unavailable
) -> None:
    clock = Clock()
    root = build(parse((Path(__file__).parents[2] / "data" / "gpu" / "made-amd-gpu.tree").read_text()), tmp_path)
    card = FailingCard(clock)
    card.failure = failure
    collector = GpuCollector(clock, card, every_s=0.05, retry_s=0.1, root=root)
    assert collector.wait(5)
    others = {key: one for key, one in shown(collector).items() if one[0] is not Status.OK}
    assert others == ({"NVIDIA": (Status.ABSENT, failure.reason, None)} if failure is MISMATCH else {})
    collector.close()


def test_the_limits_of_amd_cards_have_the_time_at_which_they_were_read(tmp_path: Path) -> None:
    tree = Path(__file__).parents[2] / "data" / "gpu" / "made-amd-gpu.tree"
    clock = Clock()
    collector = GpuCollector(clock, ForeignNvml(clock), every_s=0.02, root=build(parse(tree.read_text()), tmp_path))
    details = GpuDetailCollector(collector)
    assert collector.wait(5)
    first = take_reading(details, clock).at_ns
    assert first is not None
    end = time.monotonic() + 30
    while take_reading(details, clock).at_ns == first:
        assert time.monotonic() < end, "the time of the reading did not change"
        time.sleep(0.01)
    collector.close()


def test_amd_cards_stay_while_nvidias_driver_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = Path(__file__).parents[2] / "data" / "gpu" / "made-amd-gpu.tree"
    clock = Clock()
    root = build(parse(tree.read_text()), tmp_path)
    collector = GpuCollector(clock, ForeignNvml(clock), every_s=0.02, retry_s=0.05, root=root)
    assert collector._drm is not None
    read, missing = collector._drm.read, list[bool]()

    def spy(first_number: int = 0) -> dict[str, Reading[GpuState]]:
        missing.append(isinstance(collector._newest, Unavailable))
        return read(first_number)

    monkeypatch.setattr(collector._drm, "read", spy)
    end = time.monotonic() + 30
    assert collector.wait(5)
    while len(missing) < 20:
        assert time.monotonic() < end
        time.sleep(0.01)
    collector.close()
    assert missing[0]
    assert not any(missing[1:])


def test_a_vanished_amd_card_disappears_before_nvidias_driver_is_tried_again(tmp_path: Path) -> None:
    tree = Path(__file__).parents[2] / "data" / "gpu" / "made-amd-gpu.tree"
    clock = Clock()
    root = build(parse(tree.read_text()), tmp_path)
    collector = GpuCollector(clock, ForeignNvml(clock), every_s=0.02, retry_s=3600, root=root)
    assert collector.wait(5)
    assert len(shown(collector)) == 1
    (tmp_path / "sys/class/drm").rename(tmp_path / "gone")
    wait_until(lambda: take_reading(collector, clock).status is Status.ABSENT)
    collector.close()


class LosingCard(Card):
    """An NVML with two GPUs, each with a process; the first GPU is lost between two calls of its sweep."""

    def gpus(self) -> dict[str, GpuUnavailable | None]:
        return {"GPU-1": None, "GPU-2": None}

    def state(self, uuid: str) -> GpuState:
        return GpuState(uuid, 0, "card", processes=(GpuProcess(7, 1, "compute"),))

    def minor(self, uuid: str) -> int | None:
        if uuid == "GPU-1":
            raise GpuUnavailable(Status.FAILED, "the GPU is lost")
        return 0

    def detail(self, uuid: str) -> GpuDetail:
        return GpuDetail(uuid)


def test_a_gpu_that_is_lost_at_its_last_call_does_not_affect_the_others(tmp_path: Path) -> None:
    clock = Clock()
    collector = GpuCollector(clock, LosingCard(clock), every_s=0.02, root=Root(str(tmp_path)))
    assert collector.wait(5)
    table = take_reading(collector, clock).value
    collector.close()
    assert table is not None
    assert {uuid: one.status for uuid, one in table.items()} == {"GPU-1": Status.FAILED, "GPU-2": Status.OK}


def test_a_slow_opening_does_not_look_like_a_hang() -> None:
    clock = SetClock(1)
    began: list[int | None] = []

    class SlowToOpen(Card):
        def open(self) -> None:
            clock.skip(HUNG_S + 1)

        def watch(self) -> XidWatch | None:
            began.append(collector._alive_ns)
            return None

    collector = GpuCollector(clock, SlowToOpen(clock))
    collector._alive_ns = clock.now_ns
    collector._sweep()
    assert began == [clock.now_ns]


class CardWithLateUuid(Card):
    """An NVML with three GPUs, of which the second has no UUID at first."""

    unnamed = True

    def gpus(self) -> dict[str, GpuUnavailable | None]:
        failure = GpuUnavailable(Status.FAILED, "must be reset")
        return {"GPU-0": None} | ({"gpu 1": failure} if self.unnamed else {"GPU-1": None}) | {"GPU-2": None}


def test_a_gpu_keeps_its_place_when_its_uuid_becomes_known() -> None:
    """A lost GPU is named by its place in the table: in the third place, it would have the name of another GPU."""
    clock = Clock()
    card = CardWithLateUuid(clock)
    collector = GpuCollector(clock, card, every_s=0.02, retry_s=0.02)
    assert collector.wait(5)
    assert list(shown(collector)) == ["GPU-0", "gpu 1", "GPU-2"]
    card.unnamed = False
    wait_until(lambda: "GPU-1" in shown(collector))
    assert list(shown(collector)) == ["GPU-0", "GPU-1", "GPU-2"]
    collector.close()


def test_a_thread_that_cannot_start_is_reported_and_the_next_wait_starts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    collector = GpuCollector(clock, Card(clock), every_s=0.05)
    with monkeypatch.context() as no_threads:
        no_threads.setattr(threading.Thread, "start", no_thread)
        assert not collector.wait(0)
        failed = take_reading(collector, clock)
        assert (failed.status, failed.reason) == (Status.FAILED, "the GPUs are not read: can't start new thread")
        collector.close()
    collector = GpuCollector(clock, Card(clock), every_s=0.05)
    with monkeypatch.context() as no_threads:
        no_threads.setattr(threading.Thread, "start", no_thread)
        take_reading(collector, clock)
    assert collector.wait(5)
    assert take_reading(collector, clock).status is Status.OK
    collector.close()


def test_the_gpus_are_read_even_if_the_thread_that_watches_for_xids_cannot_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    card = Card(clock)
    watch = XidWatch(clock, None, {})
    monkeypatch.setattr(watch, "start", lambda: no_thread(threading.current_thread()))
    monkeypatch.setattr(card, "watch", lambda: watch)
    collector = GpuCollector(clock, card, every_s=0.05)
    assert collector.wait(5)
    assert take_reading(collector, clock).status is Status.OK
    collector.close()
    assert card.closed >= 1
