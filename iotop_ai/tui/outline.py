"""What a whole recording's time line shows, read through bit by bit: verdict changes, marks, gaps."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from iotop_ai.diagnosis.stamp import stamp
from iotop_ai.model.frame import Frame
from iotop_ai.model.job_end import ENDED, TRAINER, WORKER
from iotop_ai.model.sample import GAP_FACTOR
from iotop_ai.model.snapshot import Event
from iotop_ai.pipeline import frames
from iotop_ai.present.view import Timeline
from iotop_ai.store.codec import Decoder, Snap, Told, verdict_key
from iotop_ai.tui.tape import Reel

_HEAD = re.compile(rb'\{"k":"(snap|verdict|ev|hdr)",(?:"pre":true,)?(?:"m":(\d{1,19}),"t":(-?\d{1,19}))?')
_PRE = b'{"k":"snap","pre":true,'
_KEY = b',"key":true,'
_SECOND = 1_000_000_000
_LEAST_GAP_NS = 5 * _SECOND
MARK = "mark"
TROUBLE = frozenset({"oom_kill", "io_error", "disk_timeout", "read_only", "hung_task", "xid"})
"""What the kernel told that nobody wants to have happened."""
_ASKED_TO_END = (0, -15, None)
"""Ends of a worker that nobody wonders about: done, sent away by its trainer (SIGTERM), unknown."""


class Outline:
    """Reads one block with each ``step``, without decoding its Snapshots.

    Recorded verdicts are taken where this program's rules made them; else the Snapshots are folded anew.
    """

    def __init__(self, reels: Sequence[Reel], begin_wall_ns: int) -> None:
        self._reels = reels
        self._begin = begin_wall_ns
        self._reel = self._block = 0
        self._changes: list[tuple[int, str]] = []
        self._keys: list[int] = []
        self._marks: list[tuple[int, str]] = []
        self._gaps: list[tuple[int, int]] = []
        self._ends: list[tuple[int, str, bool]] = []
        self._lines_read = 0
        self._seen = begin_wall_ns
        self._usual_ns = 0
        self._key: tuple[str, str, str] | None = None
        self._folding: tuple[Reel, Iterator[Frame]] | None = None

    def timeline(self, end_wall_ns: int) -> Timeline:
        """As far as it has been read."""
        end = max(end_wall_ns, self._seen, self._begin + 1)
        return Timeline(
            self._begin, end, self._seen, tuple(self._changes), tuple(self._marks), tuple(self._gaps), tuple(self._ends)
        )

    def next_change(self, wall_ns: int, step: int) -> int | None:
        """Wall time of the next (+1) or previous (-1) change of the verdict; None when none has been found."""
        return _next(self._keys, wall_ns, step)

    def next_mark(self, wall_ns: int, step: int) -> tuple[int, str] | None:
        """The next or previous mark, or end of a job's process; of several at one time the first."""
        found = sorted([(wall, f"mark: {text}") for wall, text in self._marks] + [end[:2] for end in self._ends])
        at = _next([wall for wall, _ in found], wall_ns, step)
        return None if at is None else next(mark for mark in found if mark[0] == at)

    def step(self) -> bool:
        """Read on to the end of a block, or what was appended to the last one; whether there was anything to read."""
        reel = self._reels[self._reel]
        if self._block >= len(reel.blocks):
            if self._reel + 1 >= len(self._reels):
                return False
            self._reel, self._block, self._lines_read = self._reel + 1, 0, 0
            return True
        trusted = reel.stamp_of(self._block) == stamp()
        number = 0
        for number, line in enumerate(reel.raw_lines(reel.blocks[self._block]), 1):
            if number > self._lines_read:
                self._line(line, trusted)
        # Lines that stood at the end of the last block may have become the next one's.
        grown = number > self._lines_read
        if self._block + 1 < len(reel.blocks) or self._reel + 1 < len(self._reels):
            if not trusted:
                self._fold(reel, reel.blocks[self._block].wall_ns)
            self._block, self._lines_read = self._block + 1, max(0, self._lines_read - number)
            return True
        self._lines_read = max(number, self._lines_read)
        if not trusted and not grown:
            self._fold(reel, None)
        return grown

    def _line(self, line: bytes, trusted: bool) -> None:
        head = _HEAD.match(line)
        if head is None or line.startswith(_PRE):
            return
        if head[1] == b"snap" and head[3]:
            if trusted and self._key is None and _KEY in line[:200]:
                self._first(line)
            self._snap(int(head[3]))
        elif head[1] == b"verdict" and trusted:
            told = Decoder().read(line)
            if isinstance(told, Told):
                self._judge(told.wall_ns, str(told.verdict.state), verdict_key(told.verdict))
        elif head[1] == b"ev":
            event = Decoder().read(line)
            if isinstance(event, Event) and event.wall_ns >= self._begin - _SECOND:
                self._event(event)

    def _first(self, line: bytes) -> None:
        """What stood when what is shown begins: the verdict line may lie before all that is kept."""
        item = Decoder().read(line)
        if isinstance(item, Snap) and item.carry is not None and item.carry.verdict is not None:
            verdict = item.carry.verdict
            self._judge(item.snapshot.wall_ns, str(verdict.state), verdict_key(verdict))

    def _event(self, event: Event) -> None:
        if event.kind == MARK:
            self._marks.append((event.wall_ns, event.text))
        elif event.kind in TROUBLE:
            self._ends.append((event.wall_ns, event.text, True))
        elif event.kind == ENDED and event.role == TRAINER:
            self._ends.append((event.wall_ns, event.text, bool(event.code)))
        elif event.kind == ENDED and event.role == WORKER and event.code not in _ASKED_TO_END:
            self._ends.append((event.wall_ns, event.text, True))

    def _snap(self, wall_ns: int) -> None:
        away = wall_ns - self._seen
        if self._usual_ns and away > max(_LEAST_GAP_NS, GAP_FACTOR * self._usual_ns):
            self._gaps.append((self._seen, wall_ns))
        elif away > 0 and self._seen > self._begin:
            self._usual_ns = away
        self._seen = max(self._seen, wall_ns)

    def _judge(self, wall_ns: int, state: str, key: tuple[str, str, str]) -> None:
        if key == self._key:
            return
        self._key = key
        # What lies before the begin is not shown, but its last verdict stands there.
        wall_ns = max(wall_ns, self._begin)
        if self._keys and self._keys[-1] == wall_ns == self._begin:
            self._keys.clear()
            self._changes.clear()
        self._keys.append(wall_ns)
        if not self._changes or self._changes[-1][1] != state:
            self._changes.append((wall_ns, state))

    def _fold(self, reel: Reel, until_ns: int | None) -> None:
        """Judge the reel's Snapshots on to a time by the rules of today."""
        if self._folding is None or self._folding[0] is not reel:
            self._folding = (reel, frames(reel.items(0, adopt=False)))
        for frame in self._folding[1]:
            self._judge(frame.snapshot.wall_ns, str(frame.verdict.state), verdict_key(frame.verdict))
            if until_ns is not None and frame.snapshot.wall_ns >= until_ns:
                break


def _next(times: Sequence[int], wall_ns: int, step: int) -> int | None:
    if step > 0:
        return next((t for t in times if t > wall_ns), None)
    return next((t for t in reversed(times) if t < wall_ns), None)
