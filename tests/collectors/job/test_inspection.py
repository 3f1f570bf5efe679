"""What an inspection finds out about real processes, and what the kernel hides about those of another user."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotop_ai.collectors.io.process_memory import ProcessMemory
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.job.inspection import MOST_ENVIRON, inspect
from iotop_ai.model.job.inspection import NOTHING_SEEN, RankIds

MEMORY = ProcessMemory(Root())
ALL = ("libraries", "environment", "open files")
RANK = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500", "SLURM_JOB_ID": "48213"}
AS_NOBODY = """
import json, os, sys
from iotop_ai.collectors.io.process_memory import ProcessMemory
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.job.inspection import inspect
root = Root("/")
os.setgroups([]); os.setgid(65534); os.setuid(65534)
print(json.dumps(inspect(root, int(sys.argv[1]), ProcessMemory(root))))
"""


@pytest.fixture
def rank() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"], env={**os.environ, **RANK})
    while b"sleep" not in Root("/").read(f"proc/{process.pid}/cmdline"):
        time.sleep(0.01)
    yield process
    process.kill()
    process.wait()


def test_the_environment_of_a_rank_is_read(rank: subprocess.Popen[bytes]) -> None:
    found = inspect(Root(), rank.pid, MEMORY)
    assert found.ids == RankIds(slurm="48213", master="localhost:29500", rank=1, size=2)
    assert (found.libraries, found.hidden) == ((), ())


def test_facts_that_another_users_process_hides_are_reported(rank: subprocess.Popen[bytes]) -> None:
    if os.geteuid():
        pytest.skip("needs root, to become another user")
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, str(rank.pid)], capture_output=True, text=True, timeout=60, check=True
    )
    libraries, device, pin, modules, ids, hidden = json.loads(done.stdout)
    assert tuple(hidden) == ALL
    assert (libraries, device, pin, modules, RankIds(*ids)) == ([], False, 0, [], RankIds())


def test_a_process_that_has_ended_hides_nothing() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert inspect(Root(), process.pid, MEMORY) == NOTHING_SEEN


@pytest.mark.parametrize(
    ("device", "framework", "opens"),
    [
        ("/dev/nvidia-uvm", True, True),
        ("/dev/nvidia-uvm", False, True),
        ("/dev/dxg", True, True),
        ("/dev/nvmap", True, True),
        ("/dev/dxg", False, False),
        ("/dev/nvidia0", True, False),
    ],
)
def test_the_device_file_of_a_gpu_is_seen(tmp_path: Path, device: str, framework: bool, opens: bool) -> None:
    """In WSL a monitor opens /dev/dxg too, and any program may open many files after its GPU."""
    here = tmp_path / "proc/100"
    (here / "fd").mkdir(parents=True)
    (here / "maps").write_text("7f00 r-xp 0 0:0 1 /v/libtorch_python.so\n" if framework else "")
    (here / "fd/9").symlink_to(device)
    for number in range(100, 1300):
        (here / f"fd/{number}").symlink_to("/dev/shm/torch_1")
    root = Root(str(tmp_path))
    assert inspect(root, 100, ProcessMemory(root)).opens_gpu is opens


def test_a_long_environment_is_cut_off() -> None:
    names = {f"FILL_{i}": "x" * 1000 for i in range(100)}
    process = subprocess.Popen(["sleep", "60"], env={**names, **RANK})
    try:
        while b"sleep" not in Root("/").read(f"proc/{process.pid}/cmdline"):
            time.sleep(0.01)
        assert len(Root("/").read(f"proc/{process.pid}/environ")) > MOST_ENVIRON
        assert inspect(Root(), process.pid, MEMORY).ids == RankIds()
    finally:
        process.kill()
        process.wait()
