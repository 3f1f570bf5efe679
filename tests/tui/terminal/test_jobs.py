"""Two real jobs in a real terminal: the job of the verdict, how ``j`` and ``--job`` change it, and the end of a job."""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rigs.tmux import Terminal, why_no_tmux
from tests.scenarios.cause import TRAINER

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(why_no_tmux()), reason=why_no_tmux())]

TOP = Path(__file__).resolve().parents[3]
STEP_S = 2.0
"""The seconds to wait for the effect of one key before it is pressed again."""


class Trainer:
    """A trainer with a unique name. Its only loader computes a little."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = f"{name}.py"
        script = folder / self.name
        shutil.copyfile(TRAINER, script)
        data = folder / name
        data.mkdir()
        options = ["--workers", "1", "--batch", "1", "--cpu-ms", "20", "--step", "0.2", "--size", "0"]
        argv = [sys.executable, str(script), str(data), *options, "--log", str(folder / f"{name}.log")]
        self.process = subprocess.Popen(argv, start_new_session=True)

    @property
    def pid(self) -> int:
        return self.process.pid

    def wait_for_loader(self) -> int:
        """The pid of the loader, once it runs."""
        for _ in range(2000):
            children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
            if children:
                return int(children[-1])
            time.sleep(0.01)
        raise AssertionError(f"{self.name} starts no loader")

    def end(self) -> None:
        """Kill the trainer and its loader."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def trainers(tmp_path: Path) -> Iterator[tuple[Trainer, Trainer]]:
    """Two jobs that are running."""
    both = Trainer(tmp_path, "alpha"), Trainer(tmp_path, "beta")
    try:
        yield both
    finally:
        for trainer in both:
            trainer.end()


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    """A shell that finds the program in its PATH."""
    with Terminal(110, 34, {"PYTHONPATH": str(TOP), "PYTHONDONTWRITEBYTECODE": "1"}) as terminal:
        yield terminal


def start(terminal: Terminal, *words: str) -> None:
    terminal.type(shlex.join([sys.executable, "-m", "iotop_ai", "--no-smart", *words]) + "; echo rc=$?\n")


def about(text: str, trainer: Trainer) -> bool:
    """Whether the path line of the verdict is about a trainer."""
    return bool(re.search(rf"^ \w+ {re.escape(trainer.name)} [›>] ", text, re.MULTILINE))


def turn_to(terminal: Terminal, trainer: Trainer) -> None:
    """Press j until the verdict is about this job; other jobs may run on this machine."""
    for _ in range(12):
        if about(terminal.text(), trainer):
            return
        terminal.keys("j")
        with contextlib.suppress(AssertionError):
            terminal.wait_until(lambda text: about(text, trainer), STEP_S)
    raise AssertionError(f"j never turns to {trainer.name}\n{terminal.text()}")


def test_the_key_j_selects_each_job_and_the_end_of_a_job_releases_the_verdict(
    terminal: Terminal, trainers: tuple[Trainer, Trainer]
) -> None:
    alpha, beta = trainers
    start(terminal, "--job", str(beta.pid))
    terminal.wait_until(lambda text: about(text, beta), what="--job BETA")
    turn_to(terminal, alpha)
    terminal.wait_for(f"done: {alpha.name} of {getpass.getuser()}, pid {alpha.pid}")
    turn_to(terminal, beta)
    terminal.type("J")
    text = terminal.wait_for("AU%")
    assert alpha.name in text
    assert beta.name in text
    terminal.keys("Escape")
    terminal.wait_for("Enter:why")
    terminal.keys("Enter")
    terminal.wait_until(lambda text: re.search(r"why \w+", text), what="its reasons")
    terminal.keys("Escape")
    terminal.wait_until(lambda text: about(text, beta), what="still BETA")
    beta.end()
    terminal.wait_for(f"{beta.name}, pid {beta.pid}, has ended")
    terminal.wait_until(lambda text: not about(text, beta), what="no word of BETA")
    turn_to(terminal, alpha)
    terminal.keys("q")
    terminal.wait_for("rc=0")


def test_a_pid_of_a_loader_selects_its_job(terminal: Terminal, trainers: tuple[Trainer, Trainer]) -> None:
    alpha, beta = trainers
    for trainer in (alpha, beta):
        start(terminal, "--job", str(trainer.wait_for_loader()))
        terminal.wait_until(lambda text, trainer=trainer: about(text, trainer), what=f"a loader of {trainer.name}")
        terminal.keys("q")
        terminal.wait_for("rc=0")
        terminal.type("clear\n")
        terminal.wait_gone("rc=0")


def test_a_pid_without_a_job_is_reported(terminal: Terminal) -> None:
    start(terminal, "--job", "4194303")
    text = terminal.wait_for("rc=2")
    assert "usage: --job 4194303: no such process" in text
    assert "Traceback" not in text
    start(terminal, "--job", "1")
    terminal.wait_for("process 1 belongs to no training job", 40.0)
    terminal.keys("q")
    terminal.wait_for("rc=0")
