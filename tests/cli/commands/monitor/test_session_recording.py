from __future__ import annotations

from pathlib import Path

import pytest

from iotop_ai.cli.commands.monitor import session_recording


def test_without_any_folder_to_write_to_the_error_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    fallback = str(tmp_path / "file" / "iotop-ai")
    monkeypatch.setattr(session_recording, "recordings_folder", lambda: fallback)
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(OSError, match="start iotop-ai in a folder that only you can write to") as raised:
        session_recording.writable_folder(str(shared))
    assert raised.value.filename == fallback
