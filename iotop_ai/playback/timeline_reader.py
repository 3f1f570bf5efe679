"""Reads the timeline of a whole recording step by step: changes of the verdict, marks, alerts and gaps."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from iotop_ai.diagnosis.rules_version import stamp
from iotop_ai.model.finding import Severity
from iotop_ai.model.frame import Frame
from iotop_ai.model.job.exits import ENDED, TRAINER, WORKER
from iotop_ai.model.sample import GAP_FACTOR
from iotop_ai.model.snapshot import NOT_RECORDED, Event
from iotop_ai.pipeline import frames
from iotop_ai.playback.player import RecordingPart
from iotop_ai.present.screen.view import Timeline
from iotop_ai.store.format.codec import Decoder, SnapLine, VerdictLine, verdict_key
from iotop_ai.store.format.line_head import Kind, has_gap, has_key, parse_head

_SECOND = 1_000_000_000
_LEAST_GAP_NS = 5 * _SECOND
"""A shorter interval between two Snapshots is never a gap, in nanoseconds."""
_EQUAL_DIVISOR = 4
"""Two intervals count as equally long if they differ by at most the length of the first one divided by this."""
MARK, ALERT = "mark", "alert"
_FIRING = "firing:"
"""The third word in the text of an alert that fires, after its severity and its rule."""
_DISK_EVENTS = ("io_error", "disk_timeout", "disk_reset", "ata_error", "read_only", "fs_error", "server_silent")
TROUBLE = frozenset(("oom_kill", "hung_task", "xid", "gpu_reset", "memory_error", NOT_RECORDED, *_DISK_EVENTS))
"""The kinds of events that the timeline shows as faults."""
_NORMAL_CODES = (0, -15, None)
"""A worker's exit codes that the timeline does not show: 0, SIGTERM from its trainer (-15), and unknown (None)."""


def is_trouble(event: Event) -> bool:
    """Whether an event is a fault, an alert, the end of a trainer, or the abnormal end of a worker."""
    if event.kind != ENDED:
        return event.kind == ALERT or event.kind in TROUBLE
    return event.role == TRAINER or (event.role == WORKER and event.code not in _NORMAL_CODES)


