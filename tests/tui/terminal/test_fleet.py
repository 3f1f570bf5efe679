"""``iotop-ai fleet`` in a real terminal: the list returns after a machine that cannot be opened, and q leaves."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from tests.cli.program import TOP
from tests.rigs.fleet.answering import answering
from tests.rigs.tmux import Terminal, why_no_tmux
from tests.tui.inside import assert_usable, opened, start

pytestmark = pytest.mark.skipif(bool(why_no_tmux()), reason=why_no_tmux())


def fleet(terminal: Terminal, folder: Path, url: str) -> None:
    words = [sys.executable, "-m", "iotop_ai", "fleet", "--prometheus", url, "--window", "20s", "--sort", "name"]
    start(terminal, folder, shlex.join(words), "gpu09")


def test_enter_opens_a_machine_by_ssh_and_the_list_returns(tmp_path: Path) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\necho "$@" > "$0.asked"\necho "Host key verification failed." >&2\nexit 255\n')
    ssh.chmod(0o755)
    with answering() as server, opened(tmp_path, 100, 24, IOTOP_AI_SSH=str(ssh), PYTHONPATH=str(TOP)) as terminal:
        fleet(terminal, tmp_path, server.url)
        terminal.keys("Down", "Enter")
        terminal.wait_for("failed: gpu01: no connection: Host key verification failed.")
        assert (tmp_path / "ssh.asked").read_text().split()[-8:-5] == ["--", "gpu01", "iotop-ai"]
        terminal.resize(80, 24)
        terminal.wait_for("gpu09")
        terminal.keys("q")
        terminal.wait_for("rc=0")
        assert_usable(terminal)


def test_the_key_q_leaves_at_once_while_the_server_hangs(tmp_path: Path) -> None:
    with answering() as server, opened(tmp_path) as terminal:
        fleet(terminal, tmp_path, server.url)
        server.hang()
        terminal.keys("R", "q")
        terminal.wait_for("rc=0")
        server.go_on()
        assert_usable(terminal)
