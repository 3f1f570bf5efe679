"""``report`` on a real run: the text, Markdown, JSON and HTML agree with each other."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from iotop_ai.cli.main import main
from tests.cli.program import iotop_here
from tests.job_times import SLOW_DISK, slow_disk
from tests.tui.recorded import record

FILE = (str(SLOW_DISK), "--allow-root")
VERDICTS = SLOW_DISK.parents[1] / "verdicts"


def report(capsys: pytest.CaptureFixture[str], *flags: str, code: int = 0) -> str:
    assert main(["report", *flags]) == code
    out, err = capsys.readouterr()
    assert err == "" or code == 2
    return out


@pytest.fixture(scope="module")
def report_json() -> str:
    """The report as JSON."""
    return iotop_here("report", *FILE, "--json").stdout


def test_the_text_has_every_section(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    out = report(capsys, *FILE, "--gpu-hour-price", "$2.50")
    lines = out.splitlines()
    assert lines[1].startswith("STARVED   the GPU waits for data ")
    assert any(line.startswith("time      trainer.py: data disk 67 %, compute 29 %") for line in lines)
    (paid,) = (line for line in lines if line.startswith("GPU time  "))
    assert paid == "GPU time  67 % of 43 s of GPU time lost: 29 s of GPU time, $0.02 of $0.03; 4 % is unexplained"
    assert "GPU busy, %, mean, by seconds since the start" in out
    assert "loop0 r_await, ms" in out
    assert max(map(len, [line for line in lines if "│" in line])) <= 100
    disks = lines[lines.index("Disks") + 1 : lines.index("Disks") + 4]
    assert disks[0].split()[0] == "disk"
    assert {row.split()[0] for row in disks[1:]} == {"loop0", "vda"}
    for title in ("Jobs", "GPUs", "Processes", "Machine"):
        assert title in lines


def test_the_flag_and_the_setting_for_ascii_give_a_report_in_ascii(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not report(capsys, *FILE).isascii()
    assert report(capsys, *FILE, "--ascii").isascii()
    monkeypatch.setenv("IOTOP_AI_ASCII", "1")
    assert report(capsys, *FILE).isascii()


def test_a_long_reason_is_wrapped_at_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = report(capsys, str(VERDICTS / "failing_disk.iotop.jsonl.gz"), "--allow-root").splitlines()
    table = lines[lines.index("Disk health (SMART)") : lines.index("Machine")]
    assert max(map(len, table)) <= 80
    assert "nvme1n1  FAILING   the disk itself says that it is failing; spare           84 C" in table
    assert "                   blocks are below the threshold; reliability is" in table
    (bar,) = [line for line in lines if line.startswith("verdicts ")]
    assert 0.18 * 70 < bar.count("·") < 0.28 * 70, "9 of 40 s have no verdict"
    assert any(line.startswith("disks") and line.endswith("1, and SMART of 2 more") for line in lines)


def test_a_program_whose_figures_are_all_0_has_no_row(capsys: pytest.CaptureFixture[str]) -> None:
    out = report(capsys, str(VERDICTS / "gpu_throttle_heat.iotop.jsonl.gz"), "--allow-root")
    assert "pt_data_worker" in out
    assert "kdamond" not in out


def test_every_row_of_a_markdown_table_has_the_same_number_of_cells(capsys: pytest.CaptureFixture[str]) -> None:
    out = report(capsys, *FILE, "--markdown")
    assert out == report(capsys, *FILE, "--md")
    assert out.startswith("# ")
    assert "**STARVED**: the GPU waits for data" in out
    for block in re.findall(r"(?:^\|.*\n)+", out, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1


def test_the_json_has_every_section(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(report(capsys, *FILE, "--json", "--gpu-hour-price", "2.50 EUR"))
    assert (found["shape"], found["verdict"], found["state"]) == (1, "storage_read", "STARVED")
    (job,) = found["jobs"]
    assert sum(job["time"].values()) == pytest.approx(1, abs=1e-4)
    assert job["gpu_hours_lost"] == found["gpu_hours_lost"] == pytest.approx(28.8 / 3600, rel=0.01)
    assert found["cost_lost"] == pytest.approx(2.5 * found["gpu_hours_lost"], abs=1e-4)
    assert found["price"] == {"of_gpu_hour": 2.5, "currency": "EUR"}
    assert found["main_job"] == job["pid"]
    lengths = {len(curve["values"]) for curve in found["curves"].values()}
    assert lengths == {len(curve["values"]) for curve in job["curves"].values()} == {45}


def test_json_agrees_with_diagnose(report_json: str, capsys: pytest.CaptureFixture[str]) -> None:
    reported = json.loads(report_json)
    main(["diagnose", *FILE, "--json"])
    diagnosis = json.loads(capsys.readouterr().out)
    assert reported["timeline"] == diagnosis["timeline"]
    assert reported["data_stall_ratio"] == diagnosis["data_stall_ratio"]
    assert reported["jobs"][0]["time_s"] == diagnosis["jobs"][0]["time_s"]
    assert [one["class"] for one in reported["findings"]] == [one["class"] for one in diagnosis["findings"]]


def test_the_report_is_about_the_selected_job(report_json: str, capsys: pytest.CaptureFixture[str]) -> None:
    pid = json.loads(report_json)["main_job"]
    assert report(capsys, *FILE, "--job", str(pid)) == report(capsys, *FILE)
    assert main(["report", *FILE, "--job", "1"]) == 2
    assert "process 1 is not part of a training job" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("condition", "code"), [("data_wait > 10%", 1), ("data_wait > 90%", 0), ("cpu.busy_ratio > 1 for 1h", 0)]
)
def test_a_condition_decides_the_exit_code(condition: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        report(capsys, *FILE, "--fail-if", condition, code=code).splitlines()[-1].startswith(f"fail-if   {condition}: ")
    )
    (answer,) = json.loads(report(capsys, *FILE, "--json", "--fail-if", condition, code=code))["fail_if"]
    assert answer["met"] is bool(code)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("/nonexistent",), "input: /nonexistent: No such file or directory\n"),
        ((*FILE, "--gpu-hour-price", "much"), "usage: 'much' is not a price; write 2.50, $2.50 or '2.50 EUR'\n"),
        ((*FILE, "--begin", "-1s", "--end", "-3s"), "usage: --end -3s is before --begin -1s\n"),
    ],
)
def test_an_error_is_one_line(words: tuple[str, ...], error: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", *words]) == 2
    assert capsys.readouterr().err == error


def test_a_hostile_name_stays_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The job's name contains Markdown, HTML and the separator of table cells."""
    name = "a|b<script>alert(1)</script>[x](javascript:y)`*"
    hostile = []
    for frame in slow_disk():
        table = frame.snapshot.jobs.value
        assert table is not None
        jobs = {key: job._replace(name=name) for key, job in table.jobs.items()}
        reading = frame.snapshot.jobs._replace(value=table._replace(jobs=jobs))
        hostile.append(frame._replace(snapshot=frame.snapshot._replace(jobs=reading)))
    path = tmp_path / "run.iotop.jsonl"
    record(path, hostile)
    out = report(capsys, str(path), "--allow-root", "--markdown")
    assert "<script" not in out
    assert r"a\|b&lt;script&gt;alert\(1\)" in out
    assert json.loads(report(capsys, str(path), "--allow-root", "--json"))["jobs"][0]["name"] == name


def test_an_html_file_is_complete_and_replaced_only_with_force(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "report.html"
    assert report(capsys, *FILE, "--html", str(out)) == ""
    page = out.read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert page.endswith("</html>\n")
    assert out.stat().st_mode & 0o777 == 0o600
    assert main(["report", *FILE, "--html", str(out)]) == 2
    assert capsys.readouterr().err == f"usage: {out} exists; --force replaces it\n"
    report(capsys, *FILE, "--html", str(out), "--force", "--gpu-hour-price", "$2")
    assert "$0.0" in out.read_text()
    assert report(capsys, *FILE, "--html", "-") == page
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
