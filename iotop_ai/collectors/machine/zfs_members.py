"""Finds the block devices of ZFS pools in udev's database, since /proc and /sys do not list them.

Source: udev(7); in /run/udev/data/bMAJOR:MINOR, blkid sets ID_FS_TYPE=zfs_member and ID_FS_LABEL (the pool). A thread
reads these files, because they are outside /proc and /sys.
"""

from __future__ import annotations

from collections.abc import Mapping

from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.io.with_timeout import BackgroundWorker
from iotop_ai.model.clean import clean_bytes

FOLDER = "run/udev/data"
_MOST_DEVICES = 4096


def parse_udev(raw: bytes) -> str:
    """Return the pool in ``E:ID_FS_LABEL=tank`` if there is ``E:ID_FS_TYPE=zfs_member``; "" for other devices."""
    fields = dict(line[2:].split(b"=", 1) for line in raw.splitlines() if line.startswith(b"E:") and b"=" in line)
    return clean_bytes(fields.get(b"ID_FS_LABEL", b"")) if fields.get(b"ID_FS_TYPE") == b"zfs_member" else ""


class ZfsMembers:
    """Finds the disks of ZFS pools on a thread of its own.

    pools: the pool by device number ("8:1"). When the content changes, a new mapping replaces the old one.
    """

    def __init__(self, root: Root) -> None:
        self._root = root
        self._worker = BackgroundWorker("udev")
        self.pools: Mapping[str, str] = {}

    def ask(self) -> None:
        """Start a read on the thread; do nothing while the previous read is running."""
        self._worker.submit(self._read)

    def wait(self, seconds: float) -> bool:
        """Wait at most ``seconds`` for the result; return whether it has arrived."""
        return self._worker.wait(seconds)

    def close(self) -> None:
        """End the thread."""
        self._worker.close()

    def _read(self) -> None:
        pool_by_number = {}
        # Only block devices begin with "b"; the names of other devices begin with "c", "n" or "+" ("+pci:...").
        for name in [name for name in self._root.names(FOLDER) if name[:1] == "b"][:_MOST_DEVICES]:
            try:
                pool = parse_udev(self._root.read_once(f"{FOLDER}/{name}", 16_384))
            except OSError:
                continue
            if pool:
                pool_by_number[name[1:]] = pool
        if pool_by_number != self.pools:
            self.pools = pool_by_number
