"""The line that ``why --stack`` prints: for a real trainer's process, and where no stack is known."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from iotop_ai.cli.commands.why import code_line
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.process.python_code import py_spy_path
from iotop_ai.model.frame import Frame
from iotop_ai.model.process.records import ProcessKey
from tests.diagnosis.build import JOB_STARVED, play
from tests.tui.scene import made_frames

TRAINER = """\
import time
def next_batch():
    time.sleep(600)
print("ready", flush=True)
next_batch()
"""


def with_trainer(frame: Frame, pid: int) -> Frame:
    """The Frame, with the first rank of each job changed to this pid, which is a process of our own user."""
    table = frame.snapshot.jobs.value
    assert table is not None
    jobs = {
        key: job._replace(ranks=(job.ranks[0]._replace(key=ProcessKey(pid, 1)), *job.ranks[1:]), uid=os.geteuid())
        for key, job in table.jobs.items()
    }
    reading = frame.snapshot.jobs._replace(value=table._replace(jobs=jobs))
    return frame._replace(snapshot=frame.snapshot._replace(jobs=reading))


def starved() -> Frame:
    return play((JOB_STARVED, 30))[-1]


@pytest.mark.skipif(not py_spy_path(), reason="needs py-spy")
def test_the_line_has_the_stack_of_the_trainer(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINER)
    child = subprocess.Popen([sys.executable, str(tmp_path / "train.py")], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        child.stdout.readline()
        text = code_line(Root(), with_trainer(starved(), child.pid))
    finally:
        child.kill()
        child.communicate()
    assert text.startswith("code      ")
    assert "samples in train.py:3, time.sleep(600)" in text


def test_without_a_job_or_a_process_there_is_no_stack() -> None:
    assert code_line(Root(), made_frames(3)[-1]) == "code      unknown: no training job is seen"
    ended = subprocess.Popen(["true"])
    ended.wait()
    text = code_line(Root(), with_trainer(starved(), ended.pid))
    assert text.startswith("code      unknown: ")
    assert "ended" in text or "py-spy is not installed" in text
