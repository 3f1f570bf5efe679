"""Filesystems of several kinds to check, mounted for a test."""

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
    """``mount ARGUMENTS FOLDER`` for the block."""
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", *arguments, str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextmanager
def ext4(folder: Path, mebibytes: int, *options: str) -> Iterator[Path]:
    """A new ext4 of this size in a file."""
    image = folder / "image"
    with image.open("wb") as file:
        file.truncate(mebibytes << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True)
    with mounted(folder / "ext4", "-o", ",".join(["loop", *options]), str(image)) as place:
        yield place
