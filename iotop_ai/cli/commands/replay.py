"""``iotop-ai replay``: show a recording with a timeline on the screen, or a live stream from another machine."""

from __future__ import annotations

import argparse
import os
import stat
from typing import TYPE_CHECKING

from iotop_ai.cli.options.common import add_job_flag
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.model.errors import InputError, UsageError
from iotop_ai.model.parse import parse_time_ns
from iotop_ai.model.settings import THEMES, Settings
from iotop_ai.playback.selection import ALLOW_ROOT, corrupt_input_as_error
from iotop_ai.store.read.file import FileRecording

if TYPE_CHECKING:
    from iotop_ai.model.frame import Frame

STDIN = "-"
RECORDED_TEXT = "iotop-ai report FILE or iotop-ai diagnose FILE"
"""The commands that show a recording without a screen."""
GROWS_S = 15.0
"""A file without an end line counts as still being written if its newest Snapshot is younger than this.

With long intervals, the limit is 3 intervals.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``replay``."""
    parser.add_argument(
        "file", metavar="FILE", help="a recording (with its rotated parts), or - for a live stream on stdin"
    )
    when = "14:32, 2026-11-21T14:32:05Z, -3m (before the end), +3m (after the start), 45%%, start or end"
    parser.add_argument("--at", metavar="T", help=f"start at: {when}")
    parser.add_argument("--speed", metavar="X", type=parse_speed, help="start playing at this speed: 0.25 to 64")
    parser.add_argument("--allow-root", action="store_true", help=ALLOW_ROOT)
    add_job_flag(parser)
    screen = parser.add_argument_group("the screen")
    screen.add_argument("--theme", choices=THEMES, default=argparse.SUPPRESS, help="one of " + ", ".join(THEMES))
    switch, absent = argparse.BooleanOptionalAction, argparse.SUPPRESS
    screen.add_argument("--ascii", action=switch, default=absent, help="use ASCII characters only")
    screen.add_argument(
        "--mouse", action=switch, default=absent, help="react to the mouse, or leave it to the terminal"
    )


def parse_speed(text: str) -> float:
    """Return a speed from 0.25 to 64; the text may end with an x. Raises ArgumentTypeError."""
    try:
        speed = float(text.lower().removesuffix("x"))
    except ValueError:
        speed = 0.0
    if not 0.25 <= speed <= 64:
        raise argparse.ArgumentTypeError(f"{text!r} is not a speed; write 0.25 to 64")
    return speed


def run(args: argparse.Namespace) -> int:
    """Show the recording until the user leaves the screen; return the exit code."""
    from iotop_ai.cli.options.common import settings_elsewhere

    settings = settings_elsewhere(args)
    path = args.file
    if path == STDIN:
        if not stat.S_ISREG(os.fstat(0).st_mode):
            return _show_stdin(args, settings)
        path = "/dev/stdin"
    with corrupt_input_as_error(args.file):
        return _show_file(path, args, settings)


def _show_stdin(args: argparse.Namespace, settings: Settings) -> int:
    from iotop_ai.cli.commands.monitor.remote import show_stream

    if args.at is not None or args.speed is not None:
        raise UsageError("--at and --speed work with files only, not with a stream")
    return show_stream(settings, switch_stdin_to_terminal(), shared=True)


def switch_stdin_to_terminal() -> int:
    """Make the terminal the standard input; return a descriptor of the old standard input, which is the recording.

    Raises UsageError when the process has no terminal.
    """
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        raise UsageError(
            "no terminal to read keys from: use iotop-ai export, or run iotop-ai replay in a terminal"
        ) from None
    stream = os.dup(0)
    os.dup2(terminal, 0)
    os.close(terminal)
    return stream


