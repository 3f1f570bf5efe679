"""The search for a container's init."""

from __future__ import annotations

import subprocess

from tests.rigs.systemd import _init_of


def test_a_child_that_ends_while_it_is_read_is_not_an_error() -> None:
    parent = subprocess.Popen(["sh", "-c", "while :; do /bin/true & /bin/true & wait; done"])
    try:
        assert {_init_of(parent.pid) for _ in range(10_000)} == {None}
    finally:
        parent.kill()
        parent.wait()
