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


COUNT_SCREENS = """
import gc, sys
from iotop_ai.cli.main import main

code = main()
from iotop_ai.tui.app import MonitorApp

gc.collect()
gc.unfreeze()  # only to list the frozen objects, too
print("screens kept:", sum(isinstance(one, MonitorApp) for one in gc.get_objects()))
sys.exit(code)
"""


def fleet(terminal: Terminal, folder: Path, url: str, program: tuple[str, ...] = ("-m", "iotop_ai")) -> None:
    words = [sys.executable, *program, "fleet", "--prometheus", url, "--window", "20s", "--sort", "name"]
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


def test_the_screen_of_a_machine_is_not_kept_after_it_was_left(tmp_path: Path) -> None:
    ssh = tmp_path / "ssh"
    record = "for last; do :; done; exec {} -m iotop_ai ${{last#iotop-ai }} --no-smart"
    ssh.write_text(f"#!/bin/sh\n{record.format(shlex.quote(sys.executable))}\n")
    ssh.chmod(0o755)
    with answering() as server, opened(tmp_path, 100, 24, IOTOP_AI_SSH=str(ssh)) as terminal:
        fleet(terminal, tmp_path, server.url, ("-c", COUNT_SCREENS))
        for _ in range(2):
            terminal.keys("Enter")
            terminal.wait_for(" path")
            terminal.keys("q")
            terminal.wait_for("gpu09")
        terminal.keys("q")
        terminal.wait_for("rc=0")
        assert "screens kept: 0" in terminal.text()


def test_the_key_q_leaves_at_once_while_the_server_hangs(tmp_path: Path) -> None:
    with answering() as server, opened(tmp_path) as terminal:
        fleet(terminal, tmp_path, server.url)
        server.hang()
        terminal.keys("R", "q")
        terminal.wait_for("rc=0")
        server.go_on()
        assert_usable(terminal)
