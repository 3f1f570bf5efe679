"""``iotop-ai check PATH``: measure in about ten seconds, before a training job starts, how fast its storage is."""

from __future__ import annotations

import argparse
import math
import shutil
import sys
from collections.abc import Callable
from typing import TypeVar

from iotop_ai.cli.options.common import parse_count, parse_seconds, quoted, settings_of, whole_number
from iotop_ai.cli.prompt import Progress
from iotop_ai.cli.stderr import print_notice
from iotop_ai.cli.stdout import print_lines
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root, absolute_path
from iotop_ai.collectors.job.cgroup_limits import read_cores
from iotop_ai.collectors.machine.page_cache import read_levels, read_memory_room, room_for_data
from iotop_ai.export.json.storage_check import render_storage_check_json
from iotop_ai.export.text.storage_check import storage_check_text
from iotop_ai.model.errors import InputError, UsageError
from iotop_ai.model.parse import parse_duration_s, parse_size_bytes
from iotop_ai.model.preflight.report import Report
from iotop_ai.model.preflight.storage import (
    FILE_BYTES,
    Threshold,
    fastest_read,
    most_files_per_s,
    plan,
    read_await_ms,
)
from iotop_ai.preflight.storage.check import StorageCheck
from iotop_ai.preflight.storage.forecast import with_forecast
from iotop_ai.preflight.storage.gather import compare_and_keep, gather
from iotop_ai.preflight.storage.other_reads import OtherReads
from iotop_ai.preflight.storage.place import read_place
from iotop_ai.preflight.storage.session import Request
from iotop_ai.preflight.user_python import user_python
from iotop_ai.present.preflight.storage import missing_text, progress_text
from iotop_ai.present.screen.bounds import clamp_size

N = TypeVar("N", int, float)
SHORTEST_S, LONGEST_S = 2.0, 600.0
"""The limits of --seconds."""
MOST_WORKERS = 256
LEAST_SAMPLE_BYTES, MOST_SAMPLE_BYTES = 4096, 4 << 20
"""The limits of --sample-size."""
_WIDTH = 80
_MISSING = (2, 20)
"""The error numbers ENOENT and ENOTDIR."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``check``."""
    parser.add_argument(
        "path",
        metavar="PATH",
        help="a folder, in which a test file of at most 512 MB is written and removed again (see --no-write); or a "
        "file or a block device, which is only read",
    )
    parser.add_argument(
        "--seconds", metavar="SEC", type=_parse_seconds, default=10.0, help="seconds to measure, 2 to 600 (default 10)"
    )
    parser.add_argument(
        "--min-read", metavar="RATE", type=_parse_rate, help="exit 1 if sequential reads are slower: 500MB/s"
    )
    parser.add_argument(
        "--min-files", metavar="COUNT", type=_parse_per_s, help="exit 1 if small files are read more slowly: 2000/s"
    )
    parser.add_argument(
        "--max-await",
        metavar="TIME",
        type=_parse_await,
        help="exit 1 if a random 4 KB read takes longer on average: 20ms",
    )
    parser.add_argument(
        "--engine",
        choices=("auto", "fio", "own"),
        default="auto",
        help="reader: fio, our own, or auto (default): fio if it is installed, else our own",
    )
    parser.add_argument("--no-write", action="store_true", help="write no file: read the largest file of the folder")
    _add_forecast_flags(parser.add_argument_group("forecast of how busy the dataset keeps a GPU"))
    parser.add_argument(
        "--json", action="store_true", default=argparse.SUPPRESS, help="print a JSON object instead of text"
    )
    parser.add_argument("--ascii", action=argparse.BooleanOptionalAction, default=argparse.SUPPRESS, help="ASCII only")


