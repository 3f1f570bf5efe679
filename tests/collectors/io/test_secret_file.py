"""Files with a token or password."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from iotop_ai.collectors.io.secret_file import read_secret
from iotop_ai.model.errors import InputError


def test_a_secret_that_is_too_long_is_refused_and_not_cut(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.touch(mode=0o600)
    path.write_text("a" * 4096)
    assert len(read_secret(str(path), "--token-file")) == 4096
    path.write_text("a" * 4097)
    with pytest.raises(InputError, match=r"--token-file .*token is longer than 4096 bytes"):
        read_secret(str(path), "--token-file")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file to another user")
def test_a_secret_of_another_user_is_refused_because_of_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("word")
    path.chmod(0o640)
    os.chown(path, 65534, 65534)
    with pytest.raises(InputError, match=r"it belongs to user 65534, not to you or to root \(chown it\)$"):
        read_secret(str(path), "--token-file")
