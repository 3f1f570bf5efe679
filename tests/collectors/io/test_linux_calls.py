"""Calls of Linux, also with a Python that lacks them."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from pathlib import Path

import pytest

from iotop_ai.collectors.io.linux_calls import memory_file, pidfd_open, pidfd_send_signal


@pytest.fixture(params=[True, False])
def has_calls(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the test with the functions of Python and without them, as in a Python built for a glibc before 2.27."""
    if not request.param:
        monkeypatch.delattr(os, "memfd_create")
        monkeypatch.delattr(os, "pidfd_open")
        monkeypatch.delattr(signal, "pidfd_send_signal")


@pytest.mark.usefixtures("has_calls")
def test_a_child_reads_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with memory_file("input") as file:
        file.write(b"content")
        file.seek(0)
        assert subprocess.run(["cat"], stdin=file, stdout=subprocess.PIPE, check=True).stdout == b"content"
        assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("has_calls")
def test_a_child_writes_the_file_by_its_path() -> None:
    with memory_file("output") as file:
        number = file.fileno()
        assert not os.get_inheritable(number)
        subprocess.run(["/bin/sh", "-c", f"echo written > /proc/self/fd/{number}"], pass_fds=(number,), check=True)
        assert os.pread(number, 99, 0) == b"written\n"


@pytest.mark.usefixtures("has_calls")
def test_a_signal_reaches_the_process_of_a_pidfd() -> None:
    process = subprocess.Popen(["sleep", "60"])
    pidfd = pidfd_open(process.pid)
    assert not os.get_inheritable(pidfd)
    assert select.select([pidfd], [], [], 0)[0] == []
    pidfd_send_signal(pidfd, signal.SIGTERM)
    assert process.wait(10) == -signal.SIGTERM
    assert select.select([pidfd], [], [], 0)[0] == [pidfd]
    with pytest.raises(ProcessLookupError):
        pidfd_send_signal(pidfd, signal.SIGTERM)
    os.close(pidfd)
    with pytest.raises(OSError, match="Bad file descriptor"):
        pidfd_send_signal(pidfd, signal.SIGTERM)
    with pytest.raises(ProcessLookupError):
        pidfd_open(process.pid)
