"""A recording named on the command line as Frames, between two times, with everything that can be wrong as one line."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Iterator

from iotop_ai.model.errors import InputError, UsageError
from iotop_ai.model.frame import Frame
from iotop_ai.model.parse import parse_moment_ns, parse_time_ns
from iotop_ai.pipeline import frames
from iotop_ai.present.units import clock, percent
from iotop_ai.sources.counted import pieces, same_rules
from iotop_ai.sources.replay import ReplaySource
from iotop_ai.store.codec import Tallied

DEBUG_VARIABLE = "IOTOP_AI_DEBUG"
_IMPOSSIBLE = (ArithmeticError, LookupError, ValueError, TypeError, AttributeError, RecursionError, AssertionError)
"""What arithmetic on damaged but well-formed counters can end in."""


def add_replay_flags(parser: argparse.ArgumentParser) -> None:
    """The recording, the part of it that is meant, and root's consent."""
    parser.add_argument(
        "file", metavar="FILE", help="a recording; its live name stands for the rotated parts too; - is stdin"
    )
    when = "14:32, 2026-11-21T14:32:05Z, -3m (before the end), +3m (after the start) or 45%%"
    parser.add_argument("--begin", metavar="T", help=f"from this time on: {when}")
    parser.add_argument("--end", metavar="T", help="up to this time")
    parser.add_argument("--allow-root", action="store_true", help="read the recording although you are root")


class Played:
    """The Frames of a recording from begin to end, both included.

    Raises UsageError for a time that cannot be meant and for root, InputError for what is no recording. To be
    iterated within ``sound``.
    """

    def __init__(
        self, path: str, begin: str | None = None, end: str | None = None, *, allow_root: bool = False
    ) -> None:
        self.source = ReplaySource(path, allow_root=allow_root)
        self._begin_ns = begin_ns = None if begin is None else self._moment(begin)
        self._end_ns = None if end is None else self._moment(end)
        if begin_ns is not None:
            if self._end_ns is not None and self._end_ns < begin_ns:
                raise UsageError(f"--end {end} is before --begin {begin}")
            self.source.start_at(begin_ns)

    def _moment(self, text: str) -> int:
        if self.source.streams:
            return parse_moment_ns(text)
        return parse_time_ns(text, *self.source.span())

    def __iter__(self) -> Iterator[Frame]:
        for frame in frames(self.source):
            if self._end_ns is not None and frame.snapshot.wall_ns > self._end_ns:
                return
            yield frame

    def done(self, wall_ns: int) -> str:
        """How far somebody has come who is at this time, for people; of a stream the time alone."""
        if self.source.streams:
            return clock(wall_ns)
        first_ns, last_ns = self.source.span()
        begin_ns = first_ns if self._begin_ns is None else max(first_ns, self._begin_ns)
        end_ns = last_ns if self._end_ns is None else min(last_ns, self._end_ns)
        return f"{clock(wall_ns)}, {percent(min(1.0, (wall_ns - begin_ns) / max(1, end_ns - begin_ns)))} %"

    def counted(self) -> Iterator[Frame | Tallied]:
        """Its Frames, in order; what was counted of some when they were recorded may stand for them.

        The newest comes as a Frame. All are Frames in a stream, and where other rules made any part of it.
        """
        parts, begin_ns, end_ns = self.source.parts, self._begin_ns, self._end_ns
        if not parts or not same_rules(parts):
            yield from self
            return
        try:
            for piece in pieces(parts, begin_ns, end_ns):
                if isinstance(piece, Tallied):
                    yield piece
                    continue
                for frame in frames(piece):
                    wall_ns = frame.snapshot.wall_ns
                    if end_ns is not None and wall_ns > end_ns:
                        return
                    if begin_ns is None or wall_ns >= begin_ns:
                        yield frame
        finally:
            for part in parts:
                part.close()

    def about(self) -> dict[str, str]:
        """What the recording is, as told by the header in force."""
        header = self.source.header
        if header is None:
            return {}
        return {
            "host": header.host,
            "boot_id": header.boot_id,
            "recorded_by": f"iotop-ai {header.tool}",
            "origin": header.origin,
            "interval_s": f"{header.interval_s:g}",
            "cmdline": header.redact,
        }


@contextlib.contextmanager
def sound(path: str) -> Iterator[None]:
    """Make of arithmetic that fails an InputError which tells no content of the file."""
    try:
        yield
    except _IMPOSSIBLE as error:
        if os.environ.get(DEBUG_VARIABLE):
            raise
        what = type(error).__name__
        raise InputError(f"{path}: cannot be evaluated ({what}; {DEBUG_VARIABLE}=1 shows where)") from error


def played_of(args: argparse.Namespace) -> Played:
    """The recording that the flags mean."""
    return Played(args.file, args.begin, args.end, allow_root=args.allow_root)
