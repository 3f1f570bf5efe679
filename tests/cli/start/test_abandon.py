"""The exit of a process while the disk of an open file hangs, on a machine too busy to end its threads at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rigs.home import Home, may_hide, why_no_home

_ATTEMPTS = 30
"""The number of tries. If the child waits for the main thread only, about one exit in ten waits for the disk."""

_EXITS = """
import os, sys, threading, time
from iotop_ai.cli.start.abandon import abandon_files

memory = bytearray(1000 << 20)  # the last thread frees it before it leaves its files, which takes time
memory[::4096] = b"x" * (len(memory) // 4096)
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
os.write(file, b"x")

def write():
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.write(file, b"y")

print("open", flush=True)
sys.stdin.readline()
threading.Thread(target=write, daemon=True).start()
time.sleep(0.3)
print(abandon_files(), flush=True)
os._exit(0)
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(bool(why_no_home()), reason=why_no_home())
@pytest.mark.skipif(not may_hide(), reason="a hung mount would hold other programs; needs root")
def test_the_last_thread_to_end_does_not_wait_for_the_disk(tmp_path: Path) -> None:
    cpu = min(os.sched_getaffinity(0))
    spin = f"import os; os.sched_setaffinity(0, {{{cpu}}})\nwhile True: pass"
    busy = subprocess.Popen([sys.executable, "-c", spin])
    try:
        for attempt in range(_ATTEMPTS):
            _exit_beside_a_hang(tmp_path / str(attempt))
    finally:
        busy.kill()
        busy.wait()


def _exit_beside_a_hang(folder: Path) -> None:
    folder.mkdir()
    with Home(folder, hidden=True) as home:
        argv = [*home.inside, sys.executable, "-c", _EXITS, str(home.path / "x")]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
        with subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        ) as program:
            assert program.stdin is not None
            assert program.stdout is not None
            assert program.stdout.readline() == "open\n"
            home.hang()
            try:
                program.stdin.write("\n")
                program.stdin.flush()
                assert program.stdout.readline() == "True\n"
                assert program.wait(20) == 0
            finally:
                home.release()
