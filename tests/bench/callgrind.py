"""Counts the instructions that parts of a refresh take, with valgrind. Other load does not change this figure.

``python -m tests.bench.callgrind [--parts NAME ...] [--record]`` prints the counts; ``--record`` also keeps them in
tests/data/cost_gates.json for tests/test_cost_gates.py.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.bench.parts import PARTS, per_item

RECORDED = Path(__file__).parents[1] / "data" / "cost_gates.json"
LIMIT_S = 1200
"""The time limit in seconds. The count needs 25 s, or several times as much if other programs use the machine."""
COUNTER = Path(__file__).with_name("counter.c")
NAMES = tuple(part.name for part in PARTS)
_TOTALS = re.compile(r"^totals: (\d+)", re.MULTILINE)


def python_version() -> str:
    """Return the version of Python, such as "3.12". Versions differ in bytecode, so their counts do not compare."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def why_not() -> str:
    """Return why instructions cannot be counted here; "" when they can."""
    missing = [name for name in ("valgrind", "gcc") if not shutil.which(name)]
    return f"{' and '.join(missing)} not installed" if missing else ""


def instructions(only: Sequence[str] = NAMES) -> dict[str, float]:
    """Return the instructions in user space for an item of each part in ``only``. Raises RuntimeError on a failure."""
    with tempfile.TemporaryDirectory(prefix="callgrind-") as name:
        out, counter = Path(name) / "out", Path(name) / "counter.so"
        subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", str(counter), str(COUNTER)], check=True)
        words = [
            "valgrind",
            "--tool=callgrind",
            f"--callgrind-out-file={out}",
            "--instr-atstart=no",
            sys.executable,
            "-m",
            "tests.bench.parts",
            "--counter",
            str(counter),
            "--parts",
            *only,
        ]
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"},
        )
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])
        runs = json.loads(done.stdout.strip().splitlines()[-1])
        dumps = sorted(out.parent.glob("out.*"), key=lambda path: int(path.suffix[1:]))
        costs = [int(found[1]) for path in dumps if (found := _TOTALS.search(path.read_text()))]
    step_costs = iter(costs)
    totals: dict[str, dict[int, float]] = {}
    for part, size, count in runs:
        totals.setdefault(part, {})[size] = sum(next(step_costs) for _ in range(count))
    return {part.name: per_item(part, totals[part.name]) for part in PARTS if part.name in only}


def main() -> int:
    """Count the instructions and print them; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.callgrind", description=__doc__)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--parts", nargs="+", choices=NAMES, default=NAMES, help="count only these")
    args = parser.parse_args()
    if why := why_not():
        print(f"unknown: {why}", file=sys.stderr)
        return 2
    found = {name: round(cost) for name, cost in instructions(args.parts).items()}
    for name, cost in found.items():
        print(f"{name:<14} {cost:>12,} instructions")
    if args.record:
        if len(found) < len(NAMES):  # the counts of the other parts are kept
            found = {**json.loads(RECORDED.read_text())["instructions"], **found}
        RECORDED.write_text(json.dumps({"python": python_version(), "instructions": found}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
