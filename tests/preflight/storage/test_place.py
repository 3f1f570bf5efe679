"""The filesystem of a folder that is to be checked."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.model.errors import UnknownError
from iotop_ai.preflight.storage.place import read_place
from tests.rigs.threads import no_thread


def test_a_thread_that_cannot_start_is_not_reported_as_a_silent_filesystem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading.Thread, "start", no_thread)
    with pytest.raises(UnknownError) as raised:
        read_place(str(tmp_path), Root(), Clock())
    assert str(raised.value) == f"{tmp_path}: can't start new thread"
