"""``compare`` on real runs: as text, as JSON, as HTML, and as a condition on the exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iotop_ai.cli.commands.reports.compare import _figure_values
from iotop_ai.cli.main import main
from iotop_ai.diagnosis.verdict.totals import VerdictTotalsBuilder
from iotop_ai.export.compare.bootstrap import Interval
from iotop_ai.export.compare.comparison import Change
from iotop_ai.export.json.condition import outcome_object
from iotop_ai.model.condition.grammar import parse_condition
from iotop_ai.model.condition.over_run import ConditionOverRun
from iotop_ai.present.verdict.condition_words import outcome_text
from tests.export.compare.kept import TRUTH, comparison, log, path

SLOW_MEMORY = (str(path("slow")), str(path("memory")), "--allow-root")
LOGS = ("--before-steps", str(log("slow")), "--after-steps", str(log("memory")))


def compare(capsys: pytest.CaptureFixture[str], *flags: str, code: int = 0) -> str:
    assert main(["compare", *flags]) == code
    return capsys.readouterr().out


def test_the_text_has_the_sentence_and_a_row_for_each_change_and_is_shown_in_the_documentation(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    lines = compare(capsys, *SLOW_MEMORY, *LOGS).splitlines()
    assert lines[0].startswith("1.7x faster (12.0 -> 19.8 steps/s): waiting for data 39 % -> 0 %, because ")
    rows = {line.split("  ")[0]: line for line in lines[lines.index("What changed") :]}
    assert rows["steps/s"].split()[-1] == "yes"
    assert "+40 points" in rows["compute"]
    assert "hung" not in rows
    page = (Path(__file__).parents[4] / "docs" / "compare.md").read_text()
    shown = page.split("iotop-ai compare slow.iotop.jsonl.gz")[1].split("```\n")[2].splitlines()
    assert shown[-1] == "..."
    assert lines[: len(shown) - 1] == shown[:-1]


def test_the_ascii_form_has_only_ascii(capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(capsys, *SLOW_MEMORY, "--ascii").isascii()


def test_the_json_has_the_figures_of_both_runs(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(compare(capsys, *SLOW_MEMORY, *LOGS, "--json"))
    assert (found["shape"], found["aligned_by"]) == (1, "job")
    assert [run["disk"] for run in found["runs"]] == ["loop0", None]
    changes = {one["name"]: one for one in found["changes"]}
    steps = changes["steps_per_s"]
    assert steps["clear"] is True
    assert steps["before"] == pytest.approx(TRUTH["slow"]["steps_per_s"], rel=0.02)
    assert steps["low"] < steps["difference"] < steps["high"]
    assert changes["job_disk.read_await_ms"]["after"] is None
    assert found["sentence"].startswith("1.7x faster")


PASSING = (
    *("data_wait > 10%", "steps_per_s < 15", "change.lost > 3%", "change.disks.vda.r_await > 5000%"),
    *("change.steps_per_s < -5%", "finding STARVED"),
)
FAILING = ("change.steps_per_s > 50%", "change.data_wait < -30%", "change.lost < -30%")


@pytest.mark.parametrize("conditions", [PASSING, FAILING], ids=["passing", "failing"])
def test_conditions_decide_the_exit_code(conditions: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    flags = [word for one in conditions for word in ("--fail-if", one)]
    out = compare(capsys, *SLOW_MEMORY, *LOGS, *flags, code=int(conditions is FAILING))
    for condition, line in zip(conditions, out.splitlines()[-len(conditions) :], strict=True):
        assert (
            line.strip()
            .removeprefix("fail-if")
            .strip()
            .startswith(f"{condition}: {'met' if conditions is FAILING else 'not met'}")
        )


def test_an_unclear_change_meets_no_condition(capsys: pytest.CaptureFixture[str]) -> None:
    """Two equal runs pass even a condition that allows no loss at all."""
    same = (str(path("slow")), str(path("again")), "--allow-root")
    compare(capsys, *same, "--fail-if", "change.data_wait > 0%", "--fail-if", "change.goodput < 0%", code=0)


def test_a_condition_without_its_figure_has_no_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *SLOW_MEMORY, "--fail-if", "change.steps_per_s < -5%"]) == 2
    assert capsys.readouterr().err.startswith("unknown: no answer to --fail-if change.steps_per_s < -5%")


def test_the_error_about_a_figure_that_is_not_compared_lists_the_compared_figures(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["compare", *SLOW_MEMORY, "--fail-if", "change.disks.*.r_await > 5%"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("usage: the comparison has no figure 'disks.*.read_await_ms'; it has compute, data_wait, ")
    assert "disks.vda.read_await_ms" in error
    assert "job_disk" not in error


def test_a_condition_about_short_runs_says_that_readings_are_missing(capsys: pytest.CaptureFixture[str]) -> None:
    part = ("--begin", "+10s", "--end", "+18s", "--fail-if", "change.data_wait > 0%")
    assert main(["compare", *SLOW_MEMORY, *part]) == 2
    error = capsys.readouterr().err
    assert error.endswith("change.data_wait > 0%: unknown: change.data_wait has too few readings\n")


def test_a_clear_change_from_0_exceeds_any_limit() -> None:
    name = "change.disks.vda.read_bytes_per_s"
    change = Change(name.removeprefix("change."), "vda: read", "B/s", 0.0, 5e8, Interval(4e8, 6e8))
    found = _figure_values(comparison("slow", "memory")._replace(changes=(change,)), {name: "ratio"})
    run = ConditionOverRun(parse_condition(f"{name} > 50%", {name: "ratio"}))
    outcome = run.outcome(VerdictTotalsBuilder().totals(), found)
    assert outcome_text(outcome) == f"{name} > 50%: met: {name} up from 0"
    assert outcome_object(outcome)["clauses"][0]["value"] is None


def test_the_html_page_is_written_to_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "compare.html"
    assert compare(capsys, *SLOW_MEMORY, *LOGS, "--html", str(out)) == ""
    page = out.read_text()
    assert "1.7x faster" in page
    assert page.count("<script") == 1
    assert 'class="state h-ok">FASTER' in page


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        ((str(path("slow")), "-"), "usage: compare reads each file more than once; save the stream to a file first\n"),
        (
            (*SLOW_MEMORY, "--align", "marks"),
            "usage: the runs have fewer than two marks in common, in the same order; align by job or time\n",
        ),
        ((*SLOW_MEMORY, "--fail-if", "change.x > 3%"), "usage: unknown figure 'x'; iotop-ai help figures lists them\n"),
        (
            (*SLOW_MEMORY, "--fail-if", "change.lost > 5% for 30s"),
            "usage: 'change.lost > 5% for 30s': change.lost has one value for the whole run; omit 'for'\n",
        ),
        ((*SLOW_MEMORY, "--before-steps", "/nonexistent"), "input: /nonexistent: No such file or directory\n"),
    ],
)
def test_an_error_is_one_line(flags: tuple[str, ...], error: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *flags]) == 2
    assert capsys.readouterr().err == error
