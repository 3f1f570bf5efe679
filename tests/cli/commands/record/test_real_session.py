"""A real training on a disk that becomes slow: recorded with its command, then replayed at 80x24 up to the stall.

A DataLoader with two worker processes reads from an ext4 whose disk answers at once in the beginning and later takes 40
ms for each request. torch comes from this Python, else from the Python in IOTOP_AI_TORCH_PYTHON.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from iotop_ai.store.format.codec import VerdictLine
from iotop_ai.store.read.file import FileRecording
from tests.cli.program import PLAIN, TOP, command
from tests.rigs.slowdisk import FuseDisk, why_no_fuse_disk
from tests.rigs.slowdisk.loop import run
from tests.rigs.tmux import Terminal, why_no_tmux
from tests.scenarios.causes import write_files
from tests.scenarios.torch_python import torch_python, why_no_torch

WHY_NOT = why_no_fuse_disk() or why_no_tmux() or why_no_torch()
TRAINER = str(TOP / "tests" / "scenarios" / "torch_train.py")
LONG_S = 120.0
CALM_STEPS, SLOW_S = 200, 12.0

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)]


class Recorded(NamedTuple):
    """A recorded training. device: the disk that becomes slow, at the Unix time slow_at. steps: the trainer's log."""

    path: str
    csv: Path
    device: str
    code: int
    stderr: str
    slow_at: float
    steps: list[dict[str, float]]


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[FuseDisk, Path]]:
    """A disk with a variable latency, and the folder where its filesystem is mounted, which contains files."""
    folder = tmp_path_factory.mktemp("disk")
    data = folder / "data"
    data.mkdir()
    with FuseDisk(folder, 192) as disk:
        run("mkfs.ext4", "-q", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", disk.node)
        run("mount", "-o", "noatime,nodiscard", disk.node, str(data))
        try:
            write_files(data, 8, 16)
            yield disk, data
        finally:
            disk.set()
            run("umount", "-l", str(data))


def started(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command("record", "--no-smart", *arguments), cwd=TOP, env=PLAIN, text=True, stderr=subprocess.PIPE
    )


def until(seen: Callable[[], object], failure: str) -> None:
    end = time.monotonic() + LONG_S
    while not seen():
        assert time.monotonic() < end, failure
        time.sleep(0.2)


def steps(log: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in log.read_text().split("\n")[:-1]] if log.exists() else []


def verdict_lines(path: str) -> list[VerdictLine]:
    return [line for line in FileRecording(path).lines() if isinstance(line, VerdictLine)]


def storage_verdict_times(path: str, device: str) -> list[int]:
    """The times at which the banner blamed this device for a waiting job, in Unix ns."""
    firsts = [(line.wall_ns, line.verdict.primary) for line in verdict_lines(path)]
    return [at for at, first in firsts if first.class_id == "storage_read" and ("device", device) in first.args]


@pytest.fixture(scope="module")
def stall(disk: tuple[FuseDisk, Path], tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Record a training whose disk is fast at first, then slow, until some time after the recorder's verdict."""
    slow, data = disk
    folder = tmp_path_factory.mktemp("session")
    path, csv, log, stop = (folder / name for name in ("run.iotop.jsonl", "disk_io_log.csv", "log", "stop"))
    trainer = [torch_python(), TRAINER, str(data), "--seconds", "300", "--until", str(stop)]
    trainer += ["--log", str(log), "--exit", "3"]
    running = started("-o", str(path), "--csv", str(csv), "--path", str(data), "--", *trainer)
    try:
        until(lambda: len(steps(log)) > CALM_STEPS, "the trainer does not train")
        slow.set(delay_us=40_000)
        slow_at = time.time()
        until(lambda: storage_verdict_times(str(path), slow.name), "no verdict on the slow disk")
        until(lambda: time.time() > slow_at + SLOW_S, "the disk was not slow for long enough")
        stop.touch()
        _, stderr = running.communicate(timeout=LONG_S)
    finally:
        slow.set()
        running.kill()
    return Recorded(str(path), csv, slow.name, running.returncode, stderr, slow_at, steps(log))


def test_the_exit_code_is_kept_and_the_summary_is_printed(stall: Recorded) -> None:
    assert stall.code == 3
    assert "STARVED storage_read" in stall.stderr
    peaks = next(line for line in stall.stderr.splitlines() if "peaks" in line)
    # Another disk of this machine may be slower still.
    assert float(re.search(r"await ([\d.]+) ms", peaks)[1]) > 35  # type: ignore[index]


def test_the_end_of_the_job_is_recorded(stall: Recorded) -> None:
    ends = [event for event in FileRecording(stall.path).events() if event.kind == "process_ended"]
    (trainer,) = [event for event in ends if event.role == "trainer" and "torch_train.py" in event.text]
    assert (trainer.code, trainer.pid) == (3, trainer.job_pid)
    workers = [event for event in ends if event.role == "worker" and event.job_pid == trainer.pid]
    assert len(workers) == 2


def test_a_replay_that_is_stepped_to_the_stall_blames_the_storage(stall: Recorded) -> None:
    stalls = storage_verdict_times(stall.path, stall.device)
    assert stalls
    assert stalls[0] > stall.slow_at * 1e9
    changes = [line.wall_ns for line in verdict_lines(stall.path)]
    with Terminal(80, 24) as terminal:
        program = shlex.join([sys.executable, "-m", "iotop_ai", "replay", "--allow-root", stall.path])
        terminal.type(f"cd {TOP}; {program}; echo rc=$?\n")
        terminal.wait_for("REPLAY paused")
        for wall_ns in changes[1 : changes.index(stalls[0]) + 1]:
            terminal.keys("v")
            terminal.wait_for(f"{time.strftime('%H:%M:%S', time.localtime(wall_ns // 10**9))}  REPLAY paused")
        first, because, *rest = terminal.screen()
        assert first.startswith(" STARVED  torch_train.py waits for data")
        assert f"disk {stall.device}" in because
        assert "r_await" in because
        disks = rest[next(i for i, line in enumerate(rest) if line.startswith("── disk")) :]
        row = next(line for line in disks if line[1:].startswith(f"{stall.device} "))
        assert float(row.split()[5]) > 30
        assert "torch_train.py › 2 workers ›" in "\n".join(rest)
        terminal.keys("q")
        terminal.wait_for("rc=0")


def test_pandas_reads_the_csv_log(stall: Recorded) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    table = pandas.read_csv(stall.csv, parse_dates=["timestamp"])
    assert list(table.columns[:6]) == ["timestamp", "device", "util%", "rkB/s", "wkB/s", "await"]
    assert set(table["device"]) == {stall.device}
    assert str(table["timestamp"].dt.tz) == "UTC"
    slow_at = pandas.Timestamp(stall.slow_at, unit="s", tz="UTC")
    calm = table[table["timestamp"] < slow_at]
    slow = table[(table["timestamp"] > slow_at + pandas.Timedelta(seconds=2))].iloc[:-1]
    assert calm["await"].median() < 10
    assert 35 < slow["await"].median() < 80
    assert slow["util%"].median() > 90


@pytest.mark.parametrize(("ending", "code"), [(0, 0), (signal.SIGTERM, 143), (signal.SIGKILL, 137)])
def test_the_exit_code_of_the_training_passes_through(
    disk: tuple[FuseDisk, Path], tmp_path: Path, ending: int, code: int
) -> None:
    path, log, stop = tmp_path / "run.iotop.jsonl", tmp_path / "log", tmp_path / "stop"
    trainer = [torch_python(), TRAINER, str(disk[1]), "--seconds", "300", "--until", str(stop), "--log", str(log)]
    running = started("-o", str(path), "-d", "0.5", "--", *trainer)
    try:
        until(lambda: len(steps(log)) > 20, "the trainer does not train")
        if ending:
            os.kill(trainer_of(running.pid), ending)
        else:
            stop.touch()
        _, stderr = running.communicate(timeout=LONG_S)
    finally:
        running.kill()
    assert running.returncode == code
    assert "verdicts" in stderr
    ends = [e for e in FileRecording(str(path)).events() if e.role == "trainer" and "torch_train.py" in e.text]
    assert [end.code for end in ends] == [-ending]
    assert FileRecording(str(path)).closed()


def trainer_of(recorder: int) -> int:
    """The pid of the command that the recorder started."""
    children = Path(f"/proc/{recorder}/task/{recorder}/children").read_text().split()
    return next(int(pid) for pid in children if b"torch_train" in Path(f"/proc/{pid}/cmdline").read_bytes())
