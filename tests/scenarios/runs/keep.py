"""Keeps short runs: a slow disk, the same disk again, a fast one, memory, two workers, a warm cache, and threads.

``python -m tests.scenarios.runs.keep [NAME ...]`` writes tests/data/runs/NAME.iotop.jsonl.gz, which slim.py has
reduced, NAME.log with what the trainer printed, and the truth that it measured (index.json).
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from tests.export.report.stories import read
from tests.rigs.nvml.c_library import build
from tests.scenarios.keep import snapshots, write
from tests.scenarios.runs.record import Recorded, Run, place, record_run
from tests.scenarios.slim import Slim

FOLDER = Path(__file__).resolve().parents[2] / "data" / "runs"
SECONDS = 40.0
RUNS = {
    "slow": Run(20_000, ("--workers", "1"), SECONDS),
    "again": Run(20_000, ("--workers", "1"), SECONDS),
    "fast_disk": Run(2_000, ("--workers", "1"), SECONDS),
    "memory": Run(None, ("--workers", "1"), SECONDS),
    "two_workers": Run(20_000, ("--workers", "2"), SECONDS),
    "warm": Run(20_000, ("--workers", "1", "--warm"), SECONDS),
    "threads": Run(20_000, ("--workers", "0", "--threads", "1"), SECONDS),
}


def keep(name: str, found: Recorded) -> dict[str, float]:
    """Write the files of one run; return its truth."""
    # Every monitor of a user gets the marks of all programs on the machine, so some marks are not from this run.
    without_marks = [
        one._replace(events=tuple(event for event in one.events if event.kind != "mark"))
        for one in snapshots(found.path)
    ]
    trainer = _trainer(found.path)
    write(Slim(without_marks, trainer).all(), FOLDER / f"{name}.iotop.jsonl.gz")
    (FOLDER / f"{name}.log").write_text(found.stdout.read_text())
    return {
        "wait_ratio": round(found.wait_ratio, 4),
        "steps_per_s": round(found.steps_per_s, 4),
        "steps": len(found.truth),
        "seconds": round(sum(step["all"] for step in found.truth), 3),
    }


def _trainer(path: Path) -> int:
    """Return the pid at the top of the recorded command's job."""
    main = read(path).main_job
    assert main is not None
    assert main.is_recorded_command
    return main.pid


def main() -> int:
    FOLDER.mkdir(exist_ok=True)
    index = FOLDER / "index.json"
    truth = json.loads(index.read_text()) if index.exists() else {}
    with tempfile.TemporaryDirectory(prefix="iotop-runs-") as name:
        folder = Path(name)
        library = build(folder)
        for which in sys.argv[1:] or RUNS:
            run = RUNS[which]
            with place(run.delay_us) as setting:
                found = record_run(run, folder, which, setting, library)
            truth[which] = keep(which, found)
            print(which, truth[which], flush=True)
    index.write_text(json.dumps(truth, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
