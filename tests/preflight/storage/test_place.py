"""The filesystem of a folder that is to be checked."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.model.errors import UnknownError
from iotop_ai.preflight.storage.place import read_place
from tests.preflight.storage.places import ext4, needs_root
from tests.rigs.threads import no_thread


def test_a_thread_that_cannot_start_is_not_reported_as_a_silent_filesystem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading.Thread, "start", no_thread)
    with pytest.raises(UnknownError) as raised:
        read_place(str(tmp_path), Root(), Clock())
    assert str(raised.value) == f"{tmp_path}: can't start new thread"


@needs_root
def test_the_speeds_of_a_device_and_of_a_folder_on_it_are_kept_under_two_keys(tmp_path: Path) -> None:
    """Random reads of the whole device may take longer than those of a file, which lies in one part of it."""
    with ext4(tmp_path, 32) as folder:
        of_folder = read_place(str(folder), Root(), Clock())
        of_device = read_place(f"/dev/{of_folder.device}", Root(), Clock())
    assert of_folder.key
    assert of_device.key == f"{of_folder.key} device"
