"""``iotop-ai gpu-log``: print what ``nvidia-smi --query-gpu=… --format=csv -l`` prints, flushed after each line."""

from __future__ import annotations

import argparse
import json
import sys
import threading

from iotop_ai.cli.options.common import parse_count, parse_interval
from iotop_ai.collectors.base import Unavailable
from iotop_ai.collectors.gpu.collector import GpuCollector
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.export.logs.nvidia_smi_csv import (
    DEFAULT,
    FIELDS,
    Field,
    GpuLine,
    csv_header,
    csv_line,
    fields_of,
    json_object,
)
from iotop_ai.model.errors import UnknownError, UsageError

DELAY_S = 5.0
FIRST_WAIT_S = 60.0
"""The longest wait for the first values: without a persistence daemon, nvmlInit has to wake every GPU."""
_FORMAT_WORDS = ("csv", "json", "noheader", "nounits")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``gpu-log``."""
    parser.add_argument(
        "--query", "--query-gpu", metavar="FIELDS", default=DEFAULT, help=f"fields, comma-separated; default {DEFAULT}"
    )
    parser.add_argument("--help-query", action="store_true", help="list the fields")
    parser.add_argument(
        "-d",
        "--delay",
        metavar="SEC",
        type=parse_interval,
        default=argparse.SUPPRESS,
        help="seconds between rounds (default 5)",
    )
    parser.add_argument(
        "-n", "--count", metavar="COUNT", type=parse_count, default=argparse.SUPPRESS, help="end after COUNT rounds"
    )
    parser.add_argument("--format", default="csv", help="csv[,noheader][,nounits] or json (one object per line)")


def run(args: argparse.Namespace) -> int:
    """Print a line per GPU in each round, until the count is reached or Ctrl-C is pressed; return 0.

    Raises UsageError for an invalid --format or --query, UnknownError where GPUs cannot be read, and KeyboardInterrupt
    for a Ctrl-C before the first round is printed.
    """
    if args.help_query:
        sys.stdout.write("\n".join(FIELDS) + "\n")
        return 0
    formats = args.format.split(",")
    if any(word not in _FORMAT_WORDS for word in formats) or ("csv" in formats) == ("json" in formats):
        raise UsageError(f"--format {args.format}: must be csv[,noheader][,nounits] or json")
    fields = fields_of(args.query)
    args.delay = DELAY_S if args.delay is None else args.delay
    clock = Clock()
    collector = GpuCollector(clock, every_s=args.delay, root=Root("/"))
    try:
        collector.wait(FIRST_WAIT_S)
        return _print(collector, clock, args, fields, formats)
    finally:
        collector.close()


def _print(
    collector: GpuCollector, clock: Clock, args: argparse.Namespace, fields: list[Field], formats: list[str]
) -> int:
    units = "nounits" not in formats
    lines = _lines(collector, clock)
    if "csv" in formats and "noheader" not in formats:
        sys.stdout.write(csv_header(fields, units=units) + "\n")
    due_ns, rounds, pause = clock.monotonic_ns(), 0, threading.Event()
    try:
        while True:
            rounds += 1  # before the writes, so that Ctrl-C during them gives exit code 0 too
            for line in lines:
                if "json" in formats:
                    sys.stdout.write(json.dumps(json_object(fields, line), ensure_ascii=False) + "\n")
                else:
                    sys.stdout.write(csv_line(fields, line, units=units) + "\n")
                sys.stdout.flush()
            if args.count is not None and rounds >= args.count:
                return 0
            # After a stall, such as Ctrl-Z, the missed rounds are left out.
            due_ns = max(due_ns + int(args.delay * 1e9), clock.monotonic_ns())
            while (left_ns := due_ns - clock.monotonic_ns()) > 0:
                pause.wait(left_ns / 1e9)
            lines = _lines(collector, clock)
    except KeyboardInterrupt:
        if not rounds:
            raise
        return 0


def _lines(collector: GpuCollector, clock: Clock) -> list[GpuLine]:
    """Return the line of each GPU, in the order of the NVML index. Raises UnknownError where GPUs cannot be read."""
    try:
        table = collector.read()
        details, _ = collector.details()
    except Unavailable as error:
        remedy = f" ({error.remedy})" if error.remedy else ""
        raise UnknownError(f"{error.reason}{remedy}") from None
    if not table:
        raise UnknownError("no GPU found")
    wall_ns = clock.wall_ns()
    # A GPU that did not answer has no index and comes last.
    order = sorted(table.items(), key=lambda item: (item[1].value.number if item[1].value else 1 << 20, item[0]))
    out = []
    for uuid, reading in order:
        detail = details.get(uuid)
        out.append(GpuLine(wall_ns, uuid, reading.value, None if detail is None else detail.value, len(table)))
    return out
