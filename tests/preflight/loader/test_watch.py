"""What the processes of a running loader have read, also after some of them have ended."""

from __future__ import annotations

import shutil
from pathlib import Path

from iotop_ai.collectors.io.root import Root
from iotop_ai.preflight.loader.watch import TreeWatch
from tests.clocks import SetClock
from tests.machines import build

IO = "rchar: {}\nwchar: 0\nsyscr: 0\nsyscw: 0\nread_bytes: {}\nwrite_bytes: 0\ncancelled_write_bytes: 0\n"


def add(folder: Path, pid: int, children: str, asked: int, storage: int) -> None:
    """Write the files of a process."""
    io = IO.format(asked, storage).encode()
    build({f"proc/{pid}/task/{pid}/children": children.encode(), f"proc/{pid}/io": io}, folder)


def test_the_reads_of_a_worker_that_has_ended_count_once(tmp_path: Path) -> None:
    """The kernel adds all that the worker has read since its start to the main process."""
    add(tmp_path, 10, "11 ", asked=100, storage=10)
    add(tmp_path, 11, "", asked=1000, storage=500)
    watch = TreeWatch(Root(str(tmp_path)), 10, SetClock())
    watch.begin()
    add(tmp_path, 11, "", asked=1300, storage=800)
    used = watch.usage()
    assert (used.asked_bytes, used.storage_bytes) == (300, 300)
    shutil.rmtree(tmp_path / "proc/11")
    add(tmp_path, 10, "", asked=100 + 1300 + 7, storage=10 + 800)
    used = watch.usage()
    assert (used.asked_bytes, used.storage_bytes) == (307, 300)
