"""Two real jobs on a real terminal: which one the verdict is about, that ``j`` and ``--job`` turn it, and their end."""

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
"""For as long it is waited for the answer to one key before it is pressed again."""


class Trainer:
    """A trainer under a name of its own, with one loader that computes a little."""

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

    def loader(self) -> int:
        """Its loader, once it is there."""
        for _ in range(2000):
            children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
            if children:
                return int(children[-1])
            time.sleep(0.01)
        raise AssertionError(f"{self.name} starts no loader")

    def end(self) -> None:
        """Kill it with its loader."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def trainers(tmp_path: Path) -> Iterator[tuple[Trainer, Trainer]]:
    """Two jobs that run."""
    both = Trainer(tmp_path, "alpha"), Trainer(tmp_path, "beta")
    try:
        yield both
    finally:
        for trainer in both:
            trainer.end()


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    """A shell that finds the program."""
    with Terminal(110, 34, {"PYTHONPATH": str(TOP), "PYTHONDONTWRITEBYTECODE": "1"}) as terminal:
        yield terminal


def start(terminal: Terminal, *words: str) -> None:
    terminal.type(shlex.join([sys.executable, "-m", "iotop_ai", "--no-smart", *words]) + "; echo rc=$?\n")


def about(text: str, trainer: Trainer) -> bool:
    """Whether the path line of the verdict speaks of a trainer."""
    return bool(re.search(rf"^ \w+ {re.escape(trainer.name)} [›>] ", text, re.MULTILINE))


def turn_to(terminal: Terminal, trainer: Trainer) -> None:
    """Press j until it is about a job; there may be other jobs on this machine."""
    for _ in range(12):
        if about(terminal.text(), trainer):
            return
        terminal.keys("j")
        with contextlib.suppress(AssertionError):
            terminal.wait_until(lambda text: about(text, trainer), STEP_S)
    raise AssertionError(f"j never turns to {trainer.name}\n{terminal.text()}")


def test_j_turns_to_each_job_and_the_end_of_one_frees_the_verdict(
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


def test_job_of_a_loader_is_the_job(terminal: Terminal, trainers: tuple[Trainer, Trainer]) -> None:
    alpha, beta = trainers
    for trainer in (alpha, beta):
        start(terminal, "--job", str(trainer.loader()))
        terminal.wait_until(lambda text, trainer=trainer: about(text, trainer), what=f"a loader of {trainer.name}")
        terminal.keys("q")
        terminal.wait_for("rc=0")
        terminal.type("clear\n")
        terminal.wait_gone("rc=0")


def test_what_is_no_job_is_said(terminal: Terminal) -> None:
    start(terminal, "--job", "4194303")
    text = terminal.wait_for("rc=2")
    assert "usage: --job 4194303: no such process" in text
    assert "Traceback" not in text
    start(terminal, "--job", "1")
    terminal.wait_for("process 1 belongs to no training job", 40.0)
    terminal.keys("q")
    terminal.wait_for("rc=0")
