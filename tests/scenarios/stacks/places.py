"""The places of a stack's data: a slow disk, this machine's disk, or a server on a separate network."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.rigs.slowdisk import FuseDisk
from tests.rigs.slowdisk.loop import run
from tests.scenarios.link import linked_server
from tests.scenarios.scenes import EXT4

SERVER = Path(__file__).with_name("server.py")
MB = 1_000_000
PORT = 8000
Fill = Callable[[Path], None]
"""Writes the data set into a folder."""
Place = Callable[[Path, Fill], "contextlib.AbstractContextManager[str]"]
"""Takes the run's folder, makes the place, and has it filled. Yields the path or address that the trainer reads from.
"""


@contextlib.contextmanager
def own_disk(folder: Path, fill: Fill) -> Iterator[str]:
    """Provide the data on the machine's disk, and in the page cache."""
    data = folder / "data"
    data.mkdir()
    fill(data)
    yield str(data)


def slow_disk(megabytes_per_s: float, delay_ms: float = 0.0) -> Place:
    """Return a separate disk that serves all processes at this rate. None of its data is in the page cache."""

    @contextlib.contextmanager
    def place(folder: Path, fill: Fill) -> Iterator[str]:
        data = folder / "data"
        data.mkdir()
        with FuseDisk(folder, 1024) as disk:
            run(*EXT4, disk.node)
            # It is mounted again after the files are written, so that no page and no inode is cached.
            for filled in (False, True):
                run("mount", "-o", "noatime,nodiscard", disk.node, str(data))
                if filled:
                    break
                try:
                    fill(data)
                finally:
                    run("umount", str(data))
            try:
                disk.set(delay_us=round(delay_ms * 1000), bytes_per_s=round(megabytes_per_s * MB))
                yield str(data)
            finally:
                disk.set()
                run("umount", "-l", str(data))

    return place


def slow_writes(megabytes_per_s: float) -> Place:
    """Return a slow disk with its files in the page cache, so that only writes wait for the disk."""

    @contextlib.contextmanager
    def place(folder: Path, fill: Fill) -> Iterator[str]:
        with slow_disk(megabytes_per_s)(folder, fill) as data:
            for path in Path(data).rglob("*.*"):
                path.read_bytes()
            yield data

    return place


def server(megabytes_per_s: float, delay_ms: float) -> Place:
    """Return an object store at the other end of a link.

    It delays each answer, and sends all answers together at this rate.
    """

    @contextlib.contextmanager
    def place(folder: Path, fill: Fill) -> Iterator[str]:
        data = folder / "bucket"
        data.mkdir()
        fill(data)
        rate = str(megabytes_per_s * MB)
        command = [sys.executable, str(SERVER), str(data), str(delay_ms), rate, str(PORT)]
        with linked_server(command, "store", "peer", "10.232") as link:
            yield f"http://{link.address}:{PORT}"

    return place
