"""``why`` and ``diagnose`` as users and scripts run them."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from iotop_ai.cli.commands.common_verdict import SelectedJob, exit_code_of, parse_duration, watch
from iotop_ai.cli.options.common import parse_pid
from iotop_ai.diagnosis.facts.leading_job import job_pid
from iotop_ai.model.errors import UnknownError, UsageError
from iotop_ai.model.finding import Finding, Severity
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.model.verdict_class import State
from iotop_ai.store.source import MemoryRecording
from tests.cli.program import iotop, iotop_started
from tests.diagnosis.build import JOB_STARVED, play
from tests.diagnosis.facts.test_leading_job import LOADERS, PREPARES, two
from tests.tui.recorded import record, stalling
from tests.tui.scene import snapshot


@pytest.fixture(scope="module")
def stalled(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A recording of two minutes during which the disk sda is slow for 30 s."""
    return record(tmp_path_factory.mktemp("why") / "a.iotop.jsonl", stalling())


def test_why_prints_the_words_of_the_banner() -> None:
    done = iotop("why", "--duration", "3", "-d", "0.5", "--no-smart")
    lines = done.stdout.splitlines()
    assert lines[0].split()[0] in tuple(State)
    assert any(line.startswith("path ") for line in lines)
    assert lines[-1].startswith("seen ")
    assert (done.returncode, done.stderr.split()[0]) == (2, "unknown:")
    assert "\x1b" not in done.stdout


def test_why_prints_a_fenced_block_for_markdown() -> None:
    lines = iotop_started("why", "--duration", "1", "-d", "0.2", "--no-smart", "--md").stdout.splitlines()
    assert (lines[0], lines[-1]) == ("```", "```")
    assert len(lines) > 3


def test_why_refuses_a_process_without_a_job() -> None:
    done = iotop("why", "--duration", "1", "-d", "0.2", "--no-smart", "--job", "1")
    assert done.returncode == 2
    assert done.stderr.startswith("usage: process 1 is not part of a training job")
    assert done.stdout == ""


@pytest.mark.parametrize("text", ["0", "x", "-5", "9999999999"])
def test_an_invalid_process_id_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="not a process id"):
        parse_pid(text)


@pytest.mark.parametrize("text", ["0.5", "0", "2d", "x"])
def test_an_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        parse_duration(text)


