"""A loop device over a file, and the code common to the two rigs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


def run(*argv: str) -> str:
    """Standard output of a command. Raises CalledProcessError with its standard error in the message."""
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: exit {done.returncode}: {done.stderr.strip()}")
    return done.stdout.strip()


def attach(image: Path) -> str:
    """Attach a loop device with direct I/O; the path of its node."""
    return run("losetup", "--find", "--show", "--direct-io=on", str(image))


def detach(node: str) -> None:
    """Detach it; the kernel waits for the last opener."""
    run("losetup", "-d", node)


def name_of(node: str) -> str:
    """The kernel name: /dev/loop0 is loop0."""
    return os.path.basename(node)


def whole_disk(folder: Path) -> str | None:
    """ "major:minor" of the whole disk that holds a folder; None on tmpfs, overlay and the like."""
    device = os.stat(folder).st_dev
    node = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    if not node.exists():
        return None
    node = node.resolve()
    if (node / "partition").exists():
        node = node.parent
    return (node / "dev").read_text().strip()
