"""The path of a Unix socket is removed only while it is our socket. A missing path is not an error."""

import os
import socket
from pathlib import Path

import pytest

from iotop_ai.collectors.io.socket_file import SocketFile
from iotop_ai.model.errors import UsageError


def bound(path: Path) -> SocketFile:
    with socket.socket(socket.AF_UNIX) as one:
        return SocketFile(one, str(path))


def test_a_path_is_removed_only_while_it_is_our_socket(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    bound(path).unlink()
    assert not path.exists()
    file = bound(path)
    path.rename(tmp_path / "ours")  # the file still exists under another name, so that its inode is not reused
    path.write_text("another's")
    file.unlink()
    assert path.read_text() == "another's"


def test_a_path_that_is_already_gone_is_not_an_error(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    file = bound(tmp_path / "socket")
    (tmp_path / "socket").unlink()
    file.unlink()
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_length_of_a_name_is_counted_in_bytes(tmp_path: Path) -> None:
    for name in ("a" * 80, "é" * 40, "€" * 26):
        bound(tmp_path / name).unlink()
    for name in ("a" * 81, "é" * 41, "€" * 27):
        with pytest.raises(UsageError, match="at most 80"):
            bound(tmp_path / name)
    assert os.listdir(tmp_path) == []
