"""``why`` and ``diagnose`` about a real trainer, run by the ordinary user who owns the job."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.program import TOP, command
from tests.rigs.nobody import as_nobody, why_not_nobody
from tests.scenarios.cause import TRAINER
from tests.scenarios.scenes import write_files

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(why_not_nobody()), reason=why_not_nobody())]


def run_as_nobody(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the program as the user nobody."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(TOP), "LANG": "C.UTF-8"}
    return subprocess.run(
        as_nobody(*command(*words)), env=environment, cwd=TOP, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture
def trainer(tmp_path: Path) -> Iterator[int]:
    """The pid of a trainer of the user nobody, whose only loader takes longer for a batch than a step takes."""
    data = tmp_path / "data"
    data.mkdir()
    write_files(data, 4, 8)
    for path in (tmp_path, data):
        path.chmod(0o777)
    options = ("--warm", "--cpu-ms", "60", "--workers", "1", "--batch", "4", "--step", "0.05")
    argv = [sys.executable, str(TRAINER), str(data), *options, "--log", str(tmp_path / "log")]
    program = subprocess.Popen(as_nobody(*argv), start_new_session=True)
    try:
        yield program.pid
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
        program.wait()


def test_an_ordinary_user_gets_the_verdict_on_their_own_job(trainer: int, tmp_path: Path) -> None:
    done = run_as_nobody(tmp_path, "why", "--duration", "30", "--md")
    lines = done.stdout.splitlines()
    assert lines[0] == lines[-1] == "```", done
    assert lines[1].startswith("STARVED   trainer.py waits for data ")
    assert any(line.startswith("path      nobody trainer.py > 1 worker") for line in lines)
    assert f"job {trainer} of nobody" in lines[-2]
    assert done.returncode == 1
    diagnosis = run_as_nobody(tmp_path, "diagnose", "--duration", "25", "--json", "--job", str(trainer))
    printed = json.loads(diagnosis.stdout)
    assert (printed["state"], diagnosis.returncode) == ("STARVED", 1)
    assert printed["data_stall_ratio"] > 0.3
