"""``report``, ``compare`` and ``diagnose`` are about one job, of two jobs of a recording."""

from __future__ import annotations

import json
from typing import Any

import pytest

from iotop_ai.cli.main import main
from tests.two_jobs import COMPUTES, STALLS, one_after_the_other, side_by_side


def printed(capsys: pytest.CaptureFixture[str], command: str, *words: str) -> str:
    main([command, *words, "--allow-root"])
    return capsys.readouterr().out


def printed_json(capsys: pytest.CaptureFixture[str], command: str, *words: str) -> dict[str, Any]:
    answer = json.loads(printed(capsys, command, *words, "--json"))
    assert isinstance(answer, dict)
    return answer


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A recording of both jobs at the same time."""
    return side_by_side(tmp_path_factory.mktemp("both") / "run.iotop.jsonl")


@pytest.fixture(scope="module")
def one_by_one(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, str]:
    """Recordings of one job after the other, by whether the job that loses time is the first."""
    folder = tmp_path_factory.mktemp("one_by_one")
    return {first: one_after_the_other(folder / f"{first}.iotop.jsonl", stalls_first=first) for first in (True, False)}


def test_a_comparison_is_about_the_two_selected_jobs(both: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = (both, both, "--before-job", str(STALLS), "--after-job", str(COMPUTES))
    assert [run["job"] for run in printed_json(capsys, "compare", *words)["runs"]] == [STALLS, COMPUTES]
    assert "computes for more of its time, 29 % -> 100 %" in printed(capsys, "compare", *words).splitlines()[0]


@pytest.mark.parametrize("pid", ["0", "-3", "x", "4294967296"])
def test_compare_refuses_an_invalid_pid(pid: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "a", "b", "--before-job", pid]) == 2
    assert capsys.readouterr().err.startswith(f"usage: argument --before-job: '{pid}' is not a process id")


@pytest.mark.parametrize(("pid", "compute"), [(STALLS, "compute 29 %"), (COMPUTES, "compute 100 %")])
def test_all_of_a_report_is_about_the_selected_job(
    pid: int, compute: str, both: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert printed_json(capsys, "report", both, "--job", str(pid))["main_job"] == pid
    lines = printed(capsys, "report", both, "--job", str(pid)).splitlines()
    (spent,) = (line for line in lines if line.startswith("time      "))
    assert compute in spent


@pytest.mark.parametrize("stalls_first", [True, False])
@pytest.mark.parametrize(("pid", "stall"), [(STALLS, 0.67), (COMPUTES, 0.0)])
def test_only_the_lifetime_of_the_selected_job_is_judged(
    pid: int, stall: float, *, stalls_first: bool, one_by_one: dict[bool, str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = one_by_one[stalls_first]
    report, diagnosis = (
        printed_json(capsys, "report", path, "--job", str(pid)),
        printed_json(capsys, "diagnose", path, "--job", str(pid)),
    )
    for one in (report, diagnosis):
        assert one["data_stall_ratio"] == pytest.approx(stall, abs=0.005)
    assert report["timeline"] == diagnosis["timeline"]
    assert [one["class"] for one in report["findings"]] == [one["class"] for one in diagnosis["findings"]]
    assert ("storage_read", str(pid)) == (report["findings"][0]["class"], report["findings"][0]["subject"]) or not stall
    assert str(STALLS + COMPUTES - pid) not in {one["subject"] for one in report["findings"]}
    assert [one["pid"] for one in diagnosis["jobs"]] == [pid]
    # A report also shows how the other job spent its time.
    stalls = {one["pid"]: one["data_stall_ratio"] for one in report["jobs"]}
    assert stalls == {STALLS: pytest.approx(0.67, abs=0.005), COMPUTES: 0.0}


@pytest.mark.parametrize("stalls_first", [True, False])
def test_without_a_selection_all_figures_are_those_of_the_job_of_the_verdict(
    *, stalls_first: bool, one_by_one: dict[bool, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The verdict is the loss of one job; the other one holds as many GPUs, and is the last one."""
    path = one_by_one[stalls_first]
    report, diagnosis = printed_json(capsys, "report", path), printed_json(capsys, "diagnose", path)
    assert report["main_job"] == STALLS
    assert [one["data_stall_ratio"] for one in (report, diagnosis)] == pytest.approx([0.67, 0.67], abs=0.005)
    lines = printed(capsys, "report", path).splitlines()
    sentence = report["findings"][0]["sentence"]
    assert sentence.startswith("trainer.py: the GPU waits for data 6")
    assert f"STARVED   {sentence}" in lines
    assert any(line.startswith("time      trainer.py: data disk 6") for line in lines)
    assert f"STARVED   {sentence}; confidence high" in printed(capsys, "diagnose", path)
    assert main(["diagnose", path, "--fail-if", "data_wait > 60%", "--allow-root"]) == 1
    assert main(["report", path, "--fail-if", "goodput > 50%", "--allow-root"]) == 0
