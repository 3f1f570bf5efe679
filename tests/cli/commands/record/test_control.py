"""``record --control``: requests on standard input, answers on standard output, and the end when the input closes."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from iotop_ai.export.tables.recording import Recording
from tests.cli.program import PLAIN, TOP, command, iotop

pytestmark = pytest.mark.xdist_group("marks")  # the group is shared because a mark reaches every monitor of the user


class Running:
    """A running ``record --control``."""

    def __init__(self, path: Path) -> None:
        self._child = subprocess.Popen(
            command("record", "--control", "-d", "0.2", "--no-smart", "-o", str(path)),
            cwd=TOP, env={**PLAIN, "XDG_RUNTIME_DIR": str(path.parent)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.ready = self.answer()

    def say(self, *lines: bytes) -> None:
        pipe: IO[bytes] = self._child.stdin  # type: ignore[assignment]
        pipe.write(b"".join(line + b"\n" for line in lines))
        pipe.flush()

    def answer(self) -> dict[str, Any]:
        assert self._child.stdout is not None
        found: dict[str, Any] = json.loads(self._child.stdout.readline())
        return found

    def end(self) -> int:
        assert self._child.stdin is not None
        self._child.stdin.close()
        return self.wait()

    def wait(self) -> int:
        code = self._child.wait(60)
        for pipe in (self._child.stdin, self._child.stdout, self._child.stderr):
            assert pipe is not None
            pipe.close()
        return code


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Running]:
    recording = Running(tmp_path / "run.iotop.jsonl")
    yield recording
    if recording._child.poll() is None:
        recording._child.kill()
        recording.wait()


def test_the_recorder_answers_and_ends_when_its_standard_input_closes(run: Running, tmp_path: Path) -> None:
    assert (run.ready["kind"], run.ready["path"]) == ("ready", str(tmp_path / "run.iotop.jsonl"))
    now = time.monotonic_ns()
    run.say(
        b'{"kind": "mark", "text": "epoch\\u001b 3"}',
        json.dumps({"kind": "steps", "at_ns": now, "steps": 5, "batches": 6, "data_ns": 7}).encode(),
        b'{"kind": "status"}',
    )
    status = run.answer()
    assert (status["kind"], status["verdict"]["state"]) == ("status", "UNSURE")
    assert status["verdict"]["text"]
    assert (status["job"], status["time"]) == (None, None), "the tests were taken for a training job"
    assert run.end() == 0
    recording = Recording(tmp_path / "run.iotop.jsonl", allow_root=True)
    assert [row["text"] for row in recording.marks] == ["epoch\ufffd 3"]
    (row,) = recording.steps
    assert (row["pid"], row["steps"], row["batches"]) == (os.getpid(), 5, 6)


def test_hostile_requests_are_ignored(run: Running, tmp_path: Path) -> None:
    run.say(
        b"\xff", b"[" * 4000, b"{}", b'{"kind": "status", "x": 1}', b'{"kind":"mark","text":"' + b"x" * 9000 + b'"}'
    )
    run.say(b'{"kind": "steps", "at_ns": -1, "batches": 1e400}', b"", b'{"kind": "status"}')
    assert run.answer()["kind"] == "status"
    assert run.end() == 0
    recording = Recording(tmp_path / "run.iotop.jsonl", allow_root=True)
    assert (len(recording.marks), len(recording.steps)) == (0, 0)


def test_the_end_of_the_recording_can_be_requested(run: Running) -> None:
    run.say(b'{"kind": "end"}')
    assert run.answer()["kind"] == "end"
    assert run.wait() == 0


def test_answers_that_are_not_read_do_not_stop_the_recording(run: Running, tmp_path: Path) -> None:
    for _ in range(400):
        run.say(b'{"kind": "status"}')
    run.say(b'{"kind": "mark", "text": "after"}', b'{"kind": "end"}')
    assert run.wait() == 0
    assert [row["text"] for row in Recording(tmp_path / "run.iotop.jsonl", allow_root=True).marks] == ["after"]


LONG_ANSWER = """
import os, sys
from iotop_ai.cli.commands.record.control import Control
from iotop_ai.collectors.io.clock import Clock
reader, writer = os.pipe()
os.dup2(writer, 1)
control = Control(Clock(), dict, lambda: None)
control.write_line("status", text="x" * 200_000)
os.read(reader, 1 << 20)
control.write_line("status", text="next")
sys.stderr.buffer.write(os.read(reader, 1 << 20))
"""


def test_an_answer_after_an_incomplete_one_can_be_read() -> None:
    line = [sys.executable, "-c", LONG_ANSWER]
    done = subprocess.run(line, cwd=TOP, env=PLAIN, stdin=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    assert done.stderr == b'\n{"kind": "status", "text": "next"}\n'


INHERITED = """
import os
from iotop_ai.cli.commands.record.control import Control
from iotop_ai.collectors.io.clock import Clock
control = Control(Clock(), dict, lambda: None)
control.write_line("blocking", streams=[os.get_blocking(1), os.get_blocking(2)])
"""


@pytest.mark.parametrize("make", [os.pipe, pty.openpty])
def test_a_stream_that_is_shared_with_the_starter_stays_blocking(make: Callable[[], tuple[int, int]]) -> None:
    reader, writer = make()
    line = [sys.executable, "-c", INHERITED]
    done = subprocess.run(
        line, cwd=TOP, env=PLAIN, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=writer, check=False
    )
    assert json.loads(done.stdout) == {"kind": "blocking", "streams": [False, False]}
    assert os.get_blocking(writer)
    os.close(reader)
    os.close(writer)


def test_answers_are_appended_if_standard_output_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with path.open("wb") as file:
        file.write(b"before\n")
        file.flush()
        line = [sys.executable, "-c", INHERITED]
        assert subprocess.run(line, cwd=TOP, env=PLAIN, stdin=subprocess.PIPE, stdout=file, check=False).returncode == 0
    assert path.read_bytes().startswith(b'before\n{"kind": "blocking"')


BROKEN_STATUS = """
import os, sys, threading
from iotop_ai.cli.commands.record.control import Control
from iotop_ai.collectors.io.clock import Clock
def status():
    raise ValueError("broken")
ended = threading.Event()
control = Control(Clock(), status, ended.set)
sys.exit(0 if ended.wait(20) else 1)
"""


def test_an_error_in_the_status_does_not_keep_the_recording_from_ending() -> None:
    line = [sys.executable, "-c", BROKEN_STATUS]
    requests = b'{"kind":"status"}\n{"kind":"end"}\n'
    assert subprocess.run(line, cwd=TOP, env=PLAIN, input=requests, check=False).returncode == 0


def test_a_signal_ends_the_recording(run: Running) -> None:
    run._child.send_signal(signal.SIGTERM)
    assert run.wait() == 0


@pytest.mark.parametrize("more", [["-o", "-"], ["--csv", "-"], ["--", "true"]])
def test_standard_streams_can_be_used_only_for_control(more: list[str]) -> None:
    found = iotop("record", "--control", *more)
    assert found.returncode == 2
    assert found.stderr.startswith("usage: --control")
