"""How a run is scored, and (slow) that a real cause is named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from iotop_ai.diagnosis.rules import PRECEDENCE
from tests.scenarios.causes import CAUSES
from tests.scenarios.registry import all_causes, why_not
from tests.scenarios.run import score, true_stall

REPO = Path(__file__).resolve().parent.parent


def row(at: float, first: str, stall: float | None = 0.5, measuring: bool = False) -> dict[str, object]:
    return {"at": at, "classes": [first], "measuring": measuring, "stall": stall, "cost": 0.003, "confidence": 0.75}


STEPS = [{"at": float(at), "wait": 0.5, "all": 1.0} for at in range(40)]


def test_the_truth_is_the_share_of_the_window_that_was_waited() -> None:
    assert true_stall(STEPS, 30.0) == pytest.approx(0.5)
    assert true_stall(STEPS, 5.0) is None
    assert true_stall(STEPS, 60.0) is None
    assert true_stall([], 5.0) is None


def test_a_step_across_the_edge_counts_in_part() -> None:
    steps = [{"at": 0.0, "wait": 0.0}, {"at": 15.0, "wait": 10.0}, {"at": 21.0, "wait": 0.0}]
    assert true_stall(steps, 20.0) == pytest.approx(0.5)


def test_a_run_is_scored_by_its_first_right_tick() -> None:
    cause = CAUSES["cpu_prep"]
    rows = [
        *(row(10.0 + i, "unknown", measuring=True) for i in range(10)),
        *(row(20.0 + i, "unknown") for i in range(2)),
        *(row(22.0 + i, "cpu_prep", stall=0.6) for i in range(8)),
        row(30.0, "storage_read"),
        row(31.0, "cpu_prep"),
    ]
    out = score("cpu_prep", cause, rows, STEPS)
    assert (out.got, out.after_s, out.flaps) == ("cpu_prep", 12.0, 2)
    assert out.right == pytest.approx(9 / 10)
    assert max(out.errors) == pytest.approx(0.1)


def test_a_run_that_is_never_right_says_so() -> None:
    out = score("cpu_prep", CAUSES["cpu_prep"], [row(20.0 + i, "unknown", None) for i in range(5)], [])
    assert (out.got, out.after_s, out.right, out.errors, out.truth) == ("unknown", None, 0.0, (), None)


def test_every_cause_has_a_class_that_the_rules_know() -> None:
    known = {*PRECEDENCE, "unknown"}
    assert {cause.label for cause in CAUSES.values()} <= known
    assert set(CAUSES) <= set(all_causes())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cpu_prep", "storage_read", "healthy"])
def test_a_real_cause_is_named(name: str) -> None:
    if why_not(CAUSES[name]):
        pytest.skip(why_not(CAUSES[name]))
    command = [sys.executable, "-m", "tests.scenarios.run", "--class", name, "--seconds", "30"]
    done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
