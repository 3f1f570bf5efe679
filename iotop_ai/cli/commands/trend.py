"""``iotop-ai trend``: watch for a while, then print charts."""

from __future__ import annotations

import argparse
import os
import shutil
import sys

from iotop_ai.cli.options.common import add_source_flags, parse_count, settings_of
from iotop_ai.cli.options.devices import resolve_devices
from iotop_ai.cli.start.terminal import draws_glyphs
from iotop_ai.cli.stderr import print_notice
from iotop_ai.export.text.trend import Trend
from iotop_ai.model.errors import UnknownError
from iotop_ai.pipeline import frames
from iotop_ai.present.screen.bounds import clamp_size
from iotop_ai.sources.live.source import LiveSource
from iotop_ai.store.source import Source, stop

DEFAULT_COUNT = 60
HEIGHT = 45
"""The number of lines of the charts."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``trend``."""
    add_source_flags(parser, sub=True)
    parser.add_argument(
        "-n",
        "--count",
        metavar="COUNT",
        type=parse_count,
        default=argparse.SUPPRESS,
        help="intervals to watch (default 60)",
    )
    parser.add_argument("--ascii", action=argparse.BooleanOptionalAction, default=argparse.SUPPRESS, help="ASCII only")


def run(args: argparse.Namespace) -> int:
    """Watch, then print; Ctrl-C ends the watch early. Return 0."""
    settings = resolve_devices(settings_of(args))
    count = DEFAULT_COUNT if args.count is None else args.count
    if sys.stderr is not None and sys.stderr.isatty():
        print_notice(f"watching {count * settings.interval_s:g} s; Ctrl-C stops and prints")
    trend = watch(LiveSource(settings._replace(smart=False)), Trend(settings.devices), count)
    # In the C locale Python writes UTF-8 too, but terminals with that locale have no braille characters.
    unicode = draws_glyphs(os.environ) and (sys.stdout.encoding or "").lower().startswith("utf")
    plain = settings.ascii_only or not unicode
    width, _ = clamp_size(*shutil.get_terminal_size((80, HEIGHT)))
    print(trend.render(width, HEIGHT, plain))
    return 0


def watch(source: Source, trend: Trend, intervals: int) -> Trend:
    """Add the Frames of up to ``intervals`` intervals to the trend and return it; Ctrl-C stops early.

    Raises UnknownError if the source ends during the first interval, and KeyboardInterrupt for a Ctrl-C during it.
    """
    stream = frames(source)
    try:
        for frame in stream:
            trend.add(frame)
            if len(trend) >= intervals:
                break
    except KeyboardInterrupt:
        if not len(trend):
            raise
    finally:
        stop(source, stream)
    if not len(trend):
        raise UnknownError("the source ended before the first interval")
    return trend
