"""When a collector that is not read in every tick is due."""

from __future__ import annotations

from iotop_ai.collectors.schedule import EARLY_NS, ScheduledCollector
from tests.clocks import SetClock


class CountedReads:
    """A collector whose value is the number of its reads."""

    field = "gpu"

    def __init__(self, every_s: float) -> None:
        self.every_s = every_s
        self.reads = 0

    def read(self) -> int:
        self.reads += 1
        return self.reads

    def close(self) -> None:
        pass


def values(collector: CountedReads, changes: dict[int, float], seconds: int) -> list[int | None]:
    """Return the values of one tick per second. changes: the new ``every_s`` by the second in which it applies."""
    clock = SetClock(10**9)
    scheduled = ScheduledCollector(collector, clock)
    found = []
    for second in range(seconds):
        collector.every_s = changes.get(second, collector.every_s)
        found.append(scheduled.reading(clock.monotonic_ns()).value)
        clock.skip(1)
    return found


def test_the_first_tick_reads_whatever_the_clock_shows() -> None:
    assert values(CountedReads(1e9), {}, 3) == [1, 1, 1]


def test_a_shorter_interval_applies_at_once() -> None:
    assert values(CountedReads(60.0), {3: 1.0}, 6) == [1, 1, 1, 2, 3, 4]


def test_a_longer_interval_counts_from_the_last_read() -> None:
    assert values(CountedReads(1.0), {3: 4.0}, 9) == [1, 2, 3, 3, 3, 3, 4, 4, 4]


def test_a_tick_that_comes_slightly_early_reads() -> None:
    collector = CountedReads(2.0)
    scheduled = ScheduledCollector(collector, SetClock())
    times = (0, 2 * 10**9 - EARLY_NS - 1, 2 * 10**9 - EARLY_NS)
    assert [scheduled.reading(at_ns).value for at_ns in times] == [1, 1, 2]
