"""The Python of the user, in an active environment, in the PATH or in a system folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from iotop_ai.collectors.io.programs import find_program
from iotop_ai.collectors.io.trust import invoking_user
from iotop_ai.preflight.user_python import user_python

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or invoking_user({}) is not None, reason="needs root without sudo, su or pkexec by another user"
)


@pytest.fixture
def python(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Python in a folder of root that comes first in the PATH, as in the image of a container."""
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "SUDO_UID", "PKEXEC_UID"):
        monkeypatch.delenv(name, raising=False)
    path = own_folder / "conda/bin/python3"
    path.parent.mkdir(parents=True)
    path.touch(0o755)
    for folder in (path.parent, path.parent.parent):
        folder.chmod(0o755)
    monkeypatch.setenv("PATH", f"bin:{path.parent}:/usr/bin")
    return path


def test_root_takes_the_python_of_its_path(python: Path) -> None:
    assert user_python(None) == str(python)


def test_root_takes_no_python_that_another_user_can_replace(python: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python.parent.chmod(0o777)
    second = python.parent.parent / "second/python3"
    second.parent.mkdir()
    second.parent.chmod(0o755)
    second.symlink_to(python)
    monkeypatch.setenv("PATH", f"{python.parent}:{second.parent}")
    assert user_python(None) == find_program("python3")
    second.unlink()
    second.touch(0o755)
    assert user_python(None) == str(second)


def test_under_sudo_the_path_is_ignored(python: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_UID", "1000")
    assert user_python(None) == find_program("python3")
