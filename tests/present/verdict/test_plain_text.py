"""The verdict as text to paste: the whole sentences of the banner, and the path."""

from __future__ import annotations

from dataclasses import replace

from iotop_ai.model.machine.filesystem import FilesystemUsage
from iotop_ai.present.screen.view import View
from iotop_ai.present.verdict.plain_text import code_block, verdict_block
from tests.diagnosis.build import GIB, IDLE, JOB_ALONE, JOB_STARVED, play
from tests.diagnosis.gpu_scenes import GPU_SCENES
from tests.present.verdict.test_headline import DYING

UTC = View(utc_offset_s=0)


def test_a_starved_job_has_every_line() -> None:
    assert verdict_block(play((JOB_STARVED, 15))[-1], UTC) == [
        "STARVED   8 of 8 GPUs wait for data 78 % of the time; 6.2 GPU-h lost/h",
        "because   disk sda 88 MB/s, r_await 87 ms (typical <= 1.3); 8 workers blocked 97 %",
        "not       the CPU: workers compute in 3 % of the wait; a limit: its cgroup limits no I/O;"
        " the network: /data is local; GPU-bound: GPU 22 % busy",
        "do        give the GPUs the ~399 MB/s they ask for: sda gives 88 MB/s",
        "path      alice train.py > 8 workers > /data ext4 > sda",
        "workers   BLOCKED 97 % run 1 cpu-wait 0 idle 2 %",
        "seen      h, job 50 of alice, 1970-01-01 00:00:14, watched 14 s, confidence high",
    ]


def test_every_further_finding_has_a_line_and_a_failing_disk_comes_first() -> None:
    full = FilesystemUsage(100 * GIB, GIB // 2, GIB // 2, 0, 0)
    usage = {f"/mnt/{letter}": full for letter in "abc"}
    machine = replace(GPU_SCENES["gpu_throttle"], smart=(DYING,), usage=usage)
    lines = verdict_block(play((machine, 15))[-1], UTC)
    assert [line for line in lines if line.startswith("and")] == [
        "and       sda is FAILING: 312 reallocated sectors, 2 pending",
        "and       /mnt/a is full",
        "and       /mnt/b is full",
    ]


def test_without_a_job_there_is_no_line_about_one() -> None:
    lines = verdict_block(play((IDLE, 40))[-1], UTC)
    assert lines[0] == "CALM      no training job seen"
    assert not any(line.startswith("workers") for line in lines)
    assert lines[-1] == "seen      h, 1970-01-01 00:00:39, watched 39 s, confidence medium"


def test_the_text_has_no_command_line_and_only_ascii() -> None:
    text = "\n".join(verdict_block(play((JOB_ALONE, 15))[-1], UTC))
    assert text.isascii()
    assert "python" not in text


def test_a_fence_is_longer_than_any_in_its_content() -> None:
    assert code_block(["a", "b"]) == ["```", "a", "b", "```"]
    assert code_block(["x ```` y"])[0] == "`````"
