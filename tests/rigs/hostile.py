"""Processes, a device and a mount whose names try to control the terminal or the markup."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.rigs.slowdisk.loop import attach, detach, run

SOURCE = Path(__file__).with_name("hostile.c")
TITLE = b"\x1b]0;owned\x07"
"""This sequence sets the title of a terminal that receives it."""
NAMES: dict[bytes, tuple[bytes, ...]] = {
    b"[/x]": (b"[/x]", b"[bold red]", b"[/]"),
    TITLE: (TITLE, b"--title", TITLE, b"\x1b[5mblink\x1b[2J", b"\xc2\x9b7mC1", b"\x9b7m", b"\xe2\x80\xaebidi"),
    b"[@click=quit]": (b"[@click=app.quit]", b"[@click=app.quit]here[/]", b"[link=x]"),
}
"""The arguments of each process, by its name."""


def why_no_hostile() -> str:
    """The reason why hostile processes cannot run here; "" if they can."""
    return "" if shutil.which("cc") else "needs cc (gcc)"


@contextlib.contextmanager
def hostile_processes(folder: Path) -> Iterator[list[int]]:
    """Start a process for each entry of NAMES, each of which writes 2.5 MB/s into ``folder``. Yields the pids."""
    with tempfile.TemporaryDirectory(prefix="hostile-") as build, contextlib.ExitStack() as stack:
        program = Path(build) / "hostile"
        run("cc", "-O1", "-Wall", "-Wextra", "-Werror", "-o", str(program), str(SOURCE))
        pids = []
        for number, (name, argv) in enumerate(NAMES.items()):
            environment = {
                **os.environb,
                b"HOSTILE_NAME": name,
                b"HOSTILE_FILE": os.fsencode(folder / f"written-{number}"),
            }
            process = subprocess.Popen(argv, executable=program, env=environment)
            stack.callback(process.wait)
            stack.callback(process.kill)
            pids.append(process.pid)
        yield pids


@contextlib.contextmanager
def hostile_mount(folder: Path) -> Iterator[Path]:
    """Mount ext4 on a loop device whose file and mount point have TITLE and markup in their names. Needs root."""
    odd_name = os.fsdecode(TITLE) + "[@click=app.quit]"
    image, mount = folder / f"{odd_name}.img", folder / f"m{odd_name}"
    with image.open("wb") as file:
        file.truncate(16 << 20)
    mount.mkdir()
    node = attach(image)
    try:
        run("mkfs.ext4", "-q", "-E", "nodiscard", node)
        run("mount", node, str(mount))
        try:
            yield mount
        finally:
            run("umount", str(mount))
    finally:
        detach(node)


def why_no_hostile_mount() -> str:
    """The reason why a hostile mount is impossible here; "" if it is possible."""
    if os.geteuid():
        return "needs root to mount"
    missing = [p for p in ("losetup", "mkfs.ext4", "mount") if not shutil.which(p)]
    return f"needs {', '.join(missing)}" if missing else ""