def test_diagnose_blames_the_largest_loss_of_a_recording(stalled: str) -> None:
    done = iotop("diagnose", stalled, "--allow-root", "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (1, "")
    assert (found["verdict"], found["state"]) == ("storage_read", "STARVED")
    assert [one["state"] for one in found["timeline"]].count("STARVED") == 1
    assert 0 < found["data_stall_ratio"] <= 1


def test_diagnose_reads_a_part_of_a_recording(stalled: str) -> None:
    done = iotop("diagnose", stalled, "--allow-root", "--json", "--end", "+40s")
    assert "storage_read" not in [one["verdict"] for one in json.loads(done.stdout)["timeline"]]
    assert done.returncode in (0, 2)


def test_diagnose_reads_the_last_seconds(stalled: str) -> None:
    done = iotop("diagnose", stalled, "--allow-root", "--json", "--begin", "-20s")
    assert (done.returncode, done.stderr) == (1, "")
    assert json.loads(done.stdout)["verdict"] == "storage_read"


def test_diagnose_prints_text_without_class_ids(stalled: str) -> None:
    done = iotop("diagnose", stalled, "--allow-root")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("STARVED   ")
    assert "storage_read" not in done.stdout
    assert any(line.startswith("because   ") for line in lines)
    assert [line for line in lines if line.startswith("time ") and "STARVED  slow disk for " in line]


def test_diagnose_refuses_unreadable_files_and_wrong_flags_in_one_line(tmp_path: Path) -> None:
    text = tmp_path / "hello.txt"
    text.write_text("hello\n")
    for arguments, word in (
        ((str(text), "--allow-root"), "input:"),
        ((str(tmp_path / "absent"), "--allow-root"), "input:"),
        ((str(text), "--allow-root", "--duration", "5"), "usage:"),
        (("--begin", "+3m", "--no-smart"), "usage:"),
    ):
        done = iotop("diagnose", *arguments)
        assert (done.returncode, done.stderr.split()[0], done.stderr.count("\n")) == (2, word, 1), arguments
        assert done.stdout == ""


def test_why_and_diagnose_do_not_load_textual() -> None:
    code = (
        "import sys; import iotop_ai.cli.commands.why, iotop_ai.cli.commands.diagnose; "
        "sys.exit('textual' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("class_id", "severity", "code"),
    [
        ("storage_read", Severity.WARNING, 1),
        ("comm_wait", Severity.CRITICAL, 1),
        ("failing_disk", Severity.WARNING, 1),
        ("no_gpu", Severity.WARNING, 1),
        ("no_gpu", Severity.INFO, 0),
        ("pcie", Severity.INFO, 0),
        ("healthy", Severity.INFO, 0),
        ("idle", Severity.INFO, 0),
    ],
)
def test_each_kind_of_finding_has_its_exit_code(class_id: str, severity: Severity, code: int) -> None:
    assert exit_code_of(Finding(class_id, severity, 0.9)) == code


@pytest.mark.parametrize("state", ["CALM", "BUSY"])
def test_a_machine_without_a_job_gives_exit_code_0(state: str) -> None:
    assert exit_code_of(Finding("unknown", Severity.INFO, 0.0, args=(("state", state),))) == 0


@pytest.mark.parametrize("class_id", ["unknown", "starting", None])
def test_an_unknown_verdict_is_an_error(class_id: str | None) -> None:
    with pytest.raises(UnknownError):
        exit_code_of(None if class_id is None else Finding(class_id, Severity.INFO, 0.0))


def snapshots_of(count: int) -> Iterable[Snapshot]:
    return (snapshot(n) for n in range(count))


def test_the_machine_is_watched_for_exactly_the_given_time() -> None:
    source = MemoryRecording(snapshots_of(100))
    last = watch(source, 12.0, SelectedJob(0))
    assert last is not None
    assert last.verdict.watched_s == 12.0


def test_the_machine_is_watched_for_up_to_a_minute_while_unsure() -> None:
    unsure = [snapshot(0)._replace(seq=n, at_ns=(5000 + n) * 10**9, wall_ns=n * 10**9) for n in range(100)]
    last = watch(MemoryRecording(unsure), None, SelectedJob(0))
    assert last is not None
    assert last.verdict.watched_s == 60.0
    sure = watch(MemoryRecording(snapshots_of(100)), None, SelectedJob(0))
    assert sure is not None
    assert sure.verdict.watched_s == 15.0


def test_with_a_long_interval_the_machine_is_watched_until_the_first_window_is_full() -> None:
    every_8_s = [snapshot(8 * n)._replace(seq=n, interval_s=8.0) for n in range(20)]
    last = watch(MemoryRecording(every_8_s), None, SelectedJob(0))
    assert last is not None
    assert not last.verdict.measuring
    limited = watch(MemoryRecording(every_8_s), 15.0, SelectedJob(0))
    assert limited is not None
    assert limited.verdict.measuring


def test_an_unknown_job_is_refused_with_a_list_of_the_known_ones() -> None:
    job = SelectedJob(77)
    job.judge(play((JOB_STARVED, 3))[-1])
    with pytest.raises(UsageError, match=r"process 77 is not part of a training job; jobs: \d+ \(train.py of "):
        job.check()


def test_a_process_that_does_not_exist_is_refused_at_once() -> None:
    for words in (("why",), ("diagnose",), ("-b",), ("--once", "--json")):
        done = iotop(*words, "--no-smart", "--job", "4194303")
        assert (done.returncode, done.stdout) == (2, ""), words
        assert done.stderr == "usage: --job 4194303: no such process\n"


def test_the_verdict_of_one_job_has_no_finding_about_another() -> None:
    frame = two(JOB_STARVED, replace(PREPARES, stall=0.95))
    assert {job_pid(one) for one in frame.verdict.findings} >= {50, 500}
    selected = SelectedJob(LOADERS[0].pid)
    found = selected.judge(frame).verdict
    assert found.primary.class_id == "cpu_prep"
    assert 50 not in {job_pid(one) for one in found.findings}


def test_a_job_stays_selected_when_the_named_worker_has_ended() -> None:
    frame = two(JOB_STARVED, replace(PREPARES, stall=0.95))
    selected = SelectedJob(LOADERS[0].pid)
    selected.judge(frame)
    table = frame.snapshot.jobs.value
    assert table is not None
    left = {
        key: job._replace(ranks=tuple(rank._replace(workers=rank.workers[1:]) for rank in job.ranks))
        for key, job in table.jobs.items()
    }
    jobs = frame.snapshot.jobs._replace(value=table._replace(jobs=left))
    later = frame._replace(snapshot=frame.snapshot._replace(jobs=jobs))
    assert LOADERS[0] not in {key for job in left.values() for key in job.members}
    judged = selected.judge(later)
    assert judged.verdict.primary.class_id == "cpu_prep"
    assert selected.frame_about_job(judged) is judged
