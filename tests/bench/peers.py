"""Starts other programs, and reads their output."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ENVIRONMENT = {**os.environ, "LC_ALL": "C", "S_TIME_FORMAT": "ISO"}


def need(*programs: str) -> None:
    """End with exit code 2 and one line if a program is missing."""
    missing = [p for p in programs if not shutil.which(p)]
    if missing:
        print(f"unknown: not installed here: {', '.join(missing)}", file=sys.stderr)
        raise SystemExit(2)


def installed(name: str) -> str | None:
    """Return the path of a program beside this interpreter (in a virtual environment) or on PATH; None without it."""
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else shutil.which(name)


def version_line(*argv: str) -> str:
    """Return the first line that a program prints about its version."""
    done = subprocess.run(argv, capture_output=True, text=True, env=ENVIRONMENT)
    lines = (done.stdout or done.stderr).strip().splitlines()
    return " ".join(lines[0].split()) if lines else ""


def machine() -> str:
    """Return one line about the machine on which the figures were measured."""
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    release = Path("/etc/os-release").read_text() if Path("/etc/os-release").exists() else ""
    pretty = next((x.split("=", 1)[1].strip('"') for x in release.splitlines() if x.startswith("PRETTY_NAME=")), "")
    return (
        f"{os.cpu_count()} cores of {model}, {pretty}, Linux {platform.release()}, Python {platform.python_version()}"
    )


def start(argv: Sequence[str]) -> subprocess.Popen[str]:
    """Start a program and return it. Its output is read when it has ended."""
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)


def output(process: subprocess.Popen[str], timeout_s: float) -> str:
    """Wait for the end of a program and return its output. Raises RuntimeError for an exit code other than 0."""
    out, err = process.communicate(timeout=timeout_s)
    if process.returncode:
        raise RuntimeError(f"{process.args!r} ended with {process.returncode}: {err.strip()[-400:]}")
    return out


def parse_iostat(text: str) -> dict[str, dict[str, float]]:
    """Return the figures of the last report of ``iostat -x -o JSON``, by device."""
    statistics = json.loads(text)["sysstat"]["hosts"][0]["statistics"]
    return {
        disk["disk_device"]: {key: value for key, value in disk.items() if key != "disk_device"}
        for disk in statistics[-1]["disk"]
    }


def parse_pidstat(text: str) -> dict[int, dict[str, float]]:
    """Return the figures in the output of ``pidstat -d -h -H``, by pid.

    A line starts with the time, the header with #.
    """
    found: dict[int, dict[str, float]] = {}
    header: list[str] = []
    for line in text.splitlines():
        if line.startswith("#"):
            header = line[1:].split()
        elif header and line.strip():
            cells = dict(zip(header, line.split(), strict=False))
            found[int(cells["PID"])] = {key: float(cells[key]) for key in ("kB_rd/s", "kB_wr/s", "kB_ccwr/s")}
    return found


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]], right: Mapping[int, bool] | None = None) -> str:
    """Return a table whose cells are padded, so that it is readable as text.

    right: whether a column is aligned to the right, by its index; by default, all but the first are.
    """
    sides = right or {}
    widths = [max(len(row[i]) for row in [list(header), *[list(r) for r in rows]]) for i in range(len(header))]

    def line(cells: Sequence[Any]) -> str:
        parts = [
            c.rjust(w) if sides.get(i, i > 0) else c.ljust(w)
            for i, (c, w) in enumerate(zip(cells, widths, strict=True))
        ]
        return "| " + " | ".join(parts) + " |"

    rule = ["-" * (w - 1) + ":" if sides.get(i, i > 0) else "-" * w for i, w in enumerate(widths)]
    return "\n".join([line(header), line(rule), *(line(row) for row in rows)])
