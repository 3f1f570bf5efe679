"""Where a stack's data lie: a slow disk, this machine's own, or a server on a network of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.rigs.slowdisk import FuseDisk
from tests.rigs.slowdisk.loop import run
from tests.scenarios.place import die_with_us
from tests.scenarios.scenes import EXT4

SERVER = Path(__file__).with_name("server.py")
MB = 1_000_000
PORT = 8000
Fill = Callable[[Path], None]
"""Writes the data set into a folder."""
Place = Callable[[Path, Fill], "contextlib.AbstractContextManager[str]"]
"""Given the run's folder it makes the place, has it filled, and gives what the trainer is to read from."""


@contextlib.contextmanager
def own_disk(folder: Path, fill: Fill) -> Iterator[str]:
    """The machine's own disk, and the data in the page cache."""
    data = folder / "data"
    data.mkdir()
    fill(data)
    yield str(data)


def slow_disk(megabytes_per_s: float, delay_ms: float = 0.0) -> Place:
    """A disk of its own that serves all processes at that rate; nothing of it is in the page cache."""

    @contextlib.contextmanager
    def place(folder: Path, fill: Fill) -> Iterator[str]:
        data = folder / "data"
        data.mkdir()
        with FuseDisk(folder, 1024) as disk:
            run(*EXT4, disk.node)
            # Mounted anew after the files are written: no page, no inode is known.
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
    """The same with its files in the page cache: only what is written waits for it."""

    @contextlib.contextmanager
    def place(folder: Path, fill: Fill) -> Iterator[str]:
        with slow_disk(megabytes_per_s)(folder, fill) as data:
            for path in Path(data).rglob("*.*"):
                path.read_bytes()
            yield data

    return place


def server(megabytes_per_s: float, delay_ms: float) -> Place:
    """An object store at the other end of a link: it answers each request after a delay, and all at that rate.

    The link is a pair of interfaces to a network namespace, which ends with the server.
    """

    @contextlib.contextmanager
    def place(folder: Path, fill: Fill) -> Iterator[str]:
        data = folder / "bucket"
        data.mkdir()
        fill(data)
        number = os.getpid() % 10_000
        near, far, net = f"store{number}", f"peer{number}", f"10.232.{number % 250}"
        command = [
            "unshare",
            "--net",
            sys.executable,
            str(SERVER),
            str(data),
            str(delay_ms),
            str(megabytes_per_s * MB),
            str(PORT),
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=die_with_us) as process:
            try:
                assert process.stdout is not None
                if not process.stdout.readline():
                    raise RuntimeError(f"the server ended with {process.wait()}")
                pid = str(process.pid)
                run("ip", "link", "add", near, "type", "veth", "peer", "name", far, "netns", pid)
                run("ip", "address", "add", f"{net}.1/30", "dev", near)
                run("ip", "link", "set", near, "up")
                inside = ("nsenter", "-t", pid, "-n", "ip")
                run(*inside, "address", "add", f"{net}.2/30", "dev", far)
                run(*inside, "link", "set", far, "up")
                yield f"http://{net}.2:{PORT}"
            finally:
                process.kill()

    return place
