"""``iotop-ai status``: the line, its fields, the newest state of a recording, and a stream for a status bar."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from iotop_ai.model.errors import UsageError
from iotop_ai.present.verdict.status_line import FIELD_MEANINGS, check_format, default_line, fill_format, status_fields
from tests.cli.forked import Run
from tests.cli.program import PLAIN, TOP, command, iotop, iotop_started
from tests.diagnosis.build import JOB_STARVED, play
from tests.present.make import MIB, Disk, Machine, disk, frame, snapshots
from tests.tui.recorded import record, stalling
from tests.tui.scene import made_frames

STARVED = play((JOB_STARVED, 30))


def test_tmux_does_not_expand_a_host_name() -> None:
    last = STARVED[-1]
    host = last.snapshot.host._replace(name="a#[fg=red]#{pid}#(reboot)##b#S c# d#")
    fields = status_fields(last._replace(snapshot=last.snapshot._replace(host=host)))
    assert fields["host"] == "a# [fg=red]# {pid}# (reboot)# # b# S c# d# "
    assert fill_format("#[fg={colour}]{host}", fields).startswith("#[fg=red]a# [")


def test_a_starved_machine_has_its_line() -> None:
    fields = status_fields(STARVED[-1])
    assert set(fields) == set(FIELD_MEANINGS)
    line = default_line(fields)
    assert len(line) <= 80
    assert re.match(r"STARVED \d+% slow disk \| ", line), line
    assert re.search(r" \| \S+ \d+(\.\d)? MB/s \d+ ms 100% \| 8 GPUs 22% \| CPU ", line), line
    assert fields["colour"] == "red"


@pytest.mark.parametrize(("gpus", "words"), [((0.18,), "| GPU 18% |"), ((0.18, 0.0, 0.0, 0.02), "| 4 GPUs 5% |")])
def test_the_line_shows_how_many_gpus_its_mean_covers(gpus: tuple[float, ...], words: str) -> None:
    assert words in default_line(status_fields(play((replace(JOB_STARVED, gpus=gpus), 2))[-1]))


def test_before_the_first_window_no_state_is_claimed() -> None:
    fields = status_fields(made_frames(3)[-1])
    assert (fields["state"], fields["lost"], fields["gpu"]) == ("measuring", "", "")
    assert fields["colour"] == "default"
    assert default_line(fields).startswith("measuring | sda ")


def test_an_unknown_latency_is_printed_as_unknown() -> None:
    assert status_fields(made_frames(1)[-1])["await"] == "? ms"


def test_a_latency_below_the_kernels_millisecond_is_not_printed_as_0() -> None:
    drive = Disk(disk("nvme0n1"), reads=40, read_bytes=MIB, read_await=0.01)
    assert status_fields(frame(snapshots(lambda second: Machine((drive,)), 5)))["await"] == "<0.1 ms"


def test_a_disk_is_at_most_100_percent_busy() -> None:
    """The kernel counts busy time in jiffies, so a short interval may have more busy time than its length."""
    drive = Disk(disk("nvme0n1"), reads=40, read_bytes=MIB, read_await=1.0, busy=1.02)
    assert status_fields(frame(snapshots(lambda second: Machine((drive,)), 5)))["util"] == "100%"


def test_a_format_contains_fields_and_braces() -> None:
    fields = status_fields(STARVED[-1])
    assert fill_format(check_format("#[fg={colour}]{state}{{x}}"), fields) == "#[fg=red]STARVED{x}"


@pytest.mark.parametrize(
    ("text", "why"), [("{nope}", "no field {nope}; fields: state"), ("{", "a single {"), ("a}", "a single }")]
)
def test_an_invalid_format_is_refused(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=re.escape(why)):
        check_format(text)
    done = iotop("status", "--format", text)
    assert (done.returncode, done.stdout) == (2, "")


def test_one_line_is_printed_for_this_machine() -> None:
    done = iotop_started("status", "-d", "0.2")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r".*CPU \d+% MEM (<1|\d+)%\n", done.stdout)


def test_the_newest_state_of_a_recording_is_printed(tmp_path: Path) -> None:
    path = record(tmp_path / "a.iotop.jsonl", stalling(95, (70, 100)))
    done = iotop("status", path, "--allow-root", "--format", "{state} {disk}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "STARVED sda\n", "")
    refused = iotop("status", path, "--allow-root", "--follow")
    assert refused.stderr.startswith("usage: --follow and --duration watch this machine")


def test_a_line_is_printed_each_interval_until_a_signal() -> None:
    process = subprocess.Popen(
        command("status", "--follow", "-d", "0.2", "--format", "{time}"),
        stdout=subprocess.PIPE, text=True, cwd=TOP, env=PLAIN,
    )  # fmt: skip
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(3)]
    assert all(re.fullmatch(r"\d\d:\d\d:\d\d\n", line) for line in lines)
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(20) == 0
    process.stdout.close()


def test_a_process_that_is_not_part_of_a_job_is_refused(tmp_path: Path) -> None:
    done = iotop("status", "-d", "0.2", "--job", "1")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("usage: process 1 is not part of a training job")
    path = record(tmp_path / "a.iotop.jsonl", STARVED)
    unknown = iotop("status", path, "--allow-root", "--job", "4194303")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert re.search(r"process 4194303 is not part of a training job; jobs: \d+ \(", unknown.stderr)


def test_a_stream_has_question_marks_while_the_job_is_not_found() -> None:
    process = Run(("status", "--follow", "-d", "0.2", "--job", "1", "--format", "{state}{job}"), PLAIN)
    assert process.stdout.readline() == "??\n"
    process.terminate()
    process.wait(20)
    process.stdout.close()


def test_the_status_of_a_recording_is_that_of_the_selected_disk(tmp_path: Path) -> None:
    path = record(tmp_path / "a.iotop.jsonl", stalling(95, (70, 100)))
    words = ("status", path, "--allow-root", "--format", "{disk}")
    assert iotop(*words, "--device", "sdb").stdout == "sdb\n"
    refused = iotop(*words, "--device", "nosuch")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("usage: no device 'nosuch'; devices: ")
    assert iotop(*words, "--path", "/").stderr.startswith("usage: --path is a folder of this machine")


def test_a_process_that_does_not_exist_is_refused() -> None:
    done = iotop("status", "-d", "0.2", "--job", "4194303")
    assert (done.returncode, done.stderr) == (2, "usage: --job 4194303: no such process\n")
