"""Real runs of one trainer, and the true figures of each run.

The data lies on a slow disk (two runs), on a fast disk, in memory or in a warm page cache; or two workers or a thread
load it from the slow disk. ``python -m tests.scenarios.runs.keep`` recorded them. A batch is 4 reads of 128 KiB, a step
takes 50 ms, and a run 40 s.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from iotop_ai.export.compare.comparison import Comparison, compare_runs
from iotop_ai.export.report.step_curve import with_steps
from iotop_ai.export.report.story import Story
from iotop_ai.sources.imports.step_log import read_step_log
from tests.export.report.stories import read

FOLDER = Path(__file__).resolve().parents[2] / "data" / "runs"
TRUTH: dict[str, dict[str, float]] = json.loads((FOLDER / "index.json").read_text())


def path(name: str) -> Path:
    return FOLDER / f"{name}.iotop.jsonl.gz"


def log(name: str) -> Path:
    return FOLDER / f"{name}.log"


@cache
def story(name: str, steps: bool = False) -> Story:
    found = read(path(name))
    return with_steps(found, read_step_log(str(log(name)), allow_root=True)) if steps else found


@cache
def comparison(before: str, after: str, steps: bool = False) -> Comparison:
    return compare_runs(story(before, steps), story(after, steps))
