"""``iotop-ai export``: a recording as tidy tables for pandas, SQL and spreadsheets."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from iotop_ai.cli.cut_off import warn_of_truncation
from iotop_ai.export.atomic_file import OutFile
from iotop_ai.export.tables.columns import Table
from iotop_ai.export.tables.csv import CsvOut
from iotop_ai.export.tables.frames import NAMES, tables
from iotop_ai.export.tables.jsonl import JsonlOut
from iotop_ai.export.tables.parquet import ParquetOut
from iotop_ai.export.tables.sqlite import SqliteOut
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import UnknownError, UsageError
from iotop_ai.model.parse import parse_names
from iotop_ai.model.settings import CMDLINE_LEVELS
from iotop_ai.playback.selection import add_replay_flags, corrupt_input_as_error, recorded_frames

FORMATS = {"csv": (".csv",), "jsonl": (".jsonl",), "sqlite": (".sqlite", ".db"), "parquet": (".parquet",)}
"""The suffixes of the output file by the name of the format. The first one is the default."""
STDOUT = "-"
_ONE_TABLE = ("csv", "parquet")
"""The formats whose files hold one table each."""
_BINARY = ("sqlite", "parquet")

Out = CsvOut | JsonlOut | SqliteOut | ParquetOut


class Target(NamedTuple):
    """An output and the tables that are written to it. path: the path of a file, or "-" for standard output."""

    path: str
    tables: tuple[Table, ...]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``export``."""
    add_replay_flags(parser)
    parser.add_argument("--format", choices=FORMATS, help="file format (default: by the suffix of OUT, else csv)")
    parser.add_argument(
        "--table",
        metavar="NAMES",
        action="append",
        help=f"{', '.join(NAMES)}; comma-separated (default: the table devices for a single csv or parquet file,"
        " else all)",
    )
    parser.add_argument("--raw", action="store_true", help="in csv, put no ' before text that looks like a formula")
    parser.add_argument(
        "--cmdline", choices=CMDLINE_LEVELS, default="names", help="how much of command lines to write (default names)"
    )
    parser.add_argument(
        "-o", "--output", metavar="OUT", default=STDOUT, help="a file, a folder/ for one file per table, or -"
    )
    parser.add_argument("--force", action="store_true", help="replace existing files")


def run(args: argparse.Namespace) -> int:
    """Write the selected tables in one pass; return 0. Output files appear only when they are all complete."""
    format_name, names = format_of(args.format, args.output), parse_names(",".join(args.table or ()))
    if args.table and not names:  # for example, from an unset shell variable
        raise UsageError("--table is empty")
    targets = targets_of(format_name, args.output, names, tables(args.cmdline))
    recorded = recorded_frames(args)
    warn_of_truncation(recorded)
    with contextlib.ExitStack() as stack:
        if _is_folder(args.output):
            stack.enter_context(_make_folder(args.output))
        files = [stack.enter_context(OutFile(t.path, force=args.force)) for t in targets if t.path != STDOUT]
        out_files: list[OutFile | None] = [*files] or [None]
        outs = [_open_out(stack, format_name, file, t, args.raw) for file, t in zip(out_files, targets, strict=True)]
        frame = None
        with corrupt_input_as_error(args.file):
            for frame in recorded:
                for target, out in zip(targets, outs, strict=True):
                    for table in target.tables:
                        out.add(table, table.rows(frame))
        if frame is None:
            raise UnknownError(f"{args.file}: no data in that period")
        for out in outs:
            out.finish(recorded.about())
        for file in files:
            file.commit()
    return 0


def format_of(flag: str | None, output: str) -> str:
    """Return the format that --format names, or else the format for the suffix of OUT.

    Raises UsageError for an unknown suffix, and for a binary format on standard output.
    """
    formats = {suffix: format_name for format_name, suffixes in FORMATS.items() for suffix in suffixes}
    suffix = "" if output.endswith("/") or os.path.isdir(output) else os.path.splitext(output)[1].lower()
    if not flag and suffix and suffix not in formats:
        raise UsageError(f"{clean(output)}: no format has the suffix {suffix}; use {', '.join(formats)}, or --format")
    format_name = flag or formats.get(suffix, "csv")
    if format_name in _BINARY and output == STDOUT:
        raise UsageError(f"{format_name} needs a file: -o OUT{FORMATS[format_name][0]}")
    return format_name


def targets_of(format_name: str, output: str, names: Sequence[str], all_tables: Sequence[Table]) -> list[Target]:
    """Return the outputs and their tables.

    Raises UsageError for an unknown table, for several tables in a format that holds one table per file, and for a
    folder with sqlite.
    """
    by_name = {table.name: table for table in all_tables}
    for name in names:
        if name not in by_name:
            raise UsageError(f"no table {name!r}; tables: {', '.join(by_name)}")
    folder = _is_folder(output)
    if not names:
        names = ("devices",) if format_name in _ONE_TABLE and not folder else tuple(by_name)
    selected = tuple(by_name[name] for name in names)
    if folder:
        if format_name == "sqlite":
            raise UsageError("sqlite writes all tables into one file; name a file, not a folder")
        return [Target(os.path.join(output, t.name + FORMATS[format_name][0]), (t,)) for t in selected]
    if format_name in _ONE_TABLE and len(selected) > 1:
        raise UsageError(f"{format_name} holds one table per file; name a folder: -o OUT/")
    return [Target(output, selected)]


def _is_folder(output: str) -> bool:
    return output.endswith("/") or (output != STDOUT and os.path.isdir(output))


@contextlib.contextmanager
def _make_folder(path: str) -> Iterator[None]:
    """Create a missing folder and its parents; remove them if the ``with`` block fails before it completes a file."""
    missing, folder = [], path.rstrip("/") or "/"
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder) or "."
    try:
        os.makedirs(path, exist_ok=True)
        yield
    except BaseException:
        for folder in missing:
            with contextlib.suppress(OSError):  # a complete file is in it, or it could not be created
                os.rmdir(folder)
        raise


def _open_out(
    stack: contextlib.ExitStack, format_name: str, out_file: OutFile | None, target: Target, raw: bool
) -> Out:
    """Return the writer of a target. out_file: None writes to standard output, which never gets a binary format."""
    if out_file is None:
        file = sys.stdout
    elif format_name in _BINARY:
        stream = stack.enter_context(out_file.stream())
        out: SqliteOut | ParquetOut = (
            SqliteOut(stream, target.tables, out_file.part_path())
            if format_name == "sqlite"
            else ParquetOut(stream, target.tables[0])
        )
        return stack.enter_context(contextlib.closing(out))
    else:
        file = stack.enter_context(io.TextIOWrapper(out_file.stream(), encoding="utf-8"))
    if format_name == "csv":
        return CsvOut(file, target.tables[0], raw=raw)
    return JsonlOut(file, with_table=len(target.tables) > 1)
