"""The search for the disks of both ends of a copy."""

from __future__ import annotations

import threading
from pathlib import Path
from tempfile import TemporaryDirectory

from iotop_ai.actions.stage.ends import resolve_ends
from iotop_ai.actions.stage.same_disk import same_disk
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from tests.waiting import until


def test_the_search_leaves_no_thread(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text("36 1 0:50 / / rw - zfs tank/data rw\n")
    (tmp_path / "data").mkdir()
    before = set(threading.enumerate())
    with TemporaryDirectory(dir="/dev/shm") as memory, resolve_ends(str(tmp_path / "data"), memory) as ends:
        same_disk(ends, Root(str(tmp_path)), Clock())
    until(lambda: set(threading.enumerate()) <= before, "the end of the thread")
