"""``iotop-ai -b``: one block of plain text per interval."""

from __future__ import annotations

import argparse
import sys

from iotop_ai.cli.options.common import settings_of
from iotop_ai.cli.options.devices import resolve_devices
from iotop_ai.diagnosis.engine import with_job_verdict
from iotop_ai.export.text.block import Block, render_block
from iotop_ai.model.frame import Frame
from iotop_ai.model.settings import Settings
from iotop_ai.pipeline import frames
from iotop_ai.sources.live.source import LiveSource
from iotop_ai.store.source import Source


def run(args: argparse.Namespace) -> int:
    """Print blocks until the count is reached or Ctrl-C; 0 once a block is printed."""
    settings = resolve_devices(settings_of(args))
    return print_blocks(LiveSource(settings), settings, count=args.count, timestamps=args.timestamps)


def print_blocks(source: Source, settings: Settings, count: int | None = None, timestamps: bool = False) -> int:
    """Print a block at the end of each interval.

    count: blocks to print, None without end. Ctrl-C after the first block is the usual end, with exit code 0.
    """
    printed = 0
    first: Frame | None = None
    stream = frames(source)
    try:
        for frame in stream:
            if first is None:
                first = frame
                continue
            block = Block(
                devices=settings.devices,
                only_active=settings.only_active,
                timestamps=timestamps,
                base=first.snapshot if settings.accumulated else None,
                cmdline=settings.cmdline,
            )
            text = render_block(with_job_verdict(frame, settings.job), block)
            printed += 1  # before the write: Ctrl-C during the output is the usual end too
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


def stop(source: Source, stream: object) -> None:
    """Close the source and run its iterator to the end, which releases its resources."""
    source.close()
    for _ in stream:  # type: ignore[attr-defined]
        pass
