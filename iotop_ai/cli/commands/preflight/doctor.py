"""``iotop-ai doctor``: check what makes measuring or training fail here, with remedies to paste."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

from iotop_ai.cli.options.common import add_machine_flags, settings_of
from iotop_ai.cli.stderr import print_notice
from iotop_ai.cli.stdout import print_lines
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.input_file import open_input
from iotop_ai.collectors.io.with_timeout import HOME_TIMEOUT_S, call_with_timeout
from iotop_ai.export.atomic_file import OutFile
from iotop_ai.export.json.doctor import render_differences_json, render_doctor_json
from iotop_ai.export.text.doctor import differences_text, doctor_text
from iotop_ai.export.text.requirements import environment_text, requirements_text
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import InputError, UnknownError, UsageError
from iotop_ai.model.preflight.environment.check import State
from iotop_ai.model.preflight.environment.report import FORMAT, differences
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.preflight.environment.doctor import examine
from iotop_ai.preflight.environment.python import read_python
from iotop_ai.preflight.user_python import user_python
from iotop_ai.present.text.units import plural
from iotop_ai.sources.live.late import GPU_WAIT_S, SMART_WAIT_S, late_parts
from iotop_ai.sources.live.source import LiveSource

INTERVAL_S = 0.2
"""The interval between two Snapshots, in seconds. It is short, because the checks use no rate."""
_LARGEST_BYTES = 16 << 20
_EXPORT_SUFFIXES = (".txt", ".yml", ".yaml")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``doctor``."""
    parser.add_argument(
        "--python", metavar="PATH", help="the Python that trains (default: the active environment's, else python3)"
    )
    parser.add_argument(
        "--script", metavar="FILE", help="a training script or notebook: start method, main guard, CUDA in workers"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print problems only")
    parser.add_argument(
        "--json", action="store_true", default=argparse.SUPPRESS, help="print a JSON object, which --diff can compare"
    )
    add_machine_flags(parser, argparse.SUPPRESS)
    parser.add_argument(
        "--export", metavar="FILE", help="write the Python's packages as requirements.txt or environment.yml, and end"
    )
    parser.add_argument("--force", action="store_true", help="with --export: replace an existing file")
    parser.add_argument("--diff", nargs=2, metavar=("A", "B"), help="compare two files saved with --json, and end")


def run(args: argparse.Namespace) -> int:
    """Check and print, or do what --diff or --export asks for; return the exit code.

    0: all is well. 1: a check fails, or --diff finds a difference. 2: a check could not decide.
    """
    if args.diff and args.export is not None:
        raise UsageError("--diff and --export exclude each other")
    if args.diff:
        return _compare(*args.diff, as_json=args.json)
    settings, clock = settings_of(args), Clock()
    folder = os.getcwd()
    if args.export is not None:
        return _export(args, folder, clock)
    python = user_python(args.python)
    source = LiveSource(settings._replace(interval_s=INTERVAL_S), clock=clock)
    diagnosis = examine(first_answered_snapshot(source), source.root, python, folder, clock, args.script)
    if args.json:
        print_lines([render_doctor_json(diagnosis)])
    elif text := doctor_text(diagnosis, args.quiet):
        print_lines([text])
    if diagnosis.exit_code == 2:
        names = [check.name for check in diagnosis.checks if check.state is State.UNKNOWN]
        print_notice(f"unknown: {', '.join(names)}")
    return diagnosis.exit_code


def first_answered_snapshot(source: LiveSource) -> Snapshot:
    """Return the first Snapshot in which disks and GPUs have answered, even if only with an error.

    If they do not answer within a few seconds, return the newest Snapshot.
    """
    stream = iter(source)
    try:
        first = next(stream)
        source.wait_gpu(GPU_WAIT_S)
        source.wait_smart(SMART_WAIT_S)
        for snapshot in stream:
            waiting = late_parts(snapshot) or (snapshot.gpu.value and not snapshot.gpu_slow.value)
            if not waiting or snapshot.at_ns - first.at_ns > (GPU_WAIT_S + SMART_WAIT_S) * 1e9:
                return snapshot
    finally:
        source.close()
        for _ in stream:
            pass
    return first


def _export(args: argparse.Namespace, folder: str, clock: Clock) -> int:
    path: str = args.export
    if not path.endswith(_EXPORT_SUFFIXES):
        raise UsageError(f"--export {clean(path)}: the name must end in .txt (pip) or .yml (conda)")
    python = read_python(user_python(args.python), folder, clock)
    if python.error:
        raise UnknownError(f"{python.executable or 'python3'}: {python.error}")
    name = os.path.basename(os.path.normpath(python.prefix)) if python.conda else "training"
    text = requirements_text(python) if path.endswith(".txt") else environment_text(python, name)
    with OutFile(path, force=args.force) as out:
        with out.stream() as stream:
            stream.write(text.encode())
        out.commit()
    print_notice(f"wrote {clean(path)}: {plural(len(python.imported), 'package')} of {python.executable}")
    return 0


def _compare(first: str, second: str, *, as_json: bool) -> int:
    found = list(differences(*(_read_saved(path) for path in (first, second))))
    if as_json:
        print_lines([render_differences_json(found)])
    else:
        names = clean(os.path.basename(first)), clean(os.path.basename(second))
        print_lines([differences_text(found, names)])
    return 1 if found else 0


def _read_saved(path: str) -> dict[str, Any]:
    """Return the object that ``doctor --json`` saved, with its texts made safe to print. Raises InputError."""

    def read() -> bytes:
        with open_input(path) as file:
            return file.read(_LARGEST_BYTES + 1) or b""  # a pipe without data gives None

    try:
        # The file may be on a slow network mount. A user who names it waits longer than start-up waits for the home.
        raw = call_with_timeout(10 * HOME_TIMEOUT_S, path, read)
    except OSError as error:
        raise InputError(f"{clean(path)}: {error.strerror}") from None
    try:
        saved = _clean_value(json.loads(raw)) if len(raw) <= _LARGEST_BYTES else None
    except (ValueError, RecursionError):
        saved = None
    if not isinstance(saved, dict) or saved.get("format") != FORMAT or "checks" not in saved:
        raise InputError(f"{clean(path)} was not saved with iotop-ai doctor --json")
    return saved


def _clean_value(value: object) -> Any:
    if isinstance(value, dict):
        return {clean(str(key)): _clean_value(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_clean_value(part) for part in value]
    return clean(value) if isinstance(value, str) else value
