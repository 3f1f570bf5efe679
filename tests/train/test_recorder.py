"""The pipes of a training process to its recorder, the awaited answers, and the reason why the recorder ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from iotop_ai.train import monitor
from iotop_ai.train.monitor import Monitor, MonitorWarning
from iotop_ai.train.recorder import Recorder
from iotop_ai.train.steps import Message, StepCounter
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("marks")  # the group is shared because a mark reaches every monitor of the user


@pytest.fixture(autouse=True)
def own_runtime_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.delenv("IOTOP_AI_SOCKET", raising=False)


def test_files_that_reuse_the_descriptors_of_the_pipes_are_not_touched(tmp_path: Path) -> None:
    # A grandchild has the outputs open after the recorder's end.
    recorder = Recorder(["/bin/sh", "-c", "sleep 3 &"])
    numbers = {recorder._in, recorder._out, recorder._stderr}
    assert recorder.end(0.2) == 0
    opened: list[int] = []
    try:
        while not numbers <= {*opened}:
            opened.append(os.open(tmp_path / str(len(opened)), os.O_RDWR | os.O_CREAT))
            os.pwrite(opened[-1], b"mine\n", 0)
        recorder.send({"kind": "mark", "text": "epoch 1"})
        recorder.poll()
        assert {(os.lseek(one, 0, os.SEEK_CUR), os.pread(one, 99, 0)) for one in opened} == {(0, b"mine\n")}
    finally:
        for one in opened:
            os.close(one)


INCOMPLETE = """
import sys
print('{"kind":"ready"}', flush=True)
sys.stdin.readline()
sys.stdin.readline()
print('{"kind":"stat')
print('{"kind":"status","number":2}', flush=True)
for number, _ in enumerate(sys.stdin, 3):
    print('{"kind":"status","number":%d}' % number, flush=True)
"""


def test_more_requests_are_sent_after_an_incomplete_answer() -> None:
    recorder = Recorder([sys.executable, "-c", INCOMPLETE])

    def polled(number: int) -> bool:
        recorder.poll()
        return recorder.ready if number == 0 else bool(recorder.status.get("number", 0) >= number)

    try:
        until(lambda: polled(0), "the first question")
        recorder.ask(0)
        until(lambda: polled(4), "an answer to the fourth question", 10)
    finally:
        recorder.end(5)


def made_recorder(folder: Path, body: str) -> str:
    """The path of a program that is ready at once and then runs this shell text."""
    path = folder / "iotop-ai"
    path.write_text(f'#!/bin/sh\necho \'{{"kind": "ready"}}\'\n{body}\n')
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("end", "error"),
    [
        ("kill -9 $$", "the recorder was ended by SIGKILL"),
        ("exit 0", "the recorder has ended"),
        ("exit 3", "the recorder ended with exit code 3"),
        ("echo 'input: x: No space left' >&2; echo 'record: recording again' >&2; exit 2", "input: x: No space left"),
        ("echo 'sh: python: not found' >&2; exit 127", "sh: python: not found"),
    ],
)
def test_the_error_is_not_a_remark_of_the_recorder(tmp_path: Path, end: str, error: str) -> None:
    recorder = made_recorder(tmp_path, f"echo 'record: to x.iotop.jsonl' >&2\nread -r line\n{end}")
    m = Monitor(tmp_path / "x.iotop.jsonl", program=recorder)
    m.start()
    with pytest.warns(MonitorWarning):
        m.verdict(wait=60)
    m.stop()
    assert m.error == error


BROKEN_PIPE = """
import os, signal, sys
from iotop_ai.train.recorder import Recorder

signal.signal(signal.SIGPIPE, getattr(signal, sys.argv[1]))
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGPIPE] if sys.argv[2] == "blocked" else [])
recorder = Recorder(["/bin/true"])
recorder._child.wait()
if sys.argv[3] == "pending":
    os.kill(os.getpid(), signal.SIGPIPE)
for _ in range(2):
    recorder.send({"kind": "mark", "text": "epoch 1"})
