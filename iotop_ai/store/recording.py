"""The interface of anything that can be stepped through, and a Recording in memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator

from iotop_ai.model.keyframe import Keyframe
from iotop_ai.model.snapshot import Event, Snapshot
from iotop_ai.model.typed import Protocol


class Source(Protocol):
    """Anything that yields Snapshots: live, a file, stdin, ssh, a list in a test.

    What flows upstream is ignored by sources that cannot act on it (a recording).
    """

    live: bool

    def __iter__(self) -> Iterator[Snapshot | Keyframe]:
        """What ``pipeline.frames`` takes, in order of time; ends when the source does."""
        ...

    def set_interval(self, seconds: float) -> None:
        """Ask for another interval."""
        ...

    def hold_smart(self, hold: bool) -> None:
        """Ask no disk for SMART while a device is saturated."""
        ...

    def add_event(self, kind: str, text: str) -> None:
        """Put an action or a mark into the next Snapshot."""
        ...

    def close(self) -> None:
        """Stop yielding and give everything back."""
        ...


class Recording(Protocol):
    """A span of Snapshots that can be stepped through.

    Times are monotonic ns of one session. A keyframe is a Snapshot from which reading can start.
    """

    def span(self) -> tuple[int, int] | None:
        """(first, last) at_ns; None when it is empty."""
        ...

    def keyframe(self, at_ns: int) -> int | None:
        """at_ns of the last keyframe at or before; None when there is none."""
        ...

    def snapshots(self, from_ns: int, to_ns: int | None = None) -> Iterator[Snapshot]:
        """Snapshots with from_ns <= at_ns <= to_ns, oldest first."""
        ...

    def series(self, value: Callable[[Snapshot], float | None], from_ns: int) -> list[tuple[int, float | None]]:
        """(at_ns, value) of each Snapshot since from_ns, for graphs longer than a Frame's history."""
        ...


class MemoryRecording:
    """Snapshots in a list, each its own keyframe. Also a Source that ends."""

    live = False

    def __init__(self, snapshots: Iterable[Snapshot] = ()) -> None:
        self._snapshots = list(snapshots)
        self._times = [s.at_ns for s in self._snapshots]

    def append(self, snapshot: Snapshot) -> None:
        """Add the newest."""
        self._snapshots.append(snapshot)
        self._times.append(snapshot.at_ns)

    def __len__(self) -> int:
        return len(self._snapshots)

    def __iter__(self) -> Iterator[Snapshot]:
        return iter(tuple(self._snapshots))

    def span(self) -> tuple[int, int] | None:
        """(first, last) at_ns; None when it is empty."""
        return (self._times[0], self._times[-1]) if self._times else None

    def keyframe(self, at_ns: int) -> int | None:
        """The newest Snapshot's time at or before."""
        i = bisect_right(self._times, at_ns)
        return self._times[i - 1] if i else None

    def snapshots(self, from_ns: int, to_ns: int | None = None) -> Iterator[Snapshot]:
        """Snapshots with from_ns <= at_ns <= to_ns, oldest first."""
        for snapshot in self._snapshots:
            if snapshot.at_ns >= from_ns and (to_ns is None or snapshot.at_ns <= to_ns):
                yield snapshot

    def series(self, value: Callable[[Snapshot], float | None], from_ns: int) -> list[tuple[int, float | None]]:
        """(at_ns, value) of each Snapshot since from_ns."""
        return [(s.at_ns, value(s)) for s in self.snapshots(from_ns)]

    def set_interval(self, seconds: float) -> None:
        """A recording's interval is what was recorded."""

    def hold_smart(self, hold: bool) -> None:
        """Nothing is asked of a recording's disks."""

    def add_event(self, kind: str, text: str) -> None:
        """A recording is read-only."""

    def pending(self, seq: int) -> tuple[Event, ...]:
        """Nothing waits: every event is in its Snapshot."""
        return ()

    def close(self) -> None:
        """Nothing to give back."""