def _add_forecast_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--dataset", action="store_true", help="read a sample of the files in PATH, as a loader does")
    group.add_argument(
        "--workers",
        metavar="COUNT",
        type=_parse_workers,
        default=4,
        help="number of loader workers, 0 to 256 (default 4)",
    )
    group.add_argument(
        "--samples-per-s", metavar="RATE", type=_parse_demand, help="samples per second that the training needs"
    )
    group.add_argument(
        "--step-time",
        metavar="TIME",
        type=_parse_step,
        help="time of one training step: 50ms; with --batch, instead of --samples-per-s",
    )
    group.add_argument("--batch", metavar="COUNT", type=parse_count, help="samples per step; with --step-time")
    group.add_argument(
        "--sample-size", metavar="SIZE", type=_parse_size, help="size of one sample (default: that of a file)"
    )
    group.add_argument(
        "--min-gpu", metavar="PERCENT", type=_parse_share, help="exit 1 if the forecast for the GPU is lower: 90%%"
    )
    group.add_argument("--python", metavar="PATH", help="the Python that decodes (default: the active environment's)")


def run(args: argparse.Namespace) -> int:
    """Measure and print; return the exit code.

    0: all is well. 1: a threshold is missed, or the storage hangs. 2: neither, but a figure is missing.
    """
    settings = settings_of(args)
    if settings.readonly and not args.no_write:
        args.no_write = True
    report = check(args, Clock())
    if args.json:
        print_lines([render_storage_check_json(report)])
    elif report.results or report.hung_s:
        plain = settings.ascii_only or not (sys.stdout.encoding or "").lower().startswith("utf")
        width, _ = clamp_size(*shutil.get_terminal_size((_WIDTH, 24)))
        text = storage_check_text(report, min(width, _WIDTH), plain)
        print_lines([text.replace("\N{NO-BREAK SPACE}", " ")])
    if report.exit_code == 2:
        print_notice(f"unknown: {missing_text(report)}")
    return report.exit_code


def check(args: argparse.Namespace, clock: Clock) -> Report:
    """Measure, keep the figures of a complete check for later checks, and return the report.

    Raises IotopError for a path that cannot be checked at all.
    """
    rate, root = wanted_rate(args), Root("/")
    place = read_place(args.path, root, clock)
    phases = plan(args.seconds, args.workers, int(args.sample_size or FILE_BYTES), args.dataset)
    python = user_python(args.python) if args.dataset else ""
    request = Request(absolute_path(args.path), phases, args.engine, not args.no_write, python=python)
    other_reads = OtherReads(place, root)
    storage_check = StorageCheck(request, clock)
    try:
        with Progress(clock) as show:
            report, end = gather(
                Report(place, wall_s=0),
                storage_check.messages(),
                clock,
                lambda so_far, step: show(f"{len(so_far.results) + 1}/{len(phases)} {progress_text(*step)}"),
            )
    finally:
        storage_check.close()
    report = report._replace(other_ratio=other_reads.ratio())
    if not report.results and end.number in _MISSING:
        raise InputError(end.error)
    if rate or report.dataset is not None:
        report = report._replace(room_bytes=room_for_data(read_levels(root), read_memory_room(root)))
    if rate:
        report = with_forecast(report, rate, args.workers, args.sample_size, read_cores(root))
    report = report._replace(thresholds=_thresholds(args, report))
    return report if end.error or end.hung_s else compare_and_keep(report, args.seconds)


def wanted_rate(args: argparse.Namespace) -> float:
    """Return the number of samples per second that the training needs; 0 if the flags do not set it.

    Raises UsageError when a flag lacks its counterpart or two flags mean the same.
    """
    if args.samples_per_s and (args.step_time or args.batch):
        raise UsageError("--samples-per-s and --step-time with --batch mean the same; give one of them")
    if bool(args.step_time) != bool(args.batch):
        raise UsageError("--step-time and --batch go together")
    rate: float = args.batch / args.step_time if args.batch else args.samples_per_s or 0.0
    if args.min_gpu is not None and not rate:
        raise UsageError("--min-gpu needs --samples-per-s, or --step-time with --batch")
    if rate and not (args.dataset or args.sample_size):
        raise UsageError("a forecast needs --dataset or --sample-size")
    return rate


def _thresholds(args: argparse.Namespace, report: Report) -> tuple[Threshold, ...]:
    results = report.results
    thresholds = (
        Threshold("--min-read", args.min_read or 0.0, fastest_read(results)),
        Threshold("--min-files", args.min_files or 0.0, most_files_per_s(results, report.dataset)),
        Threshold("--max-await", args.max_await or 0.0, read_await_ms(results), at_most=True),
        _gpu_threshold(args.min_gpu or 0.0, report),
    )
    return tuple(limit for limit in thresholds if getattr(args, limit.flag[2:].replace("-", "_")) is not None)


