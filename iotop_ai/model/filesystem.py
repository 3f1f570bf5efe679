"""Fullness of the mounts that matter, statvfs in bytes and inodes; and which filesystems come from elsewhere."""

from __future__ import annotations

from iotop_ai.model.counter import quotient
from iotop_ai.model.record import NamedTuple

NETWORK = (
    *("nfs", "cifs", "smb", "lustre", "ceph", "gluster", "beegfs", "gpfs", "afs", "orangefs", "weka", "panfs"),
    *("9p", "virtiofs"),
)
"""Beginnings of the types of filesystems whose data comes from another machine."""


def is_remote(fstype: str) -> bool:
    """Whether a filesystem's data comes over a network or from a FUSE server, so that asking it may hang."""
    if fstype.startswith("fuse"):
        return fstype != "fuseblk"  # that one lies on a block device
    return fstype.startswith(NETWORK) and fstype != "nfsd"  # that one is the server's own


class FilesystemUsage(NamedTuple):
    """statvfs of one mount. used counts reserved blocks as used by root only: used = total - free, as df does.

    inodes_total 0: the filesystem has no fixed number of inodes.
    """

    total_bytes: int
    free_bytes: int
    available_bytes: int
    inodes_total: int
    inodes_free: int

    @property
    def used_ratio(self) -> float | None:
        """df's Use%: used / (used + available), 0..1; None for a filesystem of size 0."""
        used = self.total_bytes - self.free_bytes
        return quotient(used, used + self.available_bytes)

    @property
    def inodes_used_ratio(self) -> float | None:
        """Share of inodes in use, 0..1; None where their number is not fixed."""
        return quotient(self.inodes_total - self.inodes_free, self.inodes_total)
