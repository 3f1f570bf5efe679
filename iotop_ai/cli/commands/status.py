"""``iotop-ai status``: print one short line for a status bar or a prompt."""

from __future__ import annotations

import argparse
import sys

from iotop_ai.cli.commands.common_verdict import SelectedJob, parse_duration, watch
from iotop_ai.cli.commands.snapshot import take_frame
from iotop_ai.cli.options.common import add_job_flag, add_source_flags, settings_elsewhere, settings_of
from iotop_ai.cli.options.devices import devices_in_frame, resolve_devices
from iotop_ai.cli.options.job import check_job
from iotop_ai.model.errors import UnknownError, UsageError
from iotop_ai.model.frame import Frame
from iotop_ai.model.settings import Settings
from iotop_ai.pipeline import frames
from iotop_ai.playback.selection import ALLOW_ROOT, corrupt_input_as_error
from iotop_ai.present.screen.view import View
from iotop_ai.present.verdict.status_line import (
    FIELD_MEANINGS,
    NO_STATE,
    check_format,
    default_line,
    fill_format,
    status_fields,
)
from iotop_ai.sources.live.source import LiveSource
from iotop_ai.store.source import stop


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``status``."""
    parser.add_argument(
        "file", metavar="FILE", nargs="?", help="a recording in progress: print its newest state and verdict"
    )
    parser.add_argument(
        "--format", metavar="TEXT", help=f"fields: {', '.join(f'{{{name}}}' for name in FIELD_MEANINGS)}"
    )
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument(
        "--follow", action="store_true", help="print a line per interval, without end; tmux shows the newest"
    )
    mode.add_argument(
        "--duration", metavar="SEC", type=parse_duration, help="watch this long before printing; the verdict needs 10 s"
    )
    parser.add_argument("--allow-root", action="store_true", help=ALLOW_ROOT)
    add_job_flag(parser)
    add_source_flags(parser, sub=True)


def run(args: argparse.Namespace) -> int:
    """Print one line, or one line per interval with --follow; return 0 in every state."""
    line_format = None if args.format is None else check_format(args.format)
    job = SelectedJob(getattr(args, "job", 0))
    if args.file is not None:
        if args.follow or args.duration is not None:
            raise UsageError("--follow and --duration watch this machine; leave FILE out")
        if getattr(args, "path", None):
            raise UsageError("--path is a folder of this machine; with FILE use --device")
        newest = job.judge(_newest_frame(args.file, allow_root=args.allow_root))
        job.check()
        return _print(newest, line_format, devices_in_frame(newest, settings_elsewhere(args).devices))
    settings = resolve_devices(settings_of(args))._replace(smart=False)
    source = LiveSource(settings)
    if args.follow:
        return _follow(source, settings, job, line_format)
    frame = take_frame(source) if args.duration is None else watch(source, args.duration, job)
    if frame is None:
        raise UnknownError("no data could be read")
    check_job(frame.snapshot, job.pid)
    judged_frame = job.judge(frame)
    job.check()
    return _print(judged_frame, line_format, settings.devices)


def _newest_frame(path: str, *, allow_root: bool) -> Frame:
    """Return the newest Frame of a recording."""
    from iotop_ai.playback.player import FrameCursor
    from iotop_ai.sources.recorded.rotated_parts import open_chain

    with corrupt_input_as_error(path):
        cursor = FrameCursor(open_chain(path, allow_root=allow_root)[-1:])
        return cursor.seek(cursor.end_wall_ns())


def _follow(source: LiveSource, settings: Settings, job: SelectedJob, line_format: str | None) -> int:
    stream = frames(source)
    begun = False
    try:
        for frame in stream:
            if begun:  # the first Frame has no rates
                judged_frame = job.judge(frame)
                _print(judged_frame, line_format, settings.devices, has_job=job.is_in(frame))
            else:
                check_job(frame.snapshot, job.pid)
            begun = True
    except KeyboardInterrupt:
        pass
    finally:
        stop(source, stream)
    return 0


def _print(frame: Frame, line_format: str | None, devices: tuple[str, ...], *, has_job: bool = True) -> int:
    fields = status_fields(frame, View(devices=devices))
    if not has_job:
        fields |= NO_STATE
    sys.stdout.write((default_line(fields) if line_format is None else fill_format(line_format, fields)) + "\n")
    sys.stdout.flush()
    return 0
