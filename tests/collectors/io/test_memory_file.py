"""Files in memory, also for a Python that cannot create them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from iotop_ai.collectors.io.memory_file import memory_file


@pytest.fixture(params=[True, False])
def can_create(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the test with memfd_create and without it, as in a Python built for a glibc before 2.27."""
    if not request.param:
        monkeypatch.delattr(os, "memfd_create")


@pytest.mark.usefixtures("can_create")
def test_a_child_reads_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with memory_file("input") as file:
        file.write(b"content")
        file.seek(0)
        assert subprocess.run(["cat"], stdin=file, stdout=subprocess.PIPE, check=True).stdout == b"content"
        assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("can_create")
def test_a_child_writes_the_file_by_its_path() -> None:
    with memory_file("output") as file:
        number = file.fileno()
        assert not os.get_inheritable(number)
        subprocess.run(["/bin/sh", "-c", f"echo written > /proc/self/fd/{number}"], pass_fds=(number,), check=True)
        assert os.pread(number, 99, 0) == b"written\n"
