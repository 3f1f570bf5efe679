"""Corrects the wall times of a recording during which the clock was set back, or set for the first time.

A keyframe is a Snapshot from which a reader can start; with the Snapshots up to the next keyframe, it makes a block.
The pre-roll consists of Snapshots that only give the rules their history; it is not shown.

After a step back, the times follow the monotonic clock until the recorded time has caught up, so that they never fall.
No time of a boot is before the last time of an earlier boot. A machine without a battery for its clock starts in 1970,
until the network sets the clock. The times before the clock was set are computed from the first time after that, but
not in a stream, whose later times are not known yet. All other times are as recorded.

Older versions of the recorder do not write a keyframe when the clock is set. In their recordings, if the clock was set
ahead and back between two keyframes, the times up to the next keyframe may still fall.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from iotop_ai.model.errors import InputError
from iotop_ai.model.keyframe import Keyframe
from iotop_ai.model.snapshot import CLOCK_SET_BACK, Event, Snapshot
from iotop_ai.store.format.codec import CLOCK_STEP_NS
from iotop_ai.store.format.line_head import parse_head
from iotop_ai.store.read.file import FileRecording

TOLERANCE_NS = CLOCK_STEP_NS
"""The largest step back of the clock, in ns, that is not corrected."""

_FIRST_TRUE_NS = 946_684_800 * 1_000_000_000
"""The year 2000 in Unix ns. An earlier time is that of a clock that has not been set since the machine started."""

SnapshotId = tuple[str, int]
"""The identity of a Snapshot: its boot ID and its monotonic time in ns."""


class Anchor(NamedTuple):
    """A time from which later times are corrected.

    It is the time of a keyframe, or of a Snapshot at which another boot begins or the clock was set ahead.
    wall_ns: the wall time as recorded. corrected_ns: the corrected wall time.
    """

    boot_id: str
    at_ns: int
    wall_ns: int
    corrected_ns: int

    def corrected(self, at_ns: int, wall_ns: int) -> int:
        """Return the corrected wall time at a later time of the same boot."""
        expected_ns = self.corrected_ns + at_ns - self.at_ns
        return wall_ns if wall_ns >= expected_ns - TOLERANCE_NS else expected_ns


class CorrectedTimes(NamedTuple):
    """The corrected times of all keyframes outside the pre-roll, and of the last Snapshot.

    Empty if all times are as recorded.

    anchors: the times of each keyframe, by the keyframe's Snapshot
    steps: for the first Snapshot after each step back, an event that reports the step
    set_backs: the same events by (index of the part, index of the block)
    end_ns: the corrected time of the last Snapshot
    """

    anchors: Mapping[SnapshotId, Anchor] = {}
    steps: Mapping[SnapshotId, Event] = {}
    set_backs: Mapping[tuple[int, int], list[Event]] = {}
    end_ns: int = 0

    def anchor(self, part: FileRecording, index: int) -> Anchor | None:
        """Return the times of a block's keyframe; None if the times are as recorded."""
        if not self.anchors:
            return None
        return self.anchors.get((part.header_of(index).boot_id, part.blocks[index].at_ns))

    def begin_ns(self, part: FileRecording, index: int) -> int:
        """Return the corrected wall time of a block's keyframe."""
        anchor = self.anchor(part, index)
        return part.blocks[index].wall_ns if anchor is None else anchor.corrected_ns


AS_RECORDED = CorrectedTimes()


class ClockCorrector:
    """Corrects recorded times, which are passed to it one by one in their order.

    times: the corrected times of the recording's files. If it is empty, like AS_RECORDED, the corrector finds the steps
    back itself.
    """

    def __init__(self, times: CorrectedTimes = AS_RECORDED) -> None:
        self._times = times
        self.anchor: Anchor | None = None
        self.newest_ns = 0
        self._offset_ns = 0
        """The corrected wall time minus the recorded wall time, at the newest time."""

    def is_set_back(self, boot_id: str, at_ns: int, wall_ns: int) -> bool:
        """Whether the clock was set back, or another boot began, between the newest time and this one."""
        if self.anchor is None:
            return False
        if self._is_other_boot(boot_id, at_ns):
            return True
        return self.anchor.corrected(at_ns, wall_ns) - wall_ns - self._offset_ns > TOLERANCE_NS

    def add(self, boot_id: str, at_ns: int, wall_ns: int, *, key: bool) -> tuple[int, Event | None]:
        """Return (the corrected wall time, the event that reports a step back directly before this time, or None).

        key: whether the time is that of a keyframe
        """
        known, anchor = self._times.anchors.get((boot_id, at_ns)), self.anchor
        if anchor is None:
            corrected_ns = wall_ns if known is None else known.corrected_ns
            self._offset_ns = corrected_ns - wall_ns
        elif known is not None:
            corrected_ns = known.corrected_ns
        elif self._is_other_boot(boot_id, at_ns):
            corrected_ns, key = max(wall_ns, self.newest_ns), True
        else:
            corrected_ns = anchor.corrected(at_ns, wall_ns)
            # A clock that was set ahead may soon be set back, so this time becomes an anchor.
            key = key or corrected_ns - anchor.corrected_ns - (at_ns - anchor.at_ns) > TOLERANCE_NS
        back_ns = corrected_ns - wall_ns - self._offset_ns
        self._offset_ns += back_ns
        if key or anchor is None or known is not None:
            self.anchor = Anchor(boot_id, at_ns, wall_ns, corrected_ns)
        self.newest_ns = max(self.newest_ns, corrected_ns)
        if self._times.anchors:
            return corrected_ns, self._times.steps.get((boot_id, at_ns))
        if back_ns <= TOLERANCE_NS:
            return corrected_ns, None
        text = f"the clock was set back by {back_ns / 1e9:.0f} s; later times are corrected"
        return corrected_ns, Event(at_ns, corrected_ns, CLOCK_SET_BACK, text)

    def _is_other_boot(self, boot_id: str, at_ns: int) -> bool:
        return self.anchor is not None and (boot_id != self.anchor.boot_id or at_ns < self.anchor.at_ns)

    def snapshot(self, snapshot: Snapshot, *, key: bool) -> Snapshot:
        """Return the Snapshot with corrected times. A step back directly before it becomes one of its events."""
        corrected_ns, step = self.add(snapshot.host.boot_id, snapshot.at_ns, snapshot.wall_ns, key=key)
        if corrected_ns == snapshot.wall_ns and step is None:
            return snapshot
        events = tuple(self.event(event, corrected_ns) for event in snapshot.events)
        return snapshot._replace(wall_ns=corrected_ns, events=events if step is None else (*events, step))

    def event(self, event: Event, latest_ns: int | None = None) -> Event:
        """Return an event with its corrected time.

        latest_ns: the latest time that the result may have, such as the time of the event's Snapshot; None for no limit
        """
        if self.anchor is None:
            return event
        corrected_ns = self.anchor.corrected(event.at_ns, event.wall_ns)
        return event._replace(wall_ns=corrected_ns if latest_ns is None else min(corrected_ns, latest_ns))


