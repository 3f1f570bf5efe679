"""A loop device over a file, and helpers for the rigs A (throttle.py) and B (fuse.py)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


def run(*argv: str) -> str:
    """The standard output of a command. Raises RuntimeError, whose message has the standard error."""
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: exit {done.returncode}: {done.stderr.strip()}")
    return done.stdout.strip()


def attach(image: Path) -> str:
    """Attach a loop device with direct I/O, and return the path of its node."""
    return run("losetup", "--find", "--show", "--direct-io=on", str(image))


def detach(node: str) -> None:
    """Detach the loop device; the kernel waits until it is no longer open."""
    run("losetup", "-d", node)


def name_of(node: str) -> str:
    """The kernel's name of a device: that of /dev/loop0 is loop0."""
    return os.path.basename(node)


def whole_disk(folder: Path) -> str | None:
    """The "major:minor" of the whole disk on which a folder lies; None on tmpfs, overlay and the like."""
    device = os.stat(folder).st_dev
    node = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    if not node.exists():
        return None
    node = node.resolve()
    if (node / "partition").exists():
        node = node.parent
    return (node / "dev").read_text().strip()
