"""``iotop-ai -b``: one block of plain text, or one line of JSON, per interval."""

from __future__ import annotations

import argparse
import sys

from iotop_ai.cli.options.common import settings_of
from iotop_ai.cli.options.devices import resolve_devices
from iotop_ai.cli.options.job import check_job
from iotop_ai.diagnosis.engine import with_job_verdict
from iotop_ai.export.text.block import Block, render_block
from iotop_ai.model.errors import UsageError
from iotop_ai.model.frame import Frame
from iotop_ai.model.settings import Settings
from iotop_ai.pipeline import frames
from iotop_ai.sources.live.source import LiveSource
from iotop_ai.store.source import Source, stop


def run(args: argparse.Namespace) -> int:
    """Print blocks until the count is reached or Ctrl-C is pressed; return 0."""
    if args.json:
        text_flags = {"-t": args.timestamps, "-a": args.accumulated, "-o": args.only, "--sort": args.sort}
        for flag, value in text_flags.items():
            if value:
                raise UsageError(f"{flag} works with text only, not with --json")
    if args.once and args.count not in (None, 1):
        raise UsageError("--once prints one block; leave -n out")
    settings = resolve_devices(settings_of(args))
    count = 1 if args.once else args.count
    return print_blocks(LiveSource(settings), settings, count, timestamps=args.timestamps, as_json=args.json)


def print_blocks(
    source: Source,
    settings: Settings,
    count: int | None = None,
    *,
    timestamps: bool = False,
    as_json: bool = False,
) -> int:
    """Print a block at the end of each interval; return the exit code 0.

    Ctrl-C after the first block is the usual way to end the command, so the exit code is 0 then too. Ctrl-C before the
    first block raises KeyboardInterrupt.

    Raises UsageError when the process that --job names does not exist.

    count: the number of blocks to print; None prints blocks without end.
    """
    printed = 0
    first: Frame | None = None
    stream = frames(source)
    try:
        for frame in stream:
            if first is None:
                check_job(frame.snapshot, settings.job)
                first = frame
                continue
            block = Block(
                devices=settings.devices,
                only_active=settings.only_active,
                timestamps=timestamps,
                base=first.snapshot if settings.accumulated else None,
                cmdline=settings.cmdline,
                sort=settings.sort,
                reverse=settings.reverse,
            )
            judged_frame = with_job_verdict(frame, settings.job)
            text = _json_line(judged_frame, settings) if as_json else render_block(judged_frame, block)
            printed += 1  # before the write, so that Ctrl-C during it gives exit code 0 too
            sys.stdout.write(text)
            sys.stdout.flush()
            if count is not None and printed >= count:
                break
    except KeyboardInterrupt:
        if not printed:
            raise
    finally:
        stop(source, stream)
    return 0


def _json_line(frame: Frame, settings: Settings) -> str:
    from iotop_ai.export.json.snapshot import render_snapshot_json  # imported here, because text output needs no JSON

    return render_snapshot_json(frame, settings.devices, settings.cmdline, indent=None) + "\n"
