"""``iotop-ai check PATH``: what a storage gives a training job, in some ten seconds, before the job starts."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Callable
from typing import TypeVar

from iotop_ai.cli.options.common import settings_of
from iotop_ai.cli.prompt import Progress
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.io.with_timeout import HOME_TIMEOUT_S, call_with_timeout
from iotop_ai.collectors.state.folder import state_path
from iotop_ai.export.json.storage_check import render_storage_check_json
from iotop_ai.export.text.storage_check import storage_check_text
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import InputError, UsageError
from iotop_ai.model.parse import parse_duration_s, parse_size_bytes
from iotop_ai.model.preflight.history import kept_of, slower_than_before
from iotop_ai.model.preflight.report import Report
from iotop_ai.model.preflight.storage import Measured, Threshold, fastest_read, most_files, plan, read_await_ms
from iotop_ai.preflight.storage.check import End, Started, StorageCheck
from iotop_ai.preflight.storage.check import Progress as PhaseProgress
from iotop_ai.preflight.storage.history import keep_check, read_history
from iotop_ai.preflight.storage.place import read_place
from iotop_ai.preflight.storage.session import Request
from iotop_ai.present.preflight.storage import missing_text, progress_text
from iotop_ai.present.screen.bounds import bounded

N = TypeVar("N", int, float)
SHORTEST_S, LONGEST_S = 2.0, 600.0
LEAST_KEPT_S = 5.0
"""A shorter check varies too much to be compared."""
_WIDTH = 80
_GONE = (2, 20)
"""ENOENT and ENOTDIR."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of ``check``."""
    parser.add_argument("path", metavar="PATH", help="a folder, a file, or a block device, which is only read")
    parser.add_argument("--seconds", metavar="SEC", type=_seconds, default=10.0, help="2 to 600 (default 10)")
    parser.add_argument("--min-read", metavar="RATE", type=_rate, help="exit 1 below this sequential rate: 500MB/s")
    parser.add_argument("--min-files", metavar="COUNT", type=_per_s, help="exit 1 below so many small files: 2000/s")
    parser.add_argument(
        "--max-await", metavar="TIME", type=_await, help="exit 1 above this mean time of a random 4 KB read: 20ms"
    )
    parser.add_argument(
        "--engine",
        choices=("auto", "fio", "own"),
        default="auto",
        help="the reader: fio where it is installed (auto), or our own",
    )
    parser.add_argument(
        "--workers", metavar="COUNT", type=_workers, default=4, help="readers of small files (default 4)"
    )
    parser.add_argument(
        "--no-write", action="store_true", help="write no file: read the largest one of the folder instead"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of text")
    parser.add_argument("--ascii", action=argparse.BooleanOptionalAction, default=argparse.SUPPRESS, help="ASCII only")


def run(args: argparse.Namespace) -> int:
    """0 fine; 1 a threshold is missed, or the storage hangs; 2 it could not be measured."""
    settings = settings_of(args)
    if settings.readonly and not args.no_write:
        args.no_write = True
    report = check(args, Clock())
    if args.json:
        print(render_storage_check_json(report))
    elif report.results or report.hung_s:
        plain = settings.ascii_only or not (sys.stdout.encoding or "").lower().startswith("utf")
        width, _ = bounded(*shutil.get_terminal_size((_WIDTH, 24)))
        text = storage_check_text(report, min(width, _WIDTH), plain)
        print(text.replace("\N{NO-BREAK SPACE}", " "))
    if report.exit_code == 2:
        print(f"unknown: {missing_text(report)}", file=sys.stderr)
    return report.exit_code


def check(args: argparse.Namespace, clock: Clock) -> Report:
    """Measure, and keep the figures. Raises IotopError for a path that cannot be checked at all."""
    place = read_place(args.path, Root("/"), clock)
    phases = plan(args.seconds, args.workers)
    request = Request(os.path.abspath(args.path), phases, args.engine, not args.no_write)
    report = Report(place, 0)
    results: list[Measured] = []
    notes: list[str] = []
    end = End()
    running = StorageCheck(request, clock)
    try:
        with Progress(clock) as show:
            for news in running.news():
                if isinstance(news, PhaseProgress):
                    show(f"{len(results) + 1}/{len(phases)} {progress_text(*news)}")
                elif isinstance(news, Started):
                    report = report._replace(target=news.target, engine=news.engine)
                elif isinstance(news, Measured):
                    results.append(news)
                elif isinstance(news, str):
                    notes.append(news)
                else:
                    end = news
    finally:
        running.close()
    if end.left:
        notes.append(f"its file could not be removed: {end.left}; a later check of this folder removes it")
    if end.hung_s:
        notes.append("its own process waits for the storage, to remove the file when it answers")
    if end.error and not results:
        end = end._replace(error=f"{clean(args.path)}: {end.error}")
        if end.number in _GONE:
            raise InputError(end.error)
    report = report._replace(
        wall_s=clock.wall_ns() // 10**9, results=tuple(results), notes=tuple(notes), hung_s=end.hung_s,
        failed=end.error, thresholds=_thresholds(args, results),
    )  # fmt: skip
    return report if end.error or end.hung_s else _compared(report, args.seconds)


def _thresholds(args: argparse.Namespace, results: list[Measured]) -> tuple[Threshold, ...]:
    asked = (
        Threshold("--min-read", args.min_read or 0.0, fastest_read(results)),
        Threshold("--min-files", args.min_files or 0.0, most_files(results)),
        Threshold("--max-await", args.max_await or 0.0, read_await_ms(results), at_most=True),
    )
    return tuple(one for one in asked if getattr(args, one.flag[2:].replace("-", "_")) is not None)


def _compared(report: Report, seconds: float) -> Report:
    """The report with what is slower than before; keeps this run's figures for the next."""
    key, target = report.place.key, report.target
    if not key or target is None or not target.direct or seconds < LEAST_KEPT_S:
        return report
    now = kept_of(report.results, report.engine, report.wall_s)
    folder = state_path()
    try:
        earlier = call_with_timeout(HOME_TIMEOUT_S, folder, lambda: read_history(folder, key))
    except (OSError, ValueError):
        earlier = ()
    try:
        call_with_timeout(HOME_TIMEOUT_S, folder, lambda: keep_check(folder, key, now))
    except OSError as error:
        report = report._replace(notes=(*report.notes, f"not kept for later: {clean(error.strerror or str(error))}"))
    return report._replace(changes=slower_than_before(earlier, now), earlier=len(earlier))


def _seconds(text: str) -> float:
    seconds = _typed(parse_duration_s, text)
    if not SHORTEST_S <= seconds <= LONGEST_S:
        raise argparse.ArgumentTypeError(f"{text} is outside {SHORTEST_S:g} to {LONGEST_S:g} seconds")
    return seconds


def _rate(text: str) -> float:
    return float(_typed(parse_size_bytes, text.removesuffix("/s")))


def _per_s(text: str) -> float:
    number = text.removesuffix("/s")
    if not (number.isascii() and number.replace(".", "", 1).isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a rate; write 2000/s")
    return float(number)


def _await(text: str) -> float:
    """Milliseconds."""
    if text[-1:].isdigit():  # seconds are hardly meant
        raise argparse.ArgumentTypeError(f"{text!r} has no unit; write {text}ms")
    return _typed(parse_duration_s, text) * 1000


def _workers(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= 256):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of readers; write 1 to 256")
    return int(text)


def _typed(parse: Callable[[str], N], text: str) -> N:
    try:
        return parse(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
