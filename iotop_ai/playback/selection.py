"""Reads a recording named on the command line as Frames between two times; each error is reported in one line."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Iterator

from iotop_ai.model.errors import DEBUG_VARIABLE, InputError, UsageError
from iotop_ai.model.frame import Frame
from iotop_ai.model.parse import is_time_of_day, parse_moment_ns, parse_time_ns
from iotop_ai.pipeline import frames
from iotop_ai.present.text.units import clock, percent
from iotop_ai.sources.recorded.source import ReplaySource
from iotop_ai.sources.recorded.totals import SummedBlock, blocks_or_totals, same_rules, shown_blocks
from iotop_ai.store.format.codec import Header, TotalsLine

ALLOW_ROOT = "as root, read a file even if it is a link or another user owns it"
_NEAR_NS = 3600 * 1_000_000_000
"""A time of day farther than this from the recording is an error, because it would select all or nothing of it."""
_CORRUPT_INPUT_ERRORS = (
    ArithmeticError,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    RecursionError,
    AssertionError,
)
"""The exceptions that arithmetic on damaged but well-formed counters can raise."""


def add_replay_flags(parser: argparse.ArgumentParser) -> None:
    """Add the arguments FILE, --begin, --end and --allow-root."""
    parser.add_argument(
        "file", metavar="FILE", help="a recording; its first name stands for the rotated parts too; - is stdin"
    )
    when = "14:32, 2026-11-21T14:32:05Z, -3m (before the end), +3m (after the start), 45%%, start or end"
    parser.add_argument("--begin", metavar="T", help=f"from this time on: {when}")
    parser.add_argument("--end", metavar="T", help="up to this time")
    parser.add_argument("--allow-root", action="store_true", help=ALLOW_ROOT)


class RecordedFrames:
    """The Frames of a recording from begin to end, inclusive. Iterate within ``corrupt_input_as_error``.

    Raises UsageError for an invalid time, and InputError for a file that is not a recording.
    """

    def __init__(
        self, path: str, begin: str | None = None, end: str | None = None, *, allow_root: bool = False
    ) -> None:
        self.source = ReplaySource(path, allow_root=allow_root, correct_times=True)
        self.begin_ns = begin_ns = None if begin is None else self._moment_ns(begin)
        self.end_ns = None if end is None else self._moment_ns(end)
        if begin_ns is not None:
            if self.end_ns is not None and self.end_ns < begin_ns:
                raise UsageError(f"--end {end} is before --begin {begin}")
            self.source.start_at(begin_ns)
        # The header is read here, because an iteration closes the files.
        parts = self.source.parts
        blocks = shown_blocks(parts, begin_ns, self.end_ns, self.source.times) if parts else []
        self._header = parts[blocks[-1].part].header_of(blocks[-1].block) if blocks else None

    @property
    def header(self) -> Header | None:
        """The header of the last selected session; for a stream, of the newest item, or None before the first line."""
        return self._header or self.source.header

    def _moment_ns(self, text: str) -> int:
        if self.source.is_stream:
            return parse_moment_ns(text)
        begin_ns, end_ns = self.source.span()
        wall_ns = parse_time_ns(text, begin_ns, end_ns)
        if is_time_of_day(text) and not begin_ns - _NEAR_NS <= wall_ns <= end_ns + _NEAR_NS:
            first, last = (clock(ns, pattern="%F %T") for ns in (begin_ns, end_ns))
            raise UsageError(f"{text}: the recording is from {first} to {last}")
        return wall_ns

    def __iter__(self) -> Iterator[Frame]:
        for frame in frames(self.source):
            if self.end_ns is not None and frame.snapshot.wall_ns > self.end_ns:
                return
            yield frame

    def progress(self, wall_ns: int) -> str:
        """The progress at a time, such as "14:32:05, 45 %".

        For a stream, whose end is unknown, only the time is given.
        """
        if self.source.is_stream:
            return clock(wall_ns)
        first_ns, last_ns = self.source.span()
        begin_ns = first_ns if self.begin_ns is None else max(first_ns, self.begin_ns)
        end_ns = last_ns if self.end_ns is None else min(last_ns, self.end_ns)
        return f"{clock(wall_ns)}, {percent(min(1.0, (wall_ns - begin_ns) / max(1, end_ns - begin_ns)))} %"

    def frames_or_totals(self) -> Iterator[Frame | TotalsLine]:
        """The Frames in order; where possible, recorded totals replace whole blocks. The last item is a Frame.

        A stream, and a recording that was partly made with other rules, yield only Frames.
        """
        parts, begin_ns, end_ns = self.source.parts, self.begin_ns, self.end_ns
        if not parts or not same_rules(parts):
            yield from self
            return
        try:
            for block in blocks_or_totals(parts, begin_ns, end_ns, times=self.source.times):
                if isinstance(block, SummedBlock):
                    assert block.contents.totals is not None
                    yield block.contents.totals
                    continue
                for frame in frames(block):
                    wall_ns = frame.snapshot.wall_ns
                    if end_ns is not None and wall_ns > end_ns:
                        return
                    if begin_ns is None or wall_ns >= begin_ns:
                        yield frame
        finally:
            for part in parts:
                part.close()

    def about(self) -> dict[str, str]:
        """Facts about the selected Frames from ``header``, by name; {} before a header is read."""
        header = self.header
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
def corrupt_input_as_error(path: str) -> Iterator[None]:
    """Report failed arithmetic on a file's content as an InputError that does not quote the content."""
    try:
        yield
    except _CORRUPT_INPUT_ERRORS as error:
        if os.environ.get(DEBUG_VARIABLE):
            raise
        # An error in the screen has a note that names its crash log.
        where = "; ".join(getattr(error, "__notes__", ())) or f"{DEBUG_VARIABLE}=1 shows where"
        raise InputError(f"{path}: cannot be evaluated ({type(error).__name__}; {where})") from error


def recorded_frames(args: argparse.Namespace) -> RecordedFrames:
    """The Frames that are selected by the arguments of ``add_replay_flags``."""
    return RecordedFrames(args.file, args.begin, args.end, allow_root=args.allow_root)
