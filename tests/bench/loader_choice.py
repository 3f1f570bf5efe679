"""Checks what ``iotop-ai loader`` recommends: measures each setting of its grid again, with a trainer's plain code.

``python -m tests.bench.loader_choice [--seconds 4] [--rounds 3] [--case N]`` measures a torch dataset on a slow
disk, one that is bound by the CPU, and a tf.data pipeline of files on a slow disk. The second measurement shares no
code with the tool: it is a loop over the DataLoader or Dataset that counts samples. It reads cold, takes the settings
in turn, and uses the median of the rounds. Exit code 1: the recommended setting gives less than 95 % of the best one.
It needs root and the stacks of tests/scenarios/stacks.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.bench.peers import markdown
from tests.preflight.loader.sources import DATASETS, PIPELINES, swept
from tests.rigs.slowdisk.files import slow_files
from tests.scenarios.stacks.install import python_of

HEADS = ("loader", "grid", "recommended", "by the tool", "again", "best again", "of the best")
LEAST = 0.95
MEASURE = """
import os, sys, time
kind, workers, seconds, interleave = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
folder = os.environ.get("IMAGES")
for name in os.listdir(folder) if folder else ():
    handle = os.open(os.path.join(folder, name), os.O_RDONLY)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(handle)
if kind == "files":
    import pipes_of_user
    batches = iter(pipes_of_user.files(workers or None, 8, interleave))
else:
    import torch, sets_of_user
    dataset = {"Cpu": sets_of_user.Cpu, "Files": sets_of_user.Files}[kind]()
    batches = iter(torch.utils.data.DataLoader(dataset, batch_size=8, num_workers=workers, shuffle=True))
for _ in range(max(1, workers)):
    next(batches)
begin, count = time.monotonic(), 0
for batch in batches:
    count += len(batch)
    if time.monotonic() - begin > seconds:
        break
print(count / (time.monotonic() - begin))
"""


class Case(NamedTuple):
    """One loader to measure. module, factory: the parts of the user's MODULE:FACTORY. workers, interleaves: the grid.

    stack: the stack whose Python runs the loader. disk: whether its files are on a slow disk.
    """

    name: str
    module: str
    factory: str
    stack: str
    workers: tuple[int, ...]
    interleaves: tuple[int, ...] = (1,)
    disk: bool = True


CASES = (
    Case("torch, files on a slow disk", "sets_of_user", "Files", "torch", (0, 2, 4, 8)),
    Case("torch, bound by the CPU", "sets_of_user", "Cpu", "torch", (0, 1, 2, 4), disk=False),
    Case("tf.data, files on a slow disk", "pipes_of_user", "files", "tensorflow", (0, 4), (1, 4, 8)),
)


def plain_rate(case: Case, folder: Path, images: str, workers: int, interleave: int, seconds: float) -> float:
    """Return the samples per second of one setting, measured with plain code."""
    variables = {"IMAGES": images} if images else {}
    done = subprocess.run(
        [str(python_of(case.stack)), "-c", MEASURE, case.factory, str(workers), str(seconds), str(interleave)],
        cwd=folder, env={"PATH": os.defpath, "TF_CPP_MIN_LOG_LEVEL": "3", **variables}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    return float(done.stdout.split()[-1])


def measured(case: Case, folder: Path, images: str, seconds: float, rounds: int) -> list[str]:
    """Return the row of a case. Its last cell is the rate of the recommended setting as a part of the best rate."""
    grid = [(workers, files) for files in case.interleaves for workers in case.workers]
    several = ["--interleave", ",".join(map(str, case.interleaves))] if len(case.interleaves) > 1 else []
    found = swept(
        folder, f"{case.module}:{case.factory}", "--python", str(python_of(case.stack)),
        "--workers", ",".join(map(str, case.workers)), *several, "--batch-size", "8", "--seconds", f"{seconds:g}",
        *(["--cold", images] if images else []), **({"IMAGES": images} if images else {}),
    )  # fmt: skip
    recommended = found["recommended"]
    chosen = (recommended["workers"], recommended["interleave"] or 1)
    rates: dict[tuple[int, int], list[float]] = {one: [] for one in grid}
    for _ in range(rounds):
        for one in grid:
            rates[one].append(plain_rate(case, folder, images, *one, seconds))
    middle = {one: statistics.median(values) for one, values in rates.items()}
    best = max(middle, key=lambda one: middle[one])

    def setting_text(one: tuple[int, int]) -> str:
        return f"{one[0]}" + (f", interleave {one[1]}" if len(case.interleaves) > 1 else "")

    tried = " ".join(setting_text(one) for one in grid) if len(case.interleaves) == 1 else f"{len(grid)} settings"
    of_best = min(1.0, middle[chosen] / middle[best])
    return [
        case.name, tried, setting_text(chosen), f"{recommended['samples_per_s']:.0f}", f"{middle[chosen]:.0f}",
        f"{middle[best]:.0f} ({setting_text(best)})", f"{100 * of_best:.0f} %",
    ]  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Sweep, measure again and print; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--case", type=int, choices=range(len(CASES)), help="only this case, counted from 0")
    args = parser.parse_args(argv)
    rows = []
    for case in CASES if args.case is None else CASES[args.case : args.case + 1]:
        with tempfile.TemporaryDirectory() as top:
            folder = Path(top)
            (folder / "sets_of_user.py").write_text(DATASETS)
            (folder / "pipes_of_user.py").write_text(PIPELINES)
            if case.disk:
                with slow_files(folder, 3000) as images:
                    rows.append(measured(case, folder, str(images), args.seconds, args.rounds))
            else:
                rows.append(measured(case, folder, "", args.seconds, args.rounds))
            print(rows[-1], file=sys.stderr)
    print(markdown(HEADS, rows))
    return 0 if all(float(row[-1].split()[0]) >= 100 * LEAST for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
