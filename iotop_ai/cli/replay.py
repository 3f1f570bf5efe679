"""``iotop-ai replay``: a recording on the live screen, with a time line; of a stream, the screen of another machine."""

from __future__ import annotations

import argparse
import os
import stat

from iotop_ai.cli.options import add_job_flag
from iotop_ai.cli.played import sound
from iotop_ai.collectors.clock import Clock
from iotop_ai.model.errors import InputError, UsageError
from iotop_ai.model.parse import parse_time_ns
from iotop_ai.model.settings import THEMES, Settings
from iotop_ai.store.file import FileRecording

STDIN = "-"
GROWS_S = 15.0
"""A file without an end line whose newest Snapshot is younger than this is being written."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of ``replay``."""
    parser.add_argument(
        "file", metavar="FILE", help="a recording; its live name stands for the rotated parts too; - is stdin, live"
    )
    when = "14:32, 2026-11-21T14:32:05Z, -3m (before the end), +3m (after the start) or 45%%"
    parser.add_argument("--at", metavar="T", help=f"begin there: {when}")
    parser.add_argument("--speed", metavar="X", type=speed, help="play at once, this many times as fast: 0.25 to 64")
    parser.add_argument("--allow-root", action="store_true", help="read the recording although you are root")
    add_job_flag(parser)
    screen = parser.add_argument_group("the screen")
    screen.add_argument("--theme", choices=THEMES, default=argparse.SUPPRESS, help="one of " + ", ".join(THEMES))
    switch, absent = argparse.BooleanOptionalAction, argparse.SUPPRESS
    screen.add_argument("--ascii", action=switch, default=absent, help="no character beyond ASCII")
    screen.add_argument("--mouse", action=switch, default=absent, help="take the mouse, or leave it to the terminal")


def speed(text: str) -> float:
    """A factor of 0.25 to 64, with or without an x. Raises ArgumentTypeError."""
    try:
        factor = float(text.lower().removesuffix("x"))
    except ValueError:
        factor = 0.0
    if not 0.25 <= factor <= 64:
        raise argparse.ArgumentTypeError(f"{text!r} is no speed; write 0.25 to 64")
    return factor


def run(args: argparse.Namespace) -> int:
    """Show it until the user leaves; the exit code."""
    from iotop_ai.cli.options import settings_elsewhere
    from iotop_ai.sources.replay import check_user

    check_user(args.allow_root)
    settings = settings_elsewhere(args)
    path = args.file
    if path == STDIN:
        if not stat.S_ISREG(os.fstat(0).st_mode):
            return _stream(args, settings)
        path = "/dev/stdin"
    with sound(args.file):
        return _file(path, args, settings)


def _stream(args: argparse.Namespace, settings: Settings) -> int:
    from iotop_ai.cli.remote import show_stream

    if args.at is not None or args.speed is not None:
        raise UsageError("a stream is shown as it comes; --at and --speed are for files")
    return show_stream(settings, keys_from_terminal(), allow_root=args.allow_root, shared=True)


def keys_from_terminal() -> int:
    """Let keys come from the terminal, as standard input is the recording; the recording's descriptor.

    Raises UsageError without a terminal.
    """
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        raise UsageError("no terminal to read keys from: use iotop-ai export, or run it in a terminal") from None
    stream = os.dup(0)
    os.dup2(terminal, 0)
    os.close(terminal)
    return stream


def _file(path: str, args: argparse.Namespace, settings: Settings) -> int:
    from iotop_ai.cli.monitor import Opening, run_screen
    from iotop_ai.present.view import Timeline
    from iotop_ai.store.recording import MemoryRecording
    from iotop_ai.tui.deck import Deck
    from iotop_ai.tui.follow import Takes
    from iotop_ai.tui.tape import Tape

    clock = Clock()
    chain = Chain(path)
    tape = Tape(chain.parts, chain.next_part)
    if args.file == STDIN:
        os.close(keys_from_terminal())
    begin, end = tape.begin_wall_ns, tape.end_wall_ns()
    grows = args.file != STDIN and chain.grows(clock.wall_ns() - end)
    chain.follows = grows
    wall_ns = end if grows else begin
    if args.at is not None:
        wall_ns = parse_time_ns(args.at, begin, end)
    playing = args.speed is not None or (grows and args.at is None)
    factor = args.speed or 1.0

    def opening() -> Opening:
        view = {
            "mode": "replay", "timeline": Timeline(begin, max(end, begin + 1), begin), "playing": playing,
            "speed": factor, "interval_s": chain.parts[-1].header.interval_s,
        }  # fmt: skip

        def deck(app: Takes) -> Deck:
            return Deck(tape, app, clock, playing=playing, speed=factor, follows=grows)

        return Opening(tape.go(wall_ns), (), MemoryRecording(), view, deck=deck)

    return run_screen(settings, opening, chain.close)


class Chain:
    """The parts of a recording; while it is written, the one that a rotation begins."""

    def __init__(self, path: str) -> None:
        from iotop_ai.sources.chain import open_chain

        self._path = path
        self.parts = list(open_chain(path))
        self.follows = False
        self._file = self._named()

    def _named(self) -> tuple[int, int] | None:
        try:
            named = os.stat(self._path)
        except OSError:
            return None
        return (named.st_dev, named.st_ino)

    def grows(self, age_ns: int) -> bool:
        """Whether it is being written: not closed, and its newest Snapshot, ``age_ns`` old, is young."""
        last = self.parts[-1]
        return age_ns < max(GROWS_S, 3 * last.header.interval_s) * 1e9 and not last.closed()

    def next_part(self) -> FileRecording | None:
        """What goes on after the last part, when another file stands under the name."""
        from iotop_ai.sources.chain import next_part

        named = self._named() if self.follows else None
        if named is None or named == self._file:
            return None
        try:
            following = next_part(self._path, self.parts[-1])
        except InputError:  # its first keyframe is not whole yet
            return None
        if following is not None:
            self.parts.append(following)
            self._file = named if following.path == self._path else self._file
        return following

    def close(self) -> None:
        """Give the files back."""
        for part in self.parts:
            part.close()