class TimelineReader:
    """Reads one block per ``step``.

    If the recording was made with the rules of this program, its verdicts are used, and of the Snapshots only the first
    keyframe is decoded. Otherwise the rules judge all Snapshots again.
    """

    def __init__(self, parts: Sequence[RecordingPart], begin_wall_ns: int) -> None:
        self._parts = parts
        self._begin = begin_wall_ns
        self._part = self._block = 0
        """The index of the part that is read now, and of the block in that part."""
        self._changes: list[tuple[int, str]] = []
        """(wall time, new state) of each change of the verdict's state."""
        self._change_times: list[int] = []
        """The wall times of all changes of the verdict, also of its class or subject alone."""
        self._marks: list[tuple[int, str]] = []
        self._gaps: list[tuple[int, int]] = []
        self._faults_and_ends: list[tuple[int, str, bool]] = []
        """The faults and the ends of processes, as (wall time, text, whether the entry is a failure)."""
        self._alerts: list[tuple[int, str, bool]] = []
        """The alerts that fired, as (wall time, text, whether the alert is critical)."""
        self._lines_read = 0
        """The number of lines of the current block that have been read."""
        self._newest_ns = begin_wall_ns
        """The wall time of the newest Snapshot that was read."""
        self._least_gap_s = 0.0
        """Three times the longest interval in the headers of the session so far.

        A shorter time between Snapshots is a gap only if the newer one says so: after a burst (``--burst``), the
        interval becomes longer again.
        """
        self._usual_ns = 0
        """The newest interval between Snapshots that was not a gap; 0 before there is one."""
        self._gap_ns = 0
        """The last interval if it was a gap, otherwise 0."""
        self._key: tuple[str, str, str] | None = None
        """The ``verdict_key`` of the newest verdict; None before the first one."""
        self._judged: Frame | None = None
        """The newest Frame that was judged again in the current part; None before the first one."""
        self._judged_count = 0
        """The number of Snapshots of the current block that were judged again."""

    def timeline(self, end_wall_ns: int) -> Timeline:
        """The part of the timeline that has been read so far."""
        end = max(end_wall_ns, self._newest_ns, self._begin + 1)
        return Timeline(
            *(self._begin, end, self._newest_ns, tuple(self._changes), tuple(self._marks), tuple(self._gaps)),
            *(tuple(self._faults_and_ends), tuple(self._alerts)),
        )

    def next_change(self, wall_ns: int, step: int) -> int | None:
        """The wall time of the verdict's next (step +1) or previous (step -1) change; None if none is known yet."""
        return _next(self._change_times, wall_ns, step)

    def next_mark(self, wall_ns: int, step: int) -> tuple[int, str] | None:
        """The next or previous mark, alert, fault or end of a job's process; the first of several at the same time.

        None if there is none.
        """
        marks = sorted(
            [(wall, f"mark: {text}") for wall, text in self._marks]
            + [(wall, f"alert: {text}") for wall, text, _ in self._alerts]
            + [entry[:2] for entry in self._faults_and_ends]
        )
        at = _next([wall for wall, _ in marks], wall_ns, step)
        return None if at is None else next(mark for mark in marks if mark[0] == at)

    def step(self) -> bool:
        """Read to the end of a block, or the new lines of the last block, or go to the next part.

        Returns whether there was anything to do.
        """
        part = self._parts[self._part]
        if self._block >= len(part.blocks):
            if self._part + 1 >= len(self._parts):
                return False
            self._part, self._block, self._lines_read, self._judged = self._part + 1, 0, 0, None
            return True
        header = part.header_of(self._block)
        trusted = header.stamp == stamp()
        least_gap_s = GAP_FACTOR * header.interval_s
        # A file that begins during a burst has the short interval of the burst in its header.
        self._least_gap_s = max(self._least_gap_s, least_gap_s) if header.continues else least_gap_s
        line_number = 0
        for line_number, line in enumerate(part.raw_lines(part.blocks[self._block]), 1):
            if line_number > self._lines_read:
                self._read_line(line, trusted)
        has_grown = line_number > self._lines_read
        if self._block + 1 < len(part.blocks) or self._part + 1 < len(self._parts):
            if not trusted:
                self._judge_again(part)
            # Lines that were read as the end of this block may by now belong to the next block.
            self._block, self._lines_read = self._block + 1, max(0, self._lines_read - line_number)
            self._judged_count = 0
            return True
        self._lines_read = max(line_number, self._lines_read)
        if not trusted and not has_grown:
            self._judge_again(part)
        return has_grown

    def _read_line(self, line: bytes, trusted: bool) -> None:
        head = parse_head(line)
        if head is None or head.pre:
            return
        if head.is_snap and head.wall_ns is not None:
            if trusted and self._key is None and has_key(line):
                self._add_keyframe_verdict(line)
            self._add_snapshot(head.wall_ns, has_gap(line))
        elif head.kind == Kind.VERDICT and trusted:
            item = Decoder().read(line)
            if isinstance(item, VerdictLine):
                self._add_verdict(item.wall_ns, str(item.verdict.state), verdict_key(item.verdict))
        elif head.kind == Kind.EVENT:
            event = Decoder().read(line)
            if isinstance(event, Event) and event.wall_ns >= self._begin - _SECOND:
                self._add_event(event)

    def _add_keyframe_verdict(self, line: bytes) -> None:
        """Add the verdict at the start from the first keyframe, because the line of that verdict may be missing."""
        item = Decoder().read(line)
        if isinstance(item, SnapLine) and item.carry is not None and item.carry.verdict is not None:
            verdict = item.carry.verdict
            self._add_verdict(item.snapshot.wall_ns, str(verdict.state), verdict_key(verdict))

    def _add_event(self, event: Event) -> None:
        if event.kind == MARK:
            self._marks.append((event.wall_ns, event.text))
        elif event.kind == ALERT:
            severity, _, text = event.text.partition(" ")
            if text.split(" ", 2)[1:2] == [_FIRING]:
                self._alerts.append((event.wall_ns, text, severity == Severity.CRITICAL))
        elif is_trouble(event):
            self._faults_and_ends.append((event.wall_ns, event.text, event.role != TRAINER or bool(event.code)))

    def _add_snapshot(self, wall_ns: int, dropped: bool) -> None:
        """Add a Snapshot. dropped: whether Snapshots before it were dropped."""
        interval_ns = wall_ns - self._newest_ns
        least_ns = max(_LEAST_GAP_NS, GAP_FACTOR * self._usual_ns, 0.0 if dropped else self._least_gap_s * _SECOND)
        if self._usual_ns and interval_ns > least_ns:
            if self._gap_ns and abs(interval_ns - self._gap_ns) <= self._gap_ns // _EQUAL_DIVISOR:
                # A second interval of this length: the first was not a gap; the usual interval has become longer.
                self._gaps.pop()
                self._usual_ns, self._gap_ns = interval_ns, 0
            else:
                self._gaps.append((self._newest_ns, wall_ns))
                self._gap_ns = interval_ns
        elif interval_ns > 0 and self._newest_ns > self._begin:
            self._usual_ns, self._gap_ns = interval_ns, 0
        self._newest_ns = max(self._newest_ns, wall_ns)

    def _add_verdict(self, wall_ns: int, state: str, key: tuple[str, str, str]) -> None:
        if key == self._key:
            return
        self._key = key
        # Times before the start are not shown, but the last verdict before it is shown at the start.
        wall_ns = max(wall_ns, self._begin)
        if self._change_times and self._change_times[-1] == wall_ns == self._begin:
            self._change_times.clear()
            self._changes.clear()
        self._change_times.append(wall_ns)
        if not self._changes or self._changes[-1][1] != state:
            self._changes.append((wall_ns, state))

    def _judge_again(self, part: RecordingPart) -> None:
        """With the rules of this program, judge the Snapshots of the current block that were not judged yet."""
        if part.blocks[self._block].pre:
            return
        first, newest = self._block, self._judged
        while not self._judged_count and first > 0 and part.blocks[first - 1].pre:
            first -= 1  # the pre-roll gives the rules their history
        items = islice(part.items(first, adopt=False, last=self._block + 1), self._judged_count, None)
        if newest is None:
            judged = frames(items)
        else:
            judged = frames(
                items, before=newest.snapshot, last=newest.sample, history=newest.history, carry=newest.carry
            )
        for frame in judged:
            self._add_verdict(frame.snapshot.wall_ns, str(frame.verdict.state), verdict_key(frame.verdict))
            self._judged, self._judged_count = frame, self._judged_count + 1


def _next(times: Sequence[int], wall_ns: int, step: int) -> int | None:
    if step > 0:
        return next((t for t in times if t > wall_ns), None)
    return next((t for t in reversed(times) if t < wall_ns), None)
