"""``iotop-ai loader MODULE:FACTORY``: find how many workers a data loader needs, and which settings hang or crash."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys

from iotop_ai.cli.options.common import parse_seconds, quoted, settings_of, whole_number
from iotop_ai.cli.prompt import Progress
from iotop_ai.cli.stderr import print_notice
from iotop_ai.cli.stdout import print_lines
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.export.json.loader import render_loader_json
from iotop_ai.export.text.loader import loader_text
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import UnknownError, UsageError
from iotop_ai.model.preflight.loader.report import Report
from iotop_ai.model.preflight.loader.run import MOST_WORKERS
from iotop_ai.model.preflight.report import NO_ANSWER
from iotop_ai.preflight.environment.python import child_environment
from iotop_ai.preflight.loader.session import Request
from iotop_ai.preflight.loader.sweep import Grid, sweep
from iotop_ai.preflight.user_python import NO_PYTHON, user_python
from iotop_ai.present.preflight.loader import arguments_text, progress_text
from iotop_ai.present.screen.bounds import clamp_size

STARTS = ("fork", "spawn", "forkserver")
MOST_CONFIGURATIONS = 100
_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_WIDTH = 80


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``loader``."""
    parser.add_argument(
        "target",
        metavar="MODULE:FACTORY",
        help="a function or class that returns a Dataset, a DataLoader or other batches",
    )
    parser.add_argument(
        "--workers",
        metavar="LIST",
        type=_parse_workers,
        default=[0, 2, 4, 8],
        help="worker counts to try (default 0,2,4,8)",
    )
    parser.add_argument(
        "--batch-size", metavar="LIST", type=_parse_positive, default=[32], help="batch sizes to try (default 32)"
    )
    parser.add_argument(
        "--prefetch",
        metavar="LIST",
        type=_parse_positive,
        help="prefetched batches per worker to try (default: the loader's)",
    )
    parser.add_argument(
        "--interleave",
        metavar="LIST",
        type=_parse_positive,
        help="tf.data only: numbers of files to read at once (cycle_length)",
    )
    parser.add_argument(
        "--start",
        metavar="LIST",
        type=_parse_starts,
        help="start methods to try: fork,spawn,forkserver (default: Python's)",
    )
    parser.add_argument("--pin", action="store_true", help="set pin_memory=True")
    parser.add_argument(
        "--seconds",
        metavar="SEC",
        type=_parse_seconds,
        default=5.0,
        help="seconds of reading per configuration (default 5)",
    )
    parser.add_argument(
        "--timeout",
        metavar="SEC",
        type=_parse_seconds,
        default=30.0,
        help="an idle loader counts as hung after this many seconds without progress (default 30)",
    )
    parser.add_argument("--cold", metavar="PATH", help="evict this dataset from the page cache before each run")
    parser.add_argument("--python", metavar="PATH", help="the Python that trains (default: the active environment's)")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print a JSON object instead of text")
    form.add_argument("--patch", action="store_true", help="print only the recommended arguments of the loader")
    parser.add_argument("--ascii", action=argparse.BooleanOptionalAction, default=argparse.SUPPRESS, help="ASCII only")


def run(args: argparse.Namespace) -> int:
    """Run the loader with each combination of the settings; return 0 if all is well.

    Returns 2 if nothing was measured because the factory is refused or gives no batch, else 1 if a configuration fails.
    """
    settings = settings_of(args)
    module, colon, factory = args.target.partition(":")
    if not (colon and _NAME.fullmatch(module) and _NAME.fullmatch(factory)):
        raise UsageError(f"{clean(args.target)} is not of the form MODULE:FACTORY, such as data:make_dataset")
    if args.cold and settings.readonly:
        raise UsageError("--cold evicts files from the page cache, which --readonly forbids")
    python = user_python(args.python)
    if not python:
        raise UnknownError(NO_PYTHON)
    clock, folder = Clock(), os.getcwd()
    prefetches, interleaves = args.prefetch or [None], args.interleave or [None]
    grid = Grid(args.workers, args.batch_size, prefetches, args.start or [""], args.pin, interleaves)
    if (number := len(grid.configurations())) > MOST_CONFIGURATIONS:
        raise UsageError(f"{number} configurations are too many; the maximum is {MOST_CONFIGURATIONS}")
    environment = child_environment(os.environ, folder)
    request = Request(python, module, factory, folder, environment, args.seconds, args.timeout, bool(args.cold))
    with Progress(clock) as show:
        report = sweep(request, grid, args.cold or "", clock, lambda *progress: show(progress_text(*progress)))
    if args.json:
        print_lines([render_loader_json(report)])
    elif args.patch and report.choice is not None:
        print_lines([arguments_text(report.choice.run)])
    elif not args.patch:
        plain = settings.ascii_only or not (sys.stdout.encoding or "").lower().startswith("utf")
        width, _ = clamp_size(*shutil.get_terminal_size((_WIDTH, 24)))
        print_lines([loader_text(report, min(width, _WIDTH), plain)])
    if args.patch or report.exit_code == NO_ANSWER:
        _explain(report)
    return report.exit_code


def _explain(report: Report) -> None:
    """Print the first failure, if any, to standard error."""
    failure = next((run.failure for run in report.runs if run.failure is not None), None)
    if failure is not None:
        print_notice(f"{'unknown' if report.exit_code == NO_ANSWER else 'loader'}: {failure.text}")


def _parse_numbers(text: str, least: int, most: int) -> list[int]:
    words = text.split(",")
    numbers = [number for word in words if (number := whole_number(word)) is not None and least <= number <= most]
    if len(numbers) < len(words):
        why = f"is not a list of numbers from {least} to {most}, such as 2,4,8"
        raise argparse.ArgumentTypeError(f"{quoted(text)} {why}")
    return list(dict.fromkeys(numbers))


def _parse_workers(text: str) -> list[int]:
    return _parse_numbers(text, 0, MOST_WORKERS)


def _parse_positive(text: str) -> list[int]:
    return _parse_numbers(text, 1, 1 << 20)


def _parse_starts(text: str) -> list[str]:
    starts = list(dict.fromkeys(text.split(",")))
    if unknown := [word for word in starts if word not in STARTS]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is not one of {', '.join(STARTS)}")
    return starts


def _parse_seconds(text: str) -> float:
    return parse_seconds(text, 0.5, 600)
