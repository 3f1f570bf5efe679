"""The interface of anything that yields Snapshots, and a list of Snapshots with this interface."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from iotop_ai.model.keyframe import Keyframe
from iotop_ai.model.snapshot import Event, Snapshot


class Source(Protocol):
    """Anything that yields Snapshots: live, a file, stdin, ssh, a list in a test.

    A source that cannot act on a request (a recording) ignores it.
    """

    live: bool

    def __iter__(self) -> Iterator[Snapshot | Keyframe]:
        """Input of ``pipeline.frames``, in order of time, until the source ends."""
        ...

    def set_interval(self, seconds: float) -> None:
        """Request another interval."""
        ...

    def hold_smart(self, hold: bool) -> None:
        """Query no disk for SMART while a device is saturated."""
        ...

    def add_event(self, kind: str, text: str) -> None:
        """Put an action or a mark into the next Snapshot."""
        ...

    def close(self) -> None:
        """Stop yielding and release everything."""
        ...


class MemoryRecording:
    """A Source of Snapshots in a list."""

    live = False

    def __init__(self, snapshots: Iterable[Snapshot] = ()) -> None:
        self._snapshots = list(snapshots)

    def append(self, snapshot: Snapshot) -> None:
        """Add the newest."""
        self._snapshots.append(snapshot)

    def __len__(self) -> int:
        return len(self._snapshots)

    def __iter__(self) -> Iterator[Snapshot]:
        return iter(tuple(self._snapshots))

    def set_interval(self, seconds: float) -> None:
        """Ignored."""

    def hold_smart(self, hold: bool) -> None:
        """Ignored."""

    def add_event(self, kind: str, text: str) -> None:
        """Ignored."""

    def pending(self, seq: int) -> tuple[Event, ...]:
        """Return (): every event is in its Snapshot."""
        return ()

    def close(self) -> None:
        """Nothing to release."""


def stop(source: Source, stream: object) -> None:
    """Close the source and run its iterator to the end, which releases its resources."""
    source.close()
    for _ in stream:  # type: ignore[attr-defined]
        pass