def _show_file(path: str, args: argparse.Namespace, settings: Settings) -> int:
    from iotop_ai.cli.commands.monitor.command import ScreenStart, run_screen
    from iotop_ai.cli.options.devices import devices_in_frame
    from iotop_ai.playback.player import FrameCursor
    from iotop_ai.present.screen.view import Timeline
    from iotop_ai.store.source import MemoryRecording
    from iotop_ai.tui.threads.playback import PlaybackThread
    from iotop_ai.tui.threads.source import MessageReceiver

    clock = Clock()
    # The shell opened the file on stdin because the user named it, so root may read it.
    chain = Chain(path, allow_root=args.allow_root or args.file == STDIN)
    cursor = FrameCursor(chain.parts, chain.next_part)
    if args.file == STDIN:
        os.close(switch_stdin_to_terminal())
    if settings.job:
        from iotop_ai.cli.options.job import check_recorded_job
        from iotop_ai.model.keyframe import Keyframe

        items = (item for part in chain.parts for item in part.items())
        snapshots = (item.snapshot if isinstance(item, Keyframe) else item for item in items)
        check_recorded_job(snapshots, settings.job)
    begin, end = cursor.begin_wall_ns, cursor.end_wall_ns()
    grows = args.file != STDIN and chain.grows(clock.wall_ns() - end)
    chain.follows = grows
    wall_ns = end if grows else begin
    if args.at is not None:
        wall_ns = parse_time_ns(args.at, begin, end)
    playing = args.speed is not None or (grows and args.at is None)
    speed = args.speed or 1.0

    def make_screen_start() -> ScreenStart:
        changes = {
            "mode": "replay", "timeline": Timeline(begin, max(end, begin + 1), begin), "playing": playing,
            "speed": speed, "interval_s": chain.interval_s,
        }  # fmt: skip

        def make_playback(app: MessageReceiver) -> PlaybackThread:
            return PlaybackThread(cursor, app, clock, playing=playing, speed=speed, follows=grows)

        frame = cursor.seek(wall_ns)
        if args.at is None and not playing:
            frame = cursor.first_verdict()
            changes["message"] = _opening_text(frame, begin, settings)
        changes["base"] = frame.snapshot if settings.accumulated else None
        changes["devices"] = devices_in_frame(frame, settings.devices)
        return ScreenStart(frame, (), MemoryRecording(), changes, make_playback=make_playback)

    return run_screen(settings, make_screen_start, chain.close, RECORDED_TEXT)


def _opening_text(frame: Frame, begin_ns: int, settings: Settings) -> str:
    """Return the message with the opening moment and the key for the start; "" if the replay opens at the start."""
    from iotop_ai.present.screen.keymap import first_key
    from iotop_ai.present.text.units import duration

    passed_s = (frame.snapshot.wall_ns - begin_ns) / 1e9
    if passed_s < 1:
        return ""
    what = "" if frame.verdict.primary.class_id == "unknown" else " at the first verdict,"
    key = first_key("cursor.first", settings.keymap)
    return f"opened{what} {duration(passed_s)} after the start" + (f"; {key}: the start" if key else "")


class Chain:
    """The parts of a recording. ``next_part`` adds the parts that rotation makes.

    follows: whether ``next_part`` looks for another part.
    """

    def __init__(self, path: str, *, allow_root: bool = False) -> None:
        from iotop_ai.sources.recorded.rotated_parts import open_chain

        self._path = path
        self.parts = list(open_chain(path, allow_root=allow_root))
        self.follows = False
        self._file = self._file_by_name()
        """The device and the inode of the file that had the recording's name when the last part was opened."""

    def _file_by_name(self) -> tuple[int, int] | None:
        """Return the device and the inode of the file that the path names now; None if there is none."""
        try:
            status = os.stat(self._path)
        except OSError:
            return None
        return (status.st_dev, status.st_ino)

    @property
    def interval_s(self) -> float:
        """The interval of the newest session, in seconds. An earlier session of the file may have another interval."""
        last = self.parts[-1]
        return last.header_of(len(last.blocks) - 1).interval_s

    def grows(self, age_ns: int) -> bool:
        """Whether the recording is still being written: it has no end line, and its newest Snapshot is recent.

        age_ns: the age of the newest Snapshot.
        """
        return age_ns < max(GROWS_S, 3 * self.interval_s) * 1e9 and not self.parts[-1].closed()

    def next_part(self) -> FileRecording | None:
        """Return the part after the last one, or None.

        There is one if ``follows`` is set and rotation has put another file under the recording's name.
        """
        from iotop_ai.sources.recorded.rotated_parts import next_part

        file = self._file_by_name() if self.follows else None
        if file is None or file == self._file:
            return None
        try:
            new_part = next_part(self._path, self.parts[-1])
        except InputError:  # another program's file has this name now, or the folder cannot be listed
            return None
        if new_part is not None:
            self.parts.append(new_part)
            if new_part.path == self._path:  # if not, more parts come before the file of this name
                self._file = file
        return new_part

    def close(self) -> None:
        """Close the files of all parts."""
        for part in self.parts:
            part.close()
