"""``iotop-ai trend``: watch a while, then print the curves."""

from __future__ import annotations

import argparse
import shutil
import sys

from iotop_ai.cli.batch import stop
from iotop_ai.cli.options import add_source_flags, count, settings_of
from iotop_ai.cli.select import resolved
from iotop_ai.export.trend import Trend
from iotop_ai.model.errors import UnknownError
from iotop_ai.pipeline import frames
from iotop_ai.sources.live import LiveSource
from iotop_ai.store.recording import Source

DEFAULT_COUNT = 60
HEIGHT = 45


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of ``trend``."""
    add_source_flags(parser, sub=True)
    parser.add_argument(
        "-n", "--count", metavar="COUNT", type=count, default=DEFAULT_COUNT, help="intervals to watch (default 60)"
    )
    parser.add_argument("--ascii", action=argparse.BooleanOptionalAction, default=argparse.SUPPRESS, help="ASCII only")


def run(args: argparse.Namespace) -> int:
    """Watch, then print; Ctrl-C ends the watching early and prints what there is."""
    settings = resolved(settings_of(args))
    if sys.stderr is not None and sys.stderr.isatty():
        print(f"watching {args.count * settings.interval_s:g} s; Ctrl-C shows what there is", file=sys.stderr)
    trend = watch(LiveSource(settings._replace(smart=False)), Trend(settings.devices), args.count)
    plain = settings.ascii_only or not (sys.stdout.encoding or "").lower().startswith("utf")
    width = shutil.get_terminal_size((80, HEIGHT)).columns
    print(trend.render(width, HEIGHT, plain))
    return 0


def watch(source: Source, trend: Trend, intervals: int) -> Trend:
    """The trend with ``intervals`` Samples of the source, or fewer after Ctrl-C. Raises UnknownError with none."""
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
