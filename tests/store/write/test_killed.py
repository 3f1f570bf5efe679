"""A recorder that is killed at any moment leaves a file that can be opened; at most its last line is cut."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from iotop_ai.pipeline import frames
from iotop_ai.store.read.file import FileRecording
from tests.bench.server import Server

TOP = Path(__file__).resolve().parents[3]
PROCESSES = 1000


def kill_once(path: Path, written: int, after_s: float) -> int:
    """Record, kill the recorder ``after_s`` seconds after ``written`` Snapshots, and return how many the file has."""
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.store.killed", str(path), str(PROCESSES)], cwd=TOP, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"up\n"
    while written and (not path.exists() or path.read_bytes().count(b'{"k":"snap"') < written):
        assert child.poll() is None
        time.sleep(0.005)
    time.sleep(after_s)
    child.kill()
    child.wait()
    child.stdout.close()
    raw = path.read_bytes()
    whole = raw[: raw.rfind(b"\n") + 1]
    for line in whole.splitlines():
        json.loads(line)
    if b'"key":true' not in whole:
        return 0
    shown = list(frames(FileRecording(str(path)).items()))
    server = Server("two", processes=PROCESSES, gpus=1, disks=4, cores=8)
    truth = [server.snapshot() for _ in range(len(shown))]
    assert [frame.snapshot for frame in shown] == truth
    assert len(shown) == whole.count(b'{"k":"snap"')
    return len(shown)


def kill_often(folder: Path, times: int, step: int = 1) -> None:
    """Kill this many recorders, each after ``step`` more Snapshots than the one before it (modulo 10)."""
    pick = random.Random(times)
    counts = [kill_once(folder / f"{i}.iotop.jsonl", i * step % 10, pick.uniform(0.0, 0.1)) for i in range(times)]
    assert max(counts) > 5


def test_a_recorder_killed_three_times_leaves_a_readable_file(tmp_path: Path) -> None:
    kill_often(tmp_path, 3, step=4)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_recorder_killed_two_hundred_times_leaves_a_readable_file(tmp_path: Path) -> None:
    kill_often(tmp_path, 200)