print(signal.SIGPIPE in signal.pthread_sigmask(signal.SIG_BLOCK, []), signal.SIGPIPE in signal.sigpending())
"""
"""Sends to an ended recorder, and prints whether SIGPIPE is blocked and whether it is pending."""


@pytest.mark.parametrize(
    ("handler", "before", "pending", "after"),
    [
        ("SIG_DFL", "open", "", "False False"),
        ("SIG_IGN", "open", "", "False False"),
        ("SIG_DFL", "blocked", "", "True False"),
        ("SIG_DFL", "blocked", "pending", "True True"),
    ],
)
def test_a_dead_recorder_does_not_end_a_training_by_sigpipe(
    handler: str, before: str, pending: str, after: str
) -> None:
    """Programs whose output goes into a pipe often set SIGPIPE to its default, which ends the process."""
    argv = [sys.executable, "-c", BROKEN_PIPE, handler, before, pending]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, after, "")


PENDING = """
import os, signal, sys
import iotop_ai

signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
os.kill(os.getpid(), signal.SIGUSR1)
with iotop_ai.Monitor(sys.argv[1], options=["--no-smart"]) as m:
    m.verdict(wait=60)
    lines = open(f"/proc/{m._recorder.pid}/status").read().splitlines()
blocked = int(next(line for line in lines if line.startswith("SigBlk:")).split()[1], 16)
iotop_ai.monitor_disk(1, 1, program_path="/bin/true")
print(blocked >> signal.SIGUSR1 - 1 & 1, signal.SIGUSR1 in signal.sigpending(), m.error)
"""
"""Records while a blocked signal is pending; prints whether the recorder blocks it and whether it is still pending."""


def test_a_pending_signal_that_the_training_collects_later_does_not_end_it(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", PENDING, str(tmp_path / "x.iotop.jsonl")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "0 True", "")


def test_a_recorder_that_cannot_be_killed_does_not_stop_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitor, "END_S", 0.1)
    m = Monitor(tmp_path / "x.iotop.jsonl", program=made_recorder(tmp_path, "exec sleep 20"))
    m.start()
    assert m._recorder is not None
    child = m._recorder._child
    for method in ("terminate", "kill"):  # a process in state D ends only after its disk has answered
        monkeypatch.setattr(child, method, lambda: None)
    begun = time.monotonic()
    with pytest.warns(MonitorWarning, match=f"the recorder, pid {child.pid}, has not ended after SIGKILL"):
        m.stop()
    assert time.monotonic() - begun < 15
    os.kill(child.pid, signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL


HANDLER = """
import os, signal, sys
from iotop_ai import Monitor
from iotop_ai.train.recorder import Recorder

def stop(*_):
    print(m.verdict(wait=600))
    m.stop()
    print(all(map(is_open, pipes)))

def is_open(pipe):
    return os.path.exists(f"/proc/self/fd/{pipe}")

def interrupted(recorder, line):
    signal.raise_signal(signal.SIGTERM)
    handle_line(recorder, line)

handle_line, Recorder._handle_line = Recorder._handle_line, interrupted
signal.signal(signal.SIGTERM, stop)
m = Monitor(sys.argv[1], program=sys.argv[2])
m.start()
pipes = m._recorder._out, m._recorder._stderr
print(m.verdict(wait=600))
print(any(map(is_open, pipes)), repr(m.error))
"""
"""Asks and stops in a signal handler that interrupts a reading; prints the verdicts, and whether the pipes are open."""


def test_a_signal_handler_stops_the_recorder_in_the_middle_of_a_reading(tmp_path: Path) -> None:
    program = made_recorder(tmp_path, "while read -r line; do case $line in *end*) exit 0;; esac; done")
    argv = [sys.executable, "-c", HANDLER, str(tmp_path / "x.iotop.jsonl"), program]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout.split("\n"), done.stderr) == (["None", "True", "None", "False ''", ""], "")


def test_the_end_of_a_recording_is_not_an_error_for_a_thread_that_waits(tmp_path: Path) -> None:
    mute = made_recorder(tmp_path, "while read -r line; do case $line in *end*) exit 0;; esac; done")
    m = Monitor(tmp_path / "x.iotop.jsonl", program=mute)
    m.start()
    recorder = m._recorder
    assert recorder is not None
    thread = threading.Thread(target=m.verdict, args=(60,))
    thread.start()
    until(lambda: recorder._requests > 0, "the question")
    m.stop()
    thread.join(60)
    assert (m.error, thread.is_alive()) == ("", False)


def test_a_broadcast_reaches_every_recording_although_one_ends_meanwhile() -> None:
    counter, got = StepCounter(), []

    def end(message: Message) -> None:
        got.append("first")
        counter.listeners.remove(end)

    counter.listeners += [end, lambda message: got.append("second")]
    counter.broadcast({"kind": "mark", "text": "epoch 1"})
    assert got == ["first", "second"]
