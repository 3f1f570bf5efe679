"""Filesystems of several kinds that a test mounts to check them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount")


@contextmanager
def mounted(folder: Path, *arguments: str) -> Iterator[Path]:
    """Run ``mount ARGUMENTS FOLDER``, and unmount at the end of the block."""
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", *arguments, str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextmanager
def ext4(folder: Path, mebibytes: int, *options: str) -> Iterator[Path]:
    """Mount a new ext4 of this size, which is stored in a file."""
    image = folder / "image"
    with image.open("wb") as file:
        file.truncate(mebibytes << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True)
    with mounted(folder / "ext4", "-o", ",".join(["loop", *options]), str(image)) as place:
        yield place
