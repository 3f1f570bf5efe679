"""The real program on real loaders that use the standard library's multiprocessing."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.program import PLAIN
from tests.preflight.loader.sources import LOADERS, TOP, loader_here, processes_in, run_loader, swept_here

QUICK = ("--seconds", "0.5")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(LOADERS)
    return tmp_path


def test_more_workers_give_more_samples(folder: Path) -> None:
    found = swept_here(folder, "mine:make", "--workers", "0,1,4", *QUICK)
    assert found["exit_code"] == 0
    rates = [run["samples_per_s"] for run in found["runs"]]
    assert 40 < rates[0] < 420  # 8 samples take 20 ms, so at most 400 per second are possible
    assert rates[2] > 2 * rates[0]
    assert found["recommended"]["workers"] == 4
    assert found["recommended"]["patch"] == "num_workers=4"
    assert [run["kind"] for run in found["runs"]] == ["iterable"] * 3
    assert all(run["memory_bytes"] > 1 << 20 for run in found["runs"])
    assert processes_in(folder) == []


def test_a_program_that_ended_before_the_first_batch_is_not_a_worker(tmp_path: Path) -> None:
    lines = ("import subprocess", "def make(num_workers):", "    subprocess.run(['sleep', '1'])", "    return busy()",
             "def busy():", "    while True: yield [sum(range(10_000))] * 8")  # fmt: skip
    (tmp_path / "mine.py").write_text("\n".join(lines))
    (run,) = swept_here(tmp_path, "mine:make", "--workers", "0", *QUICK)["runs"]
    assert run["main_cores"] > 0.1
    assert run["worker_cores"] == run["main_cores"]


def test_a_loader_that_runs_only_after_each_batch_is_not_bound_by_the_cpu(tmp_path: Path) -> None:
    """It runs for 4 ms of 104 ms, just after the message with which it reports the batch."""
    lines = ("import time", "def make(num_workers):", "    while True:", "        time.sleep(0.1)",
             "        yield [0] * 8", "        end = time.monotonic() + 0.004",
             "        while time.monotonic() < end: pass")  # fmt: skip
    (tmp_path / "mine.py").write_text("\n".join(lines))
    (run,) = swept_here(tmp_path, "mine:make", "--workers", "0", "--seconds", "3")["runs"]
    assert run["running_ratio"] < 0.3


def test_the_text_has_a_table_a_curve_and_a_reason(folder: Path) -> None:
    done = run_loader(folder, "mine:make", "--workers", "0,1,2", *QUICK)
    assert done.returncode == 0, done.stderr
    assert "samples/s first s CPU/worker disk-wait read memory" in done.stdout
    assert "samples per second, by workers" in done.stdout
    assert "use: num_workers=2" in done.stdout
    assert "the user's own" not in done.stdout


def test_the_patch_is_one_line_of_python(folder: Path) -> None:
    done = loader_here(folder, "mine:make", "--workers", "2", "--patch", *QUICK)
    assert done.stdout == "num_workers=2\n"


def test_a_hang_is_ended_and_located_and_the_sweep_continues(folder: Path) -> None:
    found = swept_here(folder, "mine:hanging", "--workers", "2,0", "--timeout", "3", *QUICK)
    assert found["exit_code"] == 1
    hung, fine = found["runs"]
    assert hung["failure"]["kind"] == "hang"
    assert "mine.py:12 in hang" in hung["failure"]["text"]
    assert fine["samples_per_s"] > 0
    assert found["recommended"]["workers"] == 0
    assert processes_in(folder) == []


def test_a_worker_that_was_killed_is_named(folder: Path) -> None:
    (run,) = swept_here(folder, "mine:dying", "--workers", "1", "--timeout", "3", *QUICK)["runs"]
    assert run["failure"]["kind"] == "killed"
    assert "SIGKILL" in run["failure"]["text"]


def test_each_start_method_is_tried_and_a_pickle_failure_is_named(folder: Path) -> None:
    found = swept_here(folder, "mine:local", "--workers", "1", "--start", "spawn,forkserver", "--timeout", "3", *QUICK)
    assert [run["failure"]["kind"] for run in found["runs"]] == ["pickle", "pickle"]
    found = swept_here(folder, "mine:make", "--workers", "1", "--start", "fork,spawn,forkserver", *QUICK)
    assert found["exit_code"] == 0
    assert [run["start"] for run in found["runs"]] == ["fork", "spawn", "forkserver"]


def test_a_crash_of_the_loader_is_named(folder: Path) -> None:
    (run,) = swept_here(folder, "mine:crashing", "--workers", "1", *QUICK)["runs"]
    assert run["failure"]["kind"] == "crash"
    assert "SIGSEGV while running the factory" in run["failure"]["text"]


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root for a PID namespace")
def test_a_container_may_have_the_program_as_its_first_process(folder: Path) -> None:
    alone = ("unshare", "--pid", "--fork", "--mount-proc")
    done = run_loader(folder, "mine:once", "--workers", "0", *QUICK, before=alone)
    assert done.returncode == 0, done.stdout


def test_a_loader_that_ends_is_measured_to_its_end(folder: Path) -> None:
    (run,) = swept_here(folder, "mine:once", "--workers", "1", *QUICK)["runs"]
    assert run["batches"] == 19
    assert run["samples"] == 19 * 8


@pytest.mark.parametrize(
    ("factory", "text"),
    [
        (
            "number",
            "it returns int; expected a Dataset, or, from a factory that takes num_workers, an iterable",
        ),
        ("nothing", "its loader yields no batch"),
        ("needs", "it needs the argument path, which this configuration does not give"),
        ("missing", "mine has no missing"),
    ],
)
def test_an_object_that_cannot_be_swept_is_refused(folder: Path, factory: str, text: str) -> None:
    done = loader_here(folder, f"mine:{factory}", "--workers", "0,1", *QUICK)
    assert done.returncode == 2
    assert done.stderr == f"unknown: {text}\n"


def test_a_configuration_without_a_batch_does_not_end_the_sweep(folder: Path) -> None:
    arguments = ("mine:full_batches", "--workers", "0", "--batch-size", "256,32")
    done = loader_here(folder, *arguments, *QUICK)
    assert done.returncode == 1
    assert "its loader yields no batch" in done.stdout
    assert "FAILED: empty" in done.stdout
    assert "use: batch_size=32, num_workers=0" in done.stdout
    assert done.stderr == ""
    found = swept_here(folder, *arguments, *QUICK)
    assert [run["failure"] and run["failure"]["kind"] for run in found["runs"]] == ["empty", None]


def test_a_long_error_is_named_by_its_first_line(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def make(num_workers): raise ValueError('too large\\n' + 'advice\\n' * 3000)")
    (run,) = swept_here(tmp_path, "mine:make", "--workers", "0", *QUICK)["runs"]
    assert run["failure"]["text"] == "ValueError: too large (mine.py:1 in make)"


def test_a_module_that_cannot_be_imported_is_reported(folder: Path) -> None:
    done = loader_here(folder, "nowhere:make", "--workers", "0", *QUICK)
    assert done.returncode == 1
    assert "ModuleNotFoundError: No module named 'nowhere'" in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("mine",),
        ("mine:make", "--workers", "x"),
        ("mine:make", "--start", "thread"),
        ("mine:make", "--cold", ""),
        ("../mine:make",),
    ],
)
def test_wrong_usage_is_refused(folder: Path, arguments: tuple[str, ...]) -> None:
    done = loader_here(folder, *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("usage:")
    assert "Traceback" not in done.stderr


def start_sweep(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """Start a sweep with two workers, and return when they run."""
    argv = [sys.executable, "-P", "-m", "iotop_ai", "loader", "--python", sys.executable, "mine:make"]
    running = subprocess.Popen(
        [*argv, "--workers", "2", "--seconds", "60", *arguments],
        cwd=folder,
        env={**PLAIN, "PYTHONPATH": TOP},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until = time.monotonic() + 30
    # the program, the loader's process and two workers
    while len(processes_in(folder)) < 4 and time.monotonic() < until:
        time.sleep(0.05)
    assert len(processes_in(folder)) >= 4
    return running


def test_ctrl_c_leaves_no_process(folder: Path) -> None:
    running = start_sweep(folder)
    os.kill(running.pid, signal.SIGINT)
    assert running.wait(20) == 130
    assert processes_in(folder) == []


@pytest.mark.parametrize(
    ("number", "start"),
    [(signal.SIGKILL, "fork"), (signal.SIGTERM, "fork"), (signal.SIGHUP, "spawn"), (signal.SIGKILL, "forkserver")],
)
def test_a_sweep_that_is_killed_leaves_no_process(folder: Path, number: int, start: str) -> None:
    running = start_sweep(folder, "--start", start)
    os.kill(running.pid, number)
    running.wait(20)
    until = time.monotonic() + 10
    while processes_in(folder) and time.monotonic() < until:
        time.sleep(0.05)
    assert processes_in(folder) == []
