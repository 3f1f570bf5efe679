"""The running machine as a source: a grid of ticks, events, and released resources."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from itertools import islice, pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from iotop_ai.collectors.io.monitor_sockets import send_mark
from iotop_ai.collectors.schedule import ScheduledCollector
from iotop_ai.model.reading import Status
from iotop_ai.model.settings import Settings
from iotop_ai.model.snapshot import MOST_EVENTS, NOT_RECORDED
from iotop_ai.pipeline import frames
from iotop_ai.sources.live import slow_collectors
from iotop_ai.sources.live.slow_collectors import SlowCollectors
from iotop_ai.sources.live.source import LiveSource
from iotop_ai.store.format.codec import Decoder, Encoder, SnapLine

QUICK = Settings(interval_s=0.1, smart=False)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.alone
def test_ticks_keep_their_regular_times() -> None:
    source = LiveSource(QUICK)
    taken = list(islice(source, 10))
    source.close()
    # On a busy machine some ticks are late, so the median is compared.
    assert median((b.at_ns - a.at_ns) / 1e9 for a, b in pairwise(taken)) == pytest.approx(0.1, abs=0.04)
    assert [s.seq for s in taken] == list(range(1, 11))
    assert taken[0].smart.status is Status.OFF
    assert all(s.block.value is not None and s.processes.value is not None for s in taken)


@pytest.mark.parametrize("way", ["iterate", "direct", "drop"])
def test_close_releases_everything(way: str) -> None:
    before, threads = descriptors(), threading.active_count()
    source = LiveSource(QUICK)
    if way == "direct":
        source.snapshot()
        source.close()
    elif way == "iterate":
        for taken, _ in enumerate(source):
            if taken == 2:
                source.close()
    else:
        ticks = iter(source)
        next(ticks)
        del ticks
    source.close()
    end = time.monotonic() + 30
    while threading.active_count() > threads and time.monotonic() < end:
        time.sleep(0.02)
    assert descriptors() <= before
    assert threading.active_count() <= threads


def test_a_collector_that_cannot_be_closed_does_not_keep_the_others_open(monkeypatch: pytest.MonkeyPatch) -> None:
    before = descriptors()
    source = LiveSource(QUICK)
    source.snapshot()

    def fail() -> None:
        raise RuntimeError("cannot join thread before it is started")

    close = source._collectors[0].close
    monkeypatch.setattr(source._collectors[0], "close", fail)
    source.close()
    close()
    assert descriptors() <= before


def test_the_first_snapshot_does_not_wait_for_slow_collectors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("IOTOP_AI_SOCKET", str(tmp_path / "marks.sock"))
    before, threads = descriptors(), threading.active_count()
    source = LiveSource(Settings(interval_s=0.1), marks=True, quick_start=True)
    ticks = iter(source)
    first = next(ticks)
    assert first.block.value is not None
    assert first.processes.value is not None
    assert [reading.status for reading in (first.gpu, first.gpu_slow, first.smart)] == [Status.PENDING] * 3
    assert "gpu" not in {thread.name for thread in threading.enumerate()}
    assert not (tmp_path / "marks.sock").exists()
    source.begin()
    source.begin()
    assert (tmp_path / "marks.sock").exists()
    send_mark("epoch 1", os.environ)
    seen = [event for snapshot in islice(ticks, 20) for event in snapshot.events]
    assert [event.text for event in seen if event.kind == "mark"] == ["epoch 1"]
    assert source.wait_gpu(20)
    source.close()
    source.begin()
    del ticks
    end = time.monotonic() + 30
    while (threading.active_count() > threads or descriptors() > before) and time.monotonic() < end:
        time.sleep(0.02)
    assert descriptors() <= before
    assert threading.active_count() <= threads


def test_a_close_while_slow_collectors_start_releases_them(monkeypatch: pytest.MonkeyPatch) -> None:
    before, threads = descriptors(), threading.active_count()

    class ClosedMeanwhile(SlowCollectors):
        def start(self) -> None:
            super().start()
            source.close()

    class ClosedBefore(SlowCollectors):
        def __init__(self, *arguments: Any) -> None:
            source.close()
            super().__init__(*arguments)

    for kind in (ClosedMeanwhile, ClosedBefore):
        source = LiveSource(QUICK, quick_start=True)
        monkeypatch.setattr(slow_collectors, "SlowCollectors", kind)
        source.begin()
        assert source._collectors == []
    end = time.monotonic() + 30
    while threading.active_count() > threads and time.monotonic() < end:
        time.sleep(0.02)
    assert descriptors() <= before
    assert threading.active_count() <= threads


def test_slow_collectors_that_start_during_the_first_snapshot_are_pending_in_it() -> None:
    source = LiveSource(QUICK, quick_start=True)

    class Begins(list[ScheduledCollector]):
        """A list of collectors that calls begin() after its last collector, as another thread might."""

        def __iter__(self) -> Iterator[ScheduledCollector]:
            yield from super().__iter__()
            source.begin()

    source._collectors = Begins(source._collectors)
    assert source.snapshot().gpu.status is Status.PENDING
    source.close()


def test_slow_collectors_start_with_the_second_snapshot() -> None:
    source = LiveSource(QUICK, quick_start=True)
    ticks = iter(source)
    assert next(ticks).gpu.status is Status.PENDING
    later = list(islice(ticks, 2))
    assert source.wait_gpu(20)
    assert all(snapshot.smart.status is Status.OFF for snapshot in later)
    # A tick repeats the previous Reading of a collector until the collector is due again.
    assert any(snapshot.gpu.status is not Status.PENDING for snapshot in islice(ticks, 40))
    source.close()


def test_a_shorter_interval_applies_before_the_longer_one_is_over() -> None:
    source = LiveSource(QUICK._replace(interval_s=60.0))
    ticks = iter(source)
    next(ticks)
    threading.Timer(0.1, source.set_interval, (0.1,)).start()
    start = time.monotonic()
    assert next(ticks).interval_s == 0.1
    assert time.monotonic() - start < 5
    source.close()


def test_events_are_in_the_next_snapshot_and_only_there() -> None:
    source = LiveSource(QUICK)
    source.add_event("mark", "epoch 3")
    first, second = source.snapshot(), source.snapshot()
    source.close()
    assert [(e.kind, e.text) for e in first.events if e.kind == "mark"] == [("mark", "epoch 3")]
    assert not [e for e in second.events if e.kind == "mark"]


def test_events_wait_until_a_snapshot_carries_them() -> None:
    source = LiveSource(QUICK)
    first = source.snapshot()
    source.add_event("mark", "a")
    assert [e.text for e in source.pending(first.seq) if e.kind == "mark"] == ["a"]
    second = source.snapshot()
    source.add_event("mark", "b")
    assert [e.text for e in source.pending(first.seq) if e.kind == "mark"] == ["a", "b"]
    assert [e.text for e in source.pending(second.seq) if e.kind == "mark"] == ["b"]
    source.close()
    assert [e.text for e in source.pending(second.seq) if e.kind == "mark"] == ["b"]


def test_the_newest_marks_of_a_flood_are_kept_and_the_others_counted() -> None:
    source = LiveSource(QUICK)
    source.snapshot()
    for number in range(MOST_EVENTS + 800):
        source.add_mark(str(number))
    flooded, after = source.snapshot(), source.snapshot()
    source.close()
    assert len(flooded.events) == MOST_EVENTS
    assert [e.text for e in flooded.events if e.kind == "mark"][-1] == str(MOST_EVENTS + 799)
    dropped = MOST_EVENTS + 800 - sum(e.kind == "mark" for e in flooded.events)
    notes = [e.text for e in flooded.events if e.kind == NOT_RECORDED]
    assert notes == [f"{dropped} events not kept: more than {MOST_EVENTS} in one snapshot"]
    assert not [e for e in after.events if e.kind in ("mark", NOT_RECORDED)]


def test_live_snapshots_survive_their_encoding() -> None:
    source = LiveSource(QUICK)
    encoder, decoder = Encoder(4), Decoder()
    for live in islice(frames(source), 9):
        kept = [item for line in encoder.lines(live) if isinstance(item := decoder.read(line.encode()), SnapLine)]
        assert [k.snapshot for k in kept] == [live.snapshot]
        assert not kept[0].key or (kept[0].last, kept[0].carry) == (live.sample, live.carry)
    source.close()
