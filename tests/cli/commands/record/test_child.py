"""What the recorded command gets from the caller of ``iotop-ai record``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands.record.test_command import FAST
from tests.cli.program import PLAIN, TOP, command

OPEN_FILES = """
import contextlib, os
for name in sorted(os.listdir("/proc/self/fd"), key=int):
    with contextlib.suppress(OSError):  # the descriptor of the folder itself is closed again
        os.fstat(int(name))
        print(name)
"""


def output_of(record: list[str], argv: list[str], *files: int, **environment: str) -> str:
    """Record a command with these flags; return what it prints. files: the descriptors that the recorder inherits."""
    return subprocess.run(
        command("record", *FAST, *record, "--", *argv),
        cwd=TOP,
        env={**PLAIN, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        pass_fds=files,
    ).stdout


def test_the_command_gets_the_callers_descriptors_and_none_of_ours(tmp_path: Path) -> None:
    """``CMD <(...)``, ``exec 5>file`` and the jobserver of make pass a descriptor to the command."""
    reader, writer = os.pipe()
    try:
        outputs = ["-o", str(tmp_path / "a"), "--csv", str(tmp_path / "b")]
        printed = output_of(outputs, [sys.executable, "-c", OPEN_FILES], writer)
        assert [int(line) for line in printed.splitlines()] == [0, 1, 2, writer]
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize("recording", ["1", "0"])
def test_no_signal_is_ignored_in_the_command(tmp_path: Path, recording: str) -> None:
    """Python ignores SIGPIPE and SIGXFSZ, and an ignored signal would stay ignored in the command."""
    argv = ["grep", "^SigIgn", "/proc/self/status"]
    printed = output_of(["-o", str(tmp_path / "a")], argv, IOTOP_AI=recording)
    ignored = int(printed.split()[1], 16)
    assert [one for one in (signal.SIGPIPE, signal.SIGXFSZ) if ignored >> one - 1 & 1] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize("recording", ["1", "0"])
def test_under_sudo_the_command_keeps_the_variables_that_we_ignore(tmp_path: Path, recording: str) -> None:
    variables = {"SUDO_UID": "1000", "XDG_RUNTIME_DIR": "/run/user/1000"}
    printed = output_of(["-o", str(tmp_path / "a")], ["printenv", *variables], IOTOP_AI=recording, **variables)
    assert printed.splitlines() == list(variables.values())
