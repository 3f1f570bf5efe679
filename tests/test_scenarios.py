"""Runs of scenarios are planned, kept and scored correctly; a slow test checks that the verdict names a real cause."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from iotop_ai.model.verdict_class import PRECEDENCE
from tests.scenarios import real_gpu
from tests.scenarios import run as scenarios
from tests.scenarios.cause import TRAINER, Cause, with_options
from tests.scenarios.causes import CAUSES, plain
from tests.scenarios.figures import confusion, figures, scored, tuned_and_held_out
from tests.scenarios.plan import BACKGROUND, HELD_OUT, PLAIN, Run, plan
from tests.scenarios.registry import all_causes, why_not
from tests.scenarios.report import document, summary
from tests.scenarios.results import OtherPlanError, Results
from tests.scenarios.score import score, true_stall
from tests.scenarios.trainer import options

REPO = Path(__file__).resolve().parent.parent
STEPS = [{"at": float(at), "wait": 0.5, "all": 1.0} for at in range(40)]


def row(at: float, class_id: str, stall: float | None = 0.5, measuring: bool = False, **more: Any) -> dict[str, Any]:
    usual = {"at": at, "classes": [class_id], "measuring": measuring, "stall": stall, "truth": true_stall(STEPS, at)}
    fields = {"cost": 0.003, "confidence": 0.75, "state": "", "because": "", "do": "", "parts": None}
    return {**usual, "alarm": class_id != "healthy", "blocked_tasks": None, **fields, **more}


def test_the_true_stall_is_the_share_of_waiting_time() -> None:
    assert true_stall(STEPS, 30.0) == pytest.approx(0.5)
    assert true_stall(STEPS, 5.0) is None
    assert true_stall(STEPS, 60.0) is None
    assert true_stall([], 5.0) is None


def test_a_step_across_the_edge_of_a_period_counts_in_part() -> None:
    steps = [{"at": 0.0, "wait": 0.0}, {"at": 15.0, "wait": 10.0}, {"at": 21.0, "wait": 0.0}]
    assert true_stall(steps, 20.0) == pytest.approx(0.5)


RIGHT = [
    *(row(10.0 + i, "unknown", measuring=True) for i in range(10)),
    *(row(20.0 + i, "unknown") for i in range(2)),
    *(row(22.0 + i, "cpu_prep", stall=0.6) for i in range(8)),
    row(30.0, "storage_read", classes=["storage_read", "cpu_prep"]),
    row(31.0, "cpu_prep"),
]


def test_a_run_is_scored_tick_by_tick() -> None:
    out = score("cpu_prep", RIGHT)
    assert (out.got, out.top3, out.late_s, out.flaps) == ("cpu_prep", True, 2.0, 2)
    assert out.right == pytest.approx(9 / 12)
    assert out.watched_s == 9.0
    assert max(out.errors) == pytest.approx(0.1)


def test_verdicts_about_a_new_job_are_not_counted() -> None:
    assert score("cpu_prep", RIGHT, started=16.0).late_s == 0.0
    assert score("cpu_prep", RIGHT, started=10.0).right == pytest.approx(6 / 7)
    assert score("cpu_prep", RIGHT, window_s=15.0).right == pytest.approx(6 / 7)


def test_a_class_in_second_place_is_among_the_first_three() -> None:
    rows = [row(20.0 + i, "storage_read", classes=["storage_read", "cpu_prep"]) for i in range(9)]
    out = score("cpu_prep", rows)
    assert (out.got, out.top3, out.late_s, out.right) == ("storage_read", True, None, 0.0)


def test_a_run_that_is_never_right_is_marked() -> None:
    out = score("cpu_prep", [row(20.0 + i, "unknown", None) for i in range(5)])
    assert (out.got, out.top3, out.late_s, out.right, out.errors) == ("unknown", False, None, 0.0, ())
    assert score("cpu_prep", []).got == ""


def test_only_an_alarm_about_another_class_is_false() -> None:
    rows = [row(20.0, "healthy"), row(21.0, "cpu_prep"), row(22.0, "checkpoint_write"), row(23.0, "idle", alarm=False)]
    assert score("healthy", rows).alarms == 2
    assert score("healthy", rows, also=("checkpoint_write",)).alarms == 1


def record(name: str, label: str, number: int, kind: str, rows: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    usual = {"label": label, "negative": False, "also": [], "captured": False, "window_s": 10.0, "setting": "--batch 4"}
    run = Run(name, number, kind, "1", 40)._asdict() | {"rules": 24}
    return {**run, **usual, "started": 0.0, "exit": None, "steps": 40, "rows": rows, **more}


RECORDS = [
    record("a", "cpu_prep", 0, PLAIN, RIGHT),
    record("a", "cpu_prep", 2, HELD_OUT, RIGHT),
    record("b", "healthy", 1, BACKGROUND, [row(25.0, "cpu_prep", 0.62), row(26.0, "healthy", 0.62)], negative=True),
]


def test_figures_are_summed_over_runs_and_held_out_runs_are_listed_separately() -> None:
    tuned, held = tuned_and_held_out(scored(RECORDS))
    assert [r.record["name"] for r in held] == ["a"]
    found = figures(tuned)
    assert (found.runs, found.top1, found.false_alarms) == (2, 0.5, 0.5)
    assert found.near == pytest.approx(1.0)
    assert found.flaps_per_minute == pytest.approx(60 * 2 / 9)
    assert confusion(tuned)["healthy"] == {"cpu_prep": 1}
    assert figures([])[:2] == (0, None)


def test_the_document_shows_its_command_all_classes_and_all_wrong_runs() -> None:
    failed = {"name": "c", "number": 0, "error": "no disk"}
    text = document([*RECORDS, failed], "python -m tests.scenarios.run --repeat 3")
    assert "python -m tests.scenarios.run --repeat 3" in text
    assert "| cpu_prep | a | 2/2 | - |" in text
    assert "| healthy | b \\* | 0/1 | cpu_prep 1 |" in text
    assert "\n3 runs: 1 cause 2 times, 1 cause once (b). The rules have version 24.\n" in text
    assert "held-out parameters" in text
    assert "held-out parameters" not in document(RECORDS[:1], "")
    assert "| b | background | --batch 4 | healthy | cpu_prep |" in text
    assert "- c #0: no disk" in text
    assert "not made: c #0: no disk" in summary([*RECORDS, failed])


MADE = {name: Cause("healthy", plain, ("--step", "1"), background=name != "q") for name in "pqr"}


def test_a_plan_depends_on_its_seed_and_runs_each_cause_before_it_repeats_one() -> None:
    runs = plan(MADE, MADE, 3, 1, 40)
    assert runs == plan(MADE, MADE, 3, 1, 40) != plan(MADE, MADE, 3, 2, 40)
    assert [{run.name for run in runs[i : i + 3]} for i in (0, 3, 6)] == [set("pqr")] * 3
    assert sorted(run.kind for run in runs if run.name == "p") == [BACKGROUND, HELD_OUT, PLAIN]
    assert sorted(run.kind for run in runs if run.name == "q") == [HELD_OUT, PLAIN, PLAIN]
    assert len({run.seed for run in runs}) == len({run.file for run in runs}) == 9


def test_the_seed_of_a_run_decides_its_parameters() -> None:
    cause = Cause("healthy", plain, draw=lambda c, rng: with_options(c, "--batch", rng.randint(1, 1000)))
    one, other = (Run("x", i, PLAIN, f"1/x/{i}", 40).cause({"x": cause}) for i in range(2))
    assert one.options != other.options
    assert one.setting == " ".join(one.options)
    assert one == Run("x", 0, PLAIN, "1/x/0", 40).cause({"x": cause})


@pytest.mark.parametrize("name", sorted(all_causes()))
def test_every_drawn_trainer_can_be_started(name: str) -> None:
    cause = all_causes()[name]
    for seed in range(20):
        drawn = cause.drawn(random.Random(seed))
        assert (drawn.label, drawn.negative) == (cause.label, cause.negative)
        assert bool(drawn.setting) == (cause.draw is not None)
        if cause.program == TRAINER:
            a = options([".", *drawn.options])
            assert a.step > 0
            assert a.batch > 0


def test_finished_runs_are_not_repeated(tmp_path: Path) -> None:
    runs, folder, settings = plan(MADE, MADE, 1, 1, 40), tmp_path / "results", {"seed": 1}
    results = Results(folder, settings, resume=False)
    results.fail(runs[0], "no disk")
    assert [r["error"] for r in results.all()] == ["no disk"]
    results.add(runs[0], {"label": "healthy"})
    again = Results(folder, settings, resume=True)
    assert [again.done(run) for run in runs] == [True, False, False]
    assert again.all() == [{"label": "healthy"}]
    with pytest.raises(OtherPlanError, match="seed"):
        Results(folder, {"seed": 2}, resume=True)
    assert Results(folder, {"seed": 2}, resume=False).all() == []
    assert (tmp_path / "results.1" / f"{runs[0].file}.json").exists()


def test_the_first_run_of_each_class_and_all_negatives_are_selected() -> None:
    bad, good = Cause("cpu_prep", plain), Cause("healthy", plain, negative=True)
    none = Cause("cpu_prep", plain, why_not=lambda: "needs a disk")
    causes = {"none": none, "one": bad, "two": bad, "well": good, "cached": good}
    assert scenarios.first_of_each(causes, list(causes)) == ["none", "one", "well", "cached"]


def test_the_list_shows_causes_and_durations(capsys: pytest.CaptureFixture[str]) -> None:
    assert scenarios.main(["--list", "--repeat", "3", "--class", "healthy"]) == 0
    out = capsys.readouterr().out
    assert "healthy" in out
    assert "minutes" in out


def test_the_list_counts_only_causes_that_can_be_made() -> None:
    causes = {
        "no": Cause("cpu_prep", plain, negative=True, why_not=lambda: "needs a disk"),
        "yes": Cause("healthy", plain, negative=True),
    }
    text = scenarios.listed(causes, list(causes), [])
    assert "needs a disk" in text
    assert "\n1 causes, 1 classes and 1 negatives can be made here\n" in text


def test_an_unknown_name_is_a_one_line_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        scenarios.main(["--class", "nothing"])
    assert ended.value.code == 2
    assert "no cause or class is called 'nothing'" in capsys.readouterr().err


def test_every_cause_has_a_class_that_the_rules_know() -> None:
    known = {*PRECEDENCE, "unknown"}
    assert {cause.label for cause in CAUSES.values()} <= known
    assert set(CAUSES) <= set(all_causes())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cpu_prep", "storage_read", "healthy"])
def test_the_verdict_names_a_real_cause(name: str) -> None:
    if why_not(CAUSES[name]):
        pytest.skip(why_not(CAUSES[name]))
    command = [sys.executable, "-m", "tests.scenarios.run", "--class", name, "--seconds", "30"]
    done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_truth_of_a_gpu_run_covers_only_the_steps_in_its_period(tmp_path: Path) -> None:
    log = tmp_path / "steps.jsonl"
    steps = [{"at": at, "wait": 0.2, "busy": 0.6, "exchange": 0.1, "all": 1.0} for at in (1.0, 2.0, 3.0)]
    log.write_text("\n".join(map(json.dumps, steps)) + '\n{"at": 4.0, "wa')
    assert real_gpu.truth(log, 1.5, 3.5) == {"steps": 2, "wait": 0.2, "busy": 0.6, "exchange": 0.1, "rest": 0.2}


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="this machine has a GPU")
def test_without_a_gpu_the_run_ends_with_a_reason_and_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert real_gpu.main([]) == 2
    assert "no NVIDIA GPU" in capsys.readouterr().err
