"""Which process groups are orphaned: those that no shell would continue after a stop."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.program import TOP
from tests.rigs.pty_pair import PtyPair

SCRIPT = """
import sys
from iotop_ai.collectors.io.root import Root
from iotop_ai.tui.job_control import is_orphaned
print(f"orphaned={is_orphaned(Root(sys.argv[1]))}.")
"""
INIT = """
import subprocess, sys
subprocess.run(sys.argv[1:], process_group=0)
"""
NAMESPACE = ["unshare", "--pid", "--fork", "--mount-proc"]


@pytest.fixture(params=["readable", "hidden"])
def check(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """A command that prints whether its group is orphaned; once with the /proc of this machine, once without one."""
    return checking(tmp_path, "/" if request.param == "readable" else str(tmp_path))


def checking(folder: Path, root: str) -> list[str]:
    script = folder / "check.py"
    script.write_text(SCRIPT)
    return [sys.executable, str(script), root]


def on_terminal(*command: str) -> PtyPair:
    environment = {**os.environ, "PYTHONPATH": str(TOP), "PS1": "ready> ", "TERM": "xterm", "ENV": ""}
    return PtyPair(command, 80, 24, environment)


def test_a_program_that_a_terminal_started_is_orphaned(check: list[str]) -> None:
    with on_terminal(*check) as terminal:
        terminal.wait_for("orphaned=True.")


def test_a_program_below_a_shell_without_job_control_is_orphaned(check: list[str]) -> None:
    with on_terminal("sh", "-c", f"{shlex.join(check)}; true") as terminal:
        terminal.wait_for("orphaned=True.")


@pytest.mark.parametrize("command", ["{}", "sh -c '{}; true'"])
def test_a_program_below_an_interactive_shell_is_not_orphaned(check: list[str], command: str) -> None:
    with on_terminal("sh", "-i") as terminal:
        terminal.wait_for("ready> ")
        terminal.type(command.format(shlex.join(check)) + "\n")
        terminal.wait_for("orphaned=False.")


@pytest.mark.skipif(
    shutil.which("unshare") is None or subprocess.run([*NAMESPACE, "true"], capture_output=True).returncode != 0,
    reason="needs unshare, and root",
)
def test_in_a_container_only_a_shell_continues_a_program(tmp_path: Path) -> None:
    check = checking(tmp_path, "/")
    with on_terminal(*NAMESPACE, *check) as terminal:
        terminal.wait_for("orphaned=True.")
    with on_terminal(*NAMESPACE, sys.executable, "-c", INIT, *check) as terminal:
        terminal.wait_for("orphaned=True.")
    with on_terminal(*NAMESPACE, "sh", "-i") as terminal:
        terminal.wait_for("ready> ")
        terminal.type(shlex.join(check) + "\n")
        terminal.wait_for("orphaned=False.")
