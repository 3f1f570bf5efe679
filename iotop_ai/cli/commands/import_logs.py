"""``iotop-ai import``: convert a log of iostat or nvidia-smi into a recording for replay, diagnose and export."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
from collections.abc import Iterator
from typing import BinaryIO

from iotop_ai import __version__
from iotop_ai.cli.options.common import parse_interval
from iotop_ai.cli.stderr import print_notice
from iotop_ai.diagnosis.rules_version import stamp
from iotop_ai.export.atomic_file import OutFile
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import InputError, UnknownError, UsageError
from iotop_ai.model.frame import Frame
from iotop_ai.model.parse import parse_moment_ns
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.pipeline import frames
from iotop_ai.playback.selection import ALLOW_ROOT
from iotop_ai.present.text.units import plural
from iotop_ai.sources.imports import iostat as import_iostat
from iotop_ai.sources.imports import nvidia_smi as import_nvidia_smi
from iotop_ai.sources.imports.common import ImportOptions
from iotop_ai.store.format.codec import FORMAT, Encoder, Header, end_line, header_line
from iotop_ai.store.format.scalars import ShapeError
from iotop_ai.store.format.size_limits import ReaderBudget

STDOUT = "-"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``import``."""
    log_group = parser.add_mutually_exclusive_group(required=True)
    log_group.add_argument("--iostat", metavar="FILE", help="a log of iostat -x, as text or JSON")
    log_group.add_argument("--nvidia-smi", metavar="FILE", help="a log of nvidia-smi --query-gpu=... --format=csv -l 1")
    parser.add_argument(
        "-o", "--output", metavar="OUT", help="the recording to write (default ./FILE.iotop.jsonl; - is stdout)"
    )
    parser.add_argument("--start", metavar="T", help="time of the log's first report: 2026-11-21T14:32:05Z")
    parser.add_argument("--interval", metavar="SEC", type=parse_interval, help="seconds between two reports")
    parser.add_argument(
        "--keep-first", action="store_true", help="iostat's first report is an interval (-y), not the mean since boot"
    )
    parser.add_argument("--host-name", metavar="NAME", default="", help="the machine's name, if the log has none")
    parser.add_argument("--allow-root", action="store_true", help=ALLOW_ROOT)
    parser.add_argument("--force", action="store_true", help="replace an existing file")


def run(args: argparse.Namespace) -> int:
    """Write the recording and return 0. A file appears only when it is complete; its name is then printed to stderr."""
    log = args.iostat or args.nvidia_smi
    start_ns = None if args.start is None else parse_moment_ns(args.start)
    options = ImportOptions(start_ns, args.interval, args.keep_first, args.host_name, allow_root=args.allow_root)
    if args.iostat:
        origin, snapshots = import_iostat.ORIGIN, import_iostat.iostat_snapshots(log, options, print_notice)
    else:
        if args.keep_first:
            raise UsageError("--keep-first works with --iostat only")
        origin, snapshots = import_nvidia_smi.ORIGIN, import_nvidia_smi.nvidia_smi_snapshots(log, options, print_notice)
    output = args.output or default_name(log)
    writer = Writer(origin)
    with contextlib.ExitStack() as stack:
        if output == STDOUT:
            sys.stdout.flush()
            writer.write(stack.enter_context(open(sys.stdout.fileno(), "wb", closefd=False)), frames(snapshots))
            return 0
        file = stack.enter_context(OutFile(output, force=args.force))
        with file.stream() as part:
            writer.write(part, frames(snapshots))
        file.commit()
    print_notice(f"{clean(output)}: {plural(writer.snapshots, 'snapshot')} imported from {origin}")
    return 0


def default_name(log: str) -> str:
    """Return the default path of the output: the log's name, in the current folder, with the suffix of a recording."""
    stem = re.sub(r"\.(txt|log|json|csv)$", "", os.path.basename(log), flags=re.IGNORECASE)
    return f"{stem or 'log'}.iotop.jsonl"


class Writer:
    """Writes Frames as a recording that names its origin. snapshots: the number of Snapshots written."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self.snapshots = 0

    def write(self, file: BinaryIO, log_frames: Iterator[Frame]) -> None:
        """Write all Frames to the file.

        Raises UnknownError when the log holds no interval, and InputError if readers would refuse the recording.
        """
        encoder, budget = Encoder(), ReaderBudget()
        boot_id = ""
        frame = None
        has_rates = False
        for frame in log_frames:
            snapshot = frame.snapshot
            if snapshot.host.boot_id != boot_id:
                boot_id = snapshot.host.boot_id
                file.write(self._header(snapshot).encode() + b"\n")
                encoder.restart()
            lines = "".join(line + "\n" for line in encoder.lines(frame)).encode()
            try:
                budget.count_snapshot(snapshot.at_ns, len(lines), rows=0)
            except ShapeError as error:
                raise InputError(f"no reader would accept the recording: {error}") from None
            file.write(lines)
            self.snapshots += 1
            has_rates = has_rates or snapshot.gpu.value is not None or frame.sample.seconds is not None
        if frame is None or not has_rates:
            raise UnknownError("the log holds only the mean since boot; use --keep-first if iostat ran with -y")
        file.write(end_line(frame.snapshot.at_ns).encode() + b"\n")

    def _header(self, first: Snapshot) -> str:
        return header_line(
            Header(
                FORMAT,
                tool=__version__,
                host=first.host.name,
                boot_id=first.host.boot_id,
                wall_ns=first.wall_ns,
                at_ns=first.at_ns,
                interval_s=first.interval_s,
                redact="names",
                stamp=stamp(),
                continues=False,
                origin=self._origin,
            )
        )