def _gpu_threshold(limit: float, report: Report) -> Threshold:
    forecast = report.forecast
    unknown = Threshold("--min-gpu", limit, None)
    if forecast is None:
        return unknown
    most = 1.0 if forecast.most is None else forecast.most
    if forecast.at_least and forecast.first < limit <= most:
        does_not_fit = "the dataset does not fit into memory, and how much of it stays cached is unknown"
        return unknown._replace(why="" if forecast.most is None else does_not_fit)
    if report.decoding.unmeasured and forecast.first >= limit:
        return unknown._replace(why="the time to decode the images is unknown")
    return unknown._replace(value=forecast.first)


def _parse_seconds(text: str) -> float:
    return parse_seconds(text, SHORTEST_S, LONGEST_S)


def _parse_rate(text: str) -> float:
    """Return a rate in bytes per second. The text must have a unit. Raises ArgumentTypeError."""
    if text.removesuffix("/s").replace(".", "", 1).isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} has no unit; write 500MB/s")
    try:
        return float(parse_size_bytes(text.removesuffix("/s")))
    except UsageError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a rate; write 500MB/s") from None


def _parse_per_s(text: str) -> float:
    number = text.removesuffix("/s")
    rate = float(number) if number.isascii() and number.replace(".", "", 1).isdigit() else math.inf
    if not math.isfinite(rate):
        raise argparse.ArgumentTypeError(f"{quoted(text)} is not a rate; write 2000/s")
    return rate


def _parse_demand(text: str) -> float:
    rate = _parse_per_s(text)
    if not rate:
        raise argparse.ArgumentTypeError(f"{text!r} must be more than 0, such as 240")
    return rate


def _parse_await(text: str) -> float:
    """Return a latency in milliseconds. The text must have a unit. Raises ArgumentTypeError."""
    if text[-1:].isdigit():  # a number without a unit would mean seconds, which the user probably does not intend
        raise argparse.ArgumentTypeError(f"{text!r} has no unit; write {text}ms")
    return _parse_argument(parse_duration_s, text) * 1000


def _parse_workers(text: str) -> int:
    number = whole_number(text.removeprefix("-"))
    if number is None:
        raise argparse.ArgumentTypeError(f"{quoted(text)} is not a number of workers; write 0 to {MOST_WORKERS}")
    if text.startswith("-") or number > MOST_WORKERS:
        raise argparse.ArgumentTypeError(f"{text} is outside 0 to {MOST_WORKERS} workers")
    return number


def _parse_size(text: str) -> int:
    size = _parse_argument(parse_size_bytes, text)
    if not LEAST_SAMPLE_BYTES <= size <= MOST_SAMPLE_BYTES:
        raise argparse.ArgumentTypeError(f"{text} is outside 4k to 4M")
    return -(-size // LEAST_SAMPLE_BYTES) * LEAST_SAMPLE_BYTES  # direct reads read whole blocks


def _parse_step(text: str) -> float:
    """Return the duration of a step in seconds. The text must have a unit. Raises ArgumentTypeError."""
    seconds = _parse_await(text) / 1000
    if not seconds:
        raise argparse.ArgumentTypeError(f"{text!r} must be more than 0, such as 50ms")
    return seconds


def _parse_share(text: str) -> float:
    """Return a percentage as a ratio, above 0 and up to 1. The text must have a unit. Raises ArgumentTypeError."""
    number = text.removesuffix("%")
    is_number = number.isascii() and number.replace(".", "", 1).isdigit()
    if is_number and number == text:  # 0.9 would mean 0.9 %, which the user probably does not intend
        raise argparse.ArgumentTypeError(f"{text!r} has no unit; write 90%")
    if not (is_number and 0 < float(number) <= 100):
        raise argparse.ArgumentTypeError(f"{text!r} is not a share; write 90%")
    return float(number) / 100


def _parse_argument(parse: Callable[[str], N], text: str) -> N:
    """Return the number that ``parse`` finds in the text. Raises ArgumentTypeError."""
    try:
        return parse(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