def with_corrected_times(
    items: Iterable[Snapshot | Keyframe], times: CorrectedTimes | None = None
) -> Iterator[Snapshot | Keyframe]:
    """Yield the items with corrected wall times.

    times: the corrected times of the recording's files; None for a stream. The pre-roll before the first keyframe in
    ``times`` is not changed.
    """
    if times is not None and not times.anchors:
        yield from items
        return
    clock = ClockCorrector(times or AS_RECORDED)
    for item in items:
        keyframe = item if isinstance(item, Keyframe) else None
        snapshot = item.snapshot if isinstance(item, Keyframe) else item
        if times and clock.anchor is None and (snapshot.host.boot_id, snapshot.at_ns) not in times.anchors:
            yield item
            continue
        snapshot = clock.snapshot(snapshot, key=keyframe is not None)
        yield snapshot if keyframe is None else keyframe._replace(snapshot=snapshot)


def corrected_times_of(parts: list[FileRecording]) -> CorrectedTimes:
    """Find the corrected wall times for the files of a recording. Raises InputError.

    The times of the keyframes are in the index. The other Snapshots are read only in the last block, and in each block
    before a keyframe at which the clock was set back or another boot begins.
    """
    clock, offsets_ns = ClockCorrector(), _offsets_once_set(parts)
    anchors: dict[SnapshotId, Anchor] = {}
    steps: dict[SnapshotId, Event] = {}
    set_backs: dict[tuple[int, int], list[Event]] = {}

    def true_ns(boot_id: str, at_ns: int, wall_ns: int) -> int:
        return at_ns + offsets_ns[boot_id] if wall_ns < _FIRST_TRUE_NS and boot_id in offsets_ns else wall_ns

    def add(position: tuple[int, int], boot_id: str, at_ns: int, wall_ns: int, *, key: bool) -> None:
        _, step = clock.add(boot_id, at_ns, true_ns(boot_id, at_ns, wall_ns), key=key)
        if step is not None:
            steps[boot_id, at_ns] = step
            set_backs.setdefault(position, []).append(step)

    def add_others(p: int, b: int) -> None:
        """Add the Snapshots of a block that follow its keyframe."""
        block, boot_id = parts[p].blocks[b], parts[p].header_of(b).boot_id
        try:
            for head in map(parse_head, parts[p].raw_lines(block)):
                if head is None or head.kind != "snap" or head.at_ns is None or head.wall_ns is None:
                    continue
                if head.at_ns > block.at_ns:
                    add((p, b), boot_id, head.at_ns, head.wall_ns, key=False)
        except InputError as error:
            raise InputError(f"{parts[p].path}: {error}") from None

    before: tuple[int, int] | None = None
    for p, part in enumerate(parts):
        for b, block in enumerate(part.blocks):
            if block.pre:
                continue
            boot_id = part.header_of(b).boot_id
            if before is not None and clock.is_set_back(
                boot_id, block.at_ns, true_ns(boot_id, block.at_ns, block.wall_ns)
            ):
                add_others(*before)
            add((p, b), boot_id, block.at_ns, block.wall_ns, key=True)
            assert clock.anchor is not None
            anchors[boot_id, block.at_ns] = clock.anchor._replace(wall_ns=block.wall_ns)
            before = p, b
    if before is not None:
        add_others(*before)
    return CorrectedTimes(anchors, steps, set_backs, clock.newest_ns) if steps or offsets_ns else AS_RECORDED


def _offsets_once_set(parts: list[FileRecording]) -> dict[str, int]:
    """Return the wall time minus the monotonic time, in ns, after the clock was first set, by boot ID.

    The result has only the boots that also have times from before the clock was set. Only the keyframes are read,
    because the recorder writes one when the clock is set; in recordings of older versions, the next keyframe counts.
    """
    unset: set[str] = set()
    offsets_ns: dict[str, int] = {}
    for part in parts:
        for b, block in enumerate(part.blocks):
            if block.pre:
                continue
            boot_id = part.header_of(b).boot_id
            if block.wall_ns < _FIRST_TRUE_NS:
                unset.add(boot_id)
            elif boot_id in unset:
                offsets_ns.setdefault(boot_id, block.wall_ns - block.at_ns)
    return offsets_ns
