"""``why`` on a machine with a busy Python program that was just started and does not train."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cli.program import iotop

pytestmark = pytest.mark.slow

GROWS = """
import time
kept = []
for _ in range(600):
    kept.append(bytearray(b"x") * (2 << 20))
    if len(kept) > 300:
        kept.clear()
    time.sleep(0.1)
"""


def test_a_growing_program_is_not_a_starting_training() -> None:
    """The program grows by 20 MB a second, like a trainer that loads its weights."""
    program = subprocess.Popen([sys.executable, "-c", GROWS])
    try:
        done = iotop("why", "--duration", "13", "--no-smart")
    finally:
        program.kill()
        program.wait()
    # A training may also run on this machine, so only the lines about this program count.
    own = [line for line in done.stdout.splitlines() if str(program.pid) in line]
    assert not any("STARTING" in line or "starting" in line for line in own)
    first = done.stdout.splitlines()[0]
    assert not (first.startswith("STARTING") and " -c" in first), done.stdout
    assert f"job {program.pid} " not in done.stdout
