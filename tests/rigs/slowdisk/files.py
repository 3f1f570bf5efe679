"""A dataset on a slow disk."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.rigs.slowdisk.fuse import FuseDisk


@contextmanager
def slow_files(folder: Path, count: int) -> Iterator[Path]:
    """Files of 32 KB on an ext4 filesystem. Its disk takes 10 ms for each request, and serves several at once."""
    rig, mount = folder / "rig", folder / "set"
    rig.mkdir()
    mount.mkdir()
    with FuseDisk(rig, 48 + count * 38 // 1000) as disk:
        subprocess.run(["mkfs.ext4", "-q", "-F", disk.node], check=True)
        subprocess.run(["mount", disk.node, str(mount)], check=True)
        try:
            for number in range(count):
                (mount / f"{number:04}.bin").write_bytes(os.urandom(32 << 10))
            os.sync()
            disk.set(delay_us=10_000)
            yield mount
        finally:
            disk.set()
            subprocess.run(["umount", str(mount)], check=True)
