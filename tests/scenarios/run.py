"""Runs causes and scores the verdicts: ``python -m tests.scenarios.run [--class NAME] [--repeat N] [--seconds S]``."""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from tests.rigs.nvml.library import SERVER, build, machine, why_no_library
from tests.scenarios.cause import Cause
from tests.scenarios.registry import all_causes, why_not

REPO = Path(__file__).resolve().parents[2]
WINDOW_S = 10.0
SETTLE_S = 3.0


class Score(NamedTuple):
    """What came out of one run. after_s: seconds of watching to the first right verdict; None when never.

    right: share of the decided ticks from then on with the right class first. flaps: changes of the first class after
    that; wrong: to which. errors: of the share of time lost, per tick, against the trainer's own log.
    """

    name: str
    label: str
    got: str
    top3: tuple[str, ...]
    after_s: float | None
    right: float
    flaps: int
    errors: tuple[float, ...]
    truth: float | None
    cost: float
    wrong: dict[str, int]
    last: dict[str, Any]


def true_stall(steps: Sequence[dict[str, float]], end: float, seconds: float = WINDOW_S) -> float | None:
    """The share of the window without data, by the trainer's log; None while it does not cover the window."""
    start = end - seconds
    if not steps or steps[0]["at"] > start or steps[-1]["at"] < end - 3:
        return None
    lost = sum(max(0.0, min(end, s["at"]) - max(start, s["at"] - s["wait"])) for s in steps)
    return lost / seconds


def score(name: str, cause: Cause, rows: Sequence[dict[str, Any]], steps: Sequence[dict[str, float]]) -> Score:
    """Hold the watcher's rows against the label and the log."""
    decided = [row for row in rows if not row["measuring"]]
    firsts = [row["classes"][0] for row in decided]
    hit = next((i for i, first in enumerate(firsts) if first == cause.label), None)
    later = firsts[hit:] if hit is not None else firsts
    errors = []
    for row in decided:
        truth = true_stall(steps, row["at"])
        if truth is not None and row["stall"] is not None:
            errors.append(row["stall"] - truth)
    costs = [row["cost"] for row in rows if row["cost"]]
    last = decided[-1] if decided else rows[-1]
    return Score(
        name,
        cause.label,
        max(set(firsts), key=firsts.count) if firsts else "",
        tuple(last["classes"][:3]),
        None if hit is None else decided[hit]["at"] - rows[0]["at"],
        later.count(cause.label) / len(later) if later else 0.0,
        sum(a != b for a, b in pairwise(later)),
        tuple(errors),
        true_stall(steps, last["at"]),
        sum(costs) / len(costs) if costs else 0.0,
        dict(Counter(first for first in later if first != cause.label)),
        last,
    )


def play(name: str, cause: Cause, seconds: int, library: Path | None) -> Score:
    """Make the cause, watch it, score it."""
    with tempfile.TemporaryDirectory(prefix="scenario-") as place:
        folder = Path(place)
        env = {**os.environ, "PYTHONPATH": str(REPO)}
        conf = None
        if cause.gpu and library is not None:
            conf = folder / "gpu.conf"
            machine(conf, [{k: v for k, v in SERVER.items() if k not in ("util", "power_mw", "energy_mj", "procs")}])
            env |= {"LD_LIBRARY_PATH": str(library.parent), "FAKE_NVML": str(conf)}
        log = folder / "steps.jsonl"
        with cause.scene(folder) as setting:
            trainer = subprocess.Popen(cause.command(setting, log, conf), start_new_session=True)
            try:
                time.sleep(SETTLE_S)
                watch = [sys.executable, "-m", "tests.scenarios.watch", str(seconds), str(trainer.pid)]
                done = subprocess.run(watch, env=env, cwd=REPO, stdout=subprocess.PIPE, text=True, check=True)
                rows = [json.loads(line) for line in done.stdout.splitlines()]
                steps = [json.loads(line) for line in log.read_text().splitlines() if line.endswith("}")]
            finally:
                os.killpg(trainer.pid, signal.SIGKILL)
                trainer.wait()
                time.sleep(0.3)
        return score(name, cause, rows, steps)


def told(s: Score) -> str:
    """One line about a run."""
    after = "never" if s.after_s is None else f"{s.after_s:.0f} s"
    size = sorted(abs(e) for e in s.errors)
    error = "no log" if not size else f"median {size[len(size) // 2]:.3f} p90 {size[int(len(size) * 0.9)]:.3f}"
    truth = "?" if s.truth is None else f"{s.truth:.2f}"
    return (
        f"{'ok   ' if s.got == s.label else 'WRONG'} {s.name:18} got {s.got:16} after {after:6} right {s.right:4.0%}"
        f" flaps {s.flaps} {s.wrong or ''} truth {truth} stall {s.last['stall']} error {error} cost {s.cost:.2%}\n"
        f"      {s.last['confidence']} {s.last['state']} | {s.last['because']} | {s.last['do']}"
        f" | top3 {','.join(s.top3)} parts {s.last['parts']}"
    )


def main() -> int:
    causes = all_causes()
    parser = argparse.ArgumentParser()
    parser.add_argument("--class", dest="only", action="append", choices=list(causes))
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=40)
    a = parser.parse_args()
    names = [name for name in a.only or causes for _ in range(a.repeat)]
    random.shuffle(names)
    scores = []
    with tempfile.TemporaryDirectory(prefix="nvml-") as place:
        library = None if why_no_library() else build(Path(place))
        for name in names:
            why = why_not(causes[name]) or ("needs cc" if causes[name].gpu and library is None else "")
            if why:
                print(f"skip  {name}: {why}", flush=True)
                continue
            scores.append(play(name, causes[name], a.seconds, library))
            print(told(scores[-1]), flush=True)
    right = sum(s.got == s.label for s in scores)
    inside = [abs(e) <= 0.1 for s in scores for e in s.errors]
    print(f"top-1 {right}/{len(scores)}; share lost within 0.10 in {sum(inside)}/{len(inside)} windows")
    return 0 if right == len(scores) else 1


if __name__ == "__main__":
    sys.exit(main())
