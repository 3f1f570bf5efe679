"""``iotop-ai export``: a recording as tidy tables for pandas, SQL and spreadsheets."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple

from iotop_ai.cli.played import add_replay_flags, played_of, sound
from iotop_ai.export.csv_out import CsvOut
from iotop_ai.export.jsonl_out import JsonlOut
from iotop_ai.export.outfile import OutFile
from iotop_ai.export.parquet_out import ParquetOut
from iotop_ai.export.sqlite_out import SqliteOut
from iotop_ai.export.tidy import NAMES, tables
from iotop_ai.export.tidy_column import Table
from iotop_ai.model.errors import UnknownError, UsageError
from iotop_ai.model.parse import parse_names
from iotop_ai.model.settings import CMDLINE_LEVELS

FORMATS = {"csv": (".csv",), "jsonl": (".jsonl",), "sqlite": (".sqlite", ".db"), "parquet": (".parquet",)}
STDOUT = "-"
_ONE_TABLE = ("csv", "parquet")
_BINARY = ("sqlite", "parquet")

Out = CsvOut | JsonlOut | SqliteOut | ParquetOut


class Target(NamedTuple):
    """Where which tables go. path: "-" or a file."""

    path: str
    tables: tuple[Table, ...]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of ``export``."""
    add_replay_flags(parser)
    parser.add_argument("--format", choices=FORMATS, help="default: by the ending of OUT, else csv")
    parser.add_argument(
        "--table",
        metavar="NAMES",
        action="append",
        help=f"{', '.join(NAMES)}; by comma (default: devices in one csv or parquet file, else all)",
    )
    parser.add_argument("--raw", action="store_true", help="csv without the ' before text that looks like a formula")
    parser.add_argument(
        "--cmdline", choices=CMDLINE_LEVELS, default="names", help="how much of a command line (default names)"
    )
    parser.add_argument(
        "-o", "--output", metavar="OUT", default=STDOUT, help="a file, a folder/ for one file a table, or -"
    )
    parser.add_argument("--force", action="store_true", help="replace what is there")


def run(args: argparse.Namespace) -> int:
    """Read once, write as it comes; OUT appears when it is whole."""
    kind = format_of(args.format, args.output)
    targets = targets_of(kind, args.output, parse_names(",".join(args.table or ())), tables(args.cmdline))
    played = played_of(args)
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(OutFile(t.path, force=args.force)) for t in targets if t.path != STDOUT]
        paths = [file.part for file in files] or [STDOUT]
        outs = [_opened(stack, kind, path, t, args.raw) for path, t in zip(paths, targets, strict=True)]
        frame = None
        with sound(args.file):
            for frame in played:
                for target, out in zip(targets, outs, strict=True):
                    for table in target.tables:
                        out.add(table, table.rows(frame))
        if frame is None:
            raise UnknownError(f"{args.file}: nothing was recorded in that time")
        for out in outs:
            out.finish(played.about())
        for file in files:
            file.commit()
    return 0


def format_of(named: str | None, output: str) -> str:
    """The format that is meant. Raises UsageError for a binary one on standard output."""
    endings = {ending: kind for kind, known in FORMATS.items() for ending in known}
    kind = named or endings.get(os.path.splitext(output)[1].lower(), "csv")
    if kind in _BINARY and output == STDOUT:
        raise UsageError(f"{kind} needs a file: -o OUT{FORMATS[kind][0]}")
    return kind


def targets_of(kind: str, output: str, names: Sequence[str], known: Sequence[Table]) -> list[Target]:
    """Which tables go where. Raises UsageError for an unknown table and for several in a format that holds one."""
    by_name = {table.name: table for table in known}
    for name in names:
        if name not in by_name:
            raise UsageError(f"no table {name!r}; there are {', '.join(by_name)}")
    folder = output.endswith("/") or (output != STDOUT and os.path.isdir(output))
    if not names:
        names = ("devices",) if kind in _ONE_TABLE and not folder else tuple(by_name)
    chosen = tuple(by_name[name] for name in names)
    if folder:
        if kind == "sqlite":
            raise UsageError("sqlite holds all tables in one file; name it")
        os.makedirs(output, exist_ok=True)
        return [Target(os.path.join(output, t.name + FORMATS[kind][0]), (t,)) for t in chosen]
    if kind in _ONE_TABLE and len(chosen) > 1:
        raise UsageError(f"{kind} holds one table a file; give a folder: -o OUT/")
    return [Target(output, chosen)]


def _opened(stack: contextlib.ExitStack, kind: str, path: str, target: Target, raw: bool) -> Out:
    if kind == "sqlite":
        return stack.enter_context(contextlib.closing(SqliteOut(path, target.tables)))
    if kind == "parquet":
        return stack.enter_context(contextlib.closing(ParquetOut(path, target.tables[0])))
    file = sys.stdout
    if path != STDOUT:
        file = stack.enter_context(open(path, "w", encoding="utf-8"))  # noqa: SIM115 - closed by the stack
    if kind == "csv":
        return CsvOut(file, target.tables[0], raw=raw)
    return JsonlOut(file, tell_table=len(target.tables) > 1)
