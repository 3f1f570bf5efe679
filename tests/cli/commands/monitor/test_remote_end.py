"""The reason for the end of another machine's stream. A script that runs the command here stands in for ssh."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from iotop_ai.cli.commands.monitor.remote import Ssh


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("echo no space left >&2; exit 2", "box: its recorder has failed: no space left"),
        ("exit 1", "box: its recorder has failed: exit code 1"),
        ("exit 0", "box: its recorder has ended"),
        ("echo not responding >&2; exit 255", "box: the connection was lost: not responding"),
        ("kill -9 $$", "box: the connection was lost"),
    ],
)
def test_each_end_of_a_stream_has_its_own_reason(tmp_path: Path, line: str, reason: str) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\nfor line; do :; done\nexec sh -c "$line"\n')  # like ssh, it passes the exit code on
    ssh.chmod(0o755)
    with Ssh("box", line, str(ssh)) as connection:
        while os.read(connection.fd, 4096):
            pass
        assert connection.why_ended() == reason
