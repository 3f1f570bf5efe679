"""A rig whose mount fails leaves no process behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rigs.home import Home
from tests.rigs.slowdisk import fuse


def program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def programs(folder: Path, monkeypatch: pytest.MonkeyPatch, **scripts: str) -> None:
    """Put shell scripts into the PATH, before the programs of the machine."""
    for name, script in scripts.items():
        program(folder / name, script)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


def test_a_home_whose_mount_fails_ends_its_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs(tmp_path, monkeypatch, unshare="echo && exec sleep 600", nsenter="exit 1", fusermount3="exit 1")
    home = Home(tmp_path, hidden=True)
    with pytest.raises(RuntimeError, match="bindfs does not mount"):
        home.__enter__()
    for process in (home._holder, home._server):
        assert process is not None
        assert process.returncode is not None


def test_a_failing_folder_whose_mount_fails_ends_its_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = tmp_path / "calls"
    programs(tmp_path, monkeypatch, fusermount3=f'echo "$@" >> {calls}')
    # The folder is gone before the rig looks at it again, and the server keeps running.
    monkeypatch.setattr(fuse, "build", lambda target, source: program(target, 'rmdir "$3" && exec sleep 600'))
    rig = fuse.FailingFolder(tmp_path)
    with pytest.raises(FileNotFoundError):
        rig.__enter__()
    assert rig._server is not None
    assert rig._server.returncode is not None
    assert calls.read_text().split() == ["-u", "-z", str(rig.folder)]
