"""``diagnose`` on a real job on a slow disk: the table of where the job's time went."""

from __future__ import annotations

import json
import re

import pytest

from iotop_ai.cli.commands.diagnose import _text
from iotop_ai.cli.main import main
from iotop_ai.export.json.diagnosis import Diagnosis
from iotop_ai.model.verdict_class import State
from iotop_ai.model.verdict_totals import VerdictSpan
from tests.diagnosis.build import IDLE, S, play
from tests.job_times import SLOW_DISK

VERDICTS = SLOW_DISK.parents[1] / "verdicts"
OLD = VERDICTS / "storage_read_nw0.iotop.jsonl.gz"
ROW = re.compile(r" {10}(\S.*?) +(<?[\d.]+) % +([\d.]+) s")


def test_the_table_adds_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(SLOW_DISK), "--allow-root"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any(re.fullmatch(r"stall     \d\d % of 4\d s spent waiting for data", line) for line in lines)
    at = next(i for i, line in enumerate(lines) if line.startswith("job "))
    assert re.fullmatch(r"job       trainer\.py \(pid \d+\): watched for \d\d s", lines[at])
    rows = [match.groups() for line in lines[at + 1 :] if (match := ROW.fullmatch(line))]
    assert [name for name, *_ in rows] == ["data: disk", "compute", "unexplained", "data: CPU"]
    assert sum(float(part) for _, part, _ in rows) == pytest.approx(100)
    seconds = [float(value) for *_, value in rows]
    assert seconds == sorted(seconds, reverse=True)
    assert 41 < sum(seconds) < 45


def test_changes_that_are_left_out_are_counted() -> None:
    diagnosis = Diagnosis()
    diagnosis.spans = [VerdictSpan(second * S, "idle", State.CALM, S) for second in range(30)]
    frame = play((IDLE, 1))[-1]
    assert not any(diagnosis.lasts(span.state, span.duration_ns) for span in diagnosis.spans)
    lines = [line for line in _text(diagnosis, frame, 0) if line.startswith("time ")]
    assert (lines[0].split(maxsplit=1)[1], len(lines)) == ("... 10 earlier changes", 21)


def test_each_state_of_a_machine_without_a_job_has_its_own_words() -> None:
    diagnosis = Diagnosis()
    for state in (State.BUSY, State.CALM, State.UNSURE):
        diagnosis.spans.append(VerdictSpan(0, "unknown", state, 20 * S))
    lines = [line for line in _text(diagnosis, play((IDLE, 1))[-1], 0) if line.startswith("time ")]
    assert [line.split(maxsplit=3)[3] for line in lines] == [
        "something is at its limit for 20 s", "nothing is slow for 20 s", "cause not seen for 20 s",
    ]  # fmt: skip


def test_each_of_two_simultaneous_findings_has_its_own_duration(capsys: pytest.CaptureFixture[str]) -> None:
    main(["diagnose", str(VERDICTS / "gpu_throttle_heat.iotop.jsonl.gz"), "--allow-root"])
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("lasted")] == [
        "lasted    44 s", "lasted    46 s, 2 s of it as the verdict",
    ]  # fmt: skip
    assert [line.split(maxsplit=2)[2] for line in lines if line.startswith("time ")] == [
        "OK       GPU-bound for 2 s", "SLOWED   GPU held back for 44 s",
    ]  # fmt: skip


def test_one_job_is_selected_by_its_pid(capsys: pytest.CaptureFixture[str]) -> None:
    main(["diagnose", str(SLOW_DISK), "--allow-root", "--json"])
    (job,) = json.loads(capsys.readouterr().out)["jobs"]
    main(["diagnose", str(SLOW_DISK), "--allow-root", "--json", "--job", str(job["pid"])])
    assert json.loads(capsys.readouterr().out)["jobs"] == [job]


def test_a_recording_without_job_times_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    main(["diagnose", str(OLD), "--allow-root"])
    out = capsys.readouterr().out
    assert re.search(r"^job       trainer\.py \(pid \d+\): the shares of its time are not recorded$", out, re.MULTILINE)
    assert not ROW.search(out)
