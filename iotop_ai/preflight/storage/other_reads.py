"""Measures how much other programs read from the disks during a storage check, because such reads slow the check."""

from __future__ import annotations

from resource import RUSAGE_CHILDREN, getrusage

from iotop_ai.collectors.io.root import Root
from iotop_ai.model.preflight.place import Place

_SECTOR = 512
_READ_SECTORS = 2
"""The index of the field in /sys/class/block/NAME/stat that counts the sectors read."""
_LEAST_BYTES = 1 << 20
"""If fewer bytes than this were read from the disks, the ratio is unknown, because it would mean little."""


class OtherReads:
    """Counts the disks' reads since its creation. Create it before the check's child starts."""

    def __init__(self, place: Place, root: Root) -> None:
        # Some reads of a loop device come from the page cache of its file, and do not reach the disk below.
        self._disks = (place.device,) if place.device.startswith("loop") else place.disks
        self._root = root
        self._read, self._own = self._read_bytes(), _own_bytes()

    def ratio(self) -> float | None:
        """Return the share of the disks' reads that other programs made; None if unknown.

        Call it after the check's child has been waited for: RUSAGE_CHILDREN contains the child's reads only then.
        """
        before, after = self._read, self._read_bytes()
        if before is None or after is None or after - before < _LEAST_BYTES:
            return None
        return max(0.0, 1 - (_own_bytes() - self._own) / (after - before))

    def _read_bytes(self) -> int | None:
        try:
            stats = [self._root.read(f"sys/class/block/{disk}/stat").split() for disk in self._disks]
            return sum(int(stat[_READ_SECTORS]) for stat in stats) * _SECTOR if stats else None
        except (OSError, ValueError, IndexError):
            return None


def _own_bytes() -> int:
    return getrusage(RUSAGE_CHILDREN).ru_inblock * _SECTOR
