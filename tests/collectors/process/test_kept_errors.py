"""The stored error of a file that cannot be read."""

from __future__ import annotations

import os
from pathlib import Path

from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.process.descriptors import open_kept, read_kept, read_once, read_stat_once


def test_a_stored_error_does_not_keep_its_frames_alive(tmp_path: Path) -> None:
    closed = os.open(tmp_path, os.O_RDONLY)
    os.close(closed)
    root = Root(str(tmp_path))
    for error in (
        *read_kept([closed], 16),
        read_once(root, "none", 16),
        read_stat_once(root, 1),
        open_kept(root, "none", 16),
    ):
        assert isinstance(error, OSError)
        assert error.__traceback__ is None
