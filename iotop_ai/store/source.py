"""The interface of everything that yields Snapshots, and a list of Snapshots with this interface."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from iotop_ai.model.keyframe import Keyframe
from iotop_ai.model.snapshot import Snapshot


class Source(Protocol):
    """Anything that yields Snapshots: the live machine, a file, stdin, ssh, a list in a test.

    A source ignores the requests that it cannot fulfil, as a recording does.
    """

    live: bool

    def __iter__(self) -> Iterator[Snapshot | Keyframe]:
        """The input of ``pipeline.frames``, in order of time, until the source ends."""
        ...

    def set_interval(self, seconds: float) -> None:
        """Request another interval between Snapshots."""
        ...

    def suspend_smart_queries(self, suspend: bool) -> None:
        """Stop or resume SMART queries; they are suspended while a device is saturated."""
        ...

    def add_event(self, kind: str, text: str) -> None:
        """Add an event, such as an action or a mark, to the next Snapshot."""
        ...

    def close(self) -> None:
        """Stop yielding Snapshots and release all resources."""
        ...


class MemoryRecording:
    """A Source whose Snapshots are in a list."""

    live = False

    def __init__(self, snapshots: Iterable[Snapshot] = ()) -> None:
        self._snapshots = list(snapshots)

    def __len__(self) -> int:
        return len(self._snapshots)

    def __iter__(self) -> Iterator[Snapshot]:
        return iter(tuple(self._snapshots))

    def set_interval(self, seconds: float) -> None:
        """Do nothing, because the Snapshots exist already."""

    def suspend_smart_queries(self, suspend: bool) -> None:
        """Do nothing, because the Snapshots exist already."""

    def add_event(self, kind: str, text: str) -> None:
        """Do nothing, because the Snapshots exist already."""

    def close(self) -> None:
        """Do nothing, because there is nothing to release."""


def stop(source: Source, stream: object) -> None:
    """Close the source and run ``stream``, its iterator, to the end, which releases its resources."""
    source.close()
    for _ in stream:  # type: ignore[attr-defined]
        pass
