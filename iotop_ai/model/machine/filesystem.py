"""How full the relevant mounts are (statvfs, bytes and inodes), and which filesystems are remote."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.lazy.regex import pattern
from iotop_ai.model.counter import quotient

NETWORK = (
    *("nfs", "cifs", "smb", "lustre", "ceph", "gluster", "beegfs", "gpfs", "afs", "orangefs", "weka", "panfs"),
    *("9p", "virtiofs"),
)
"""Prefixes of the types of remote filesystems."""


IN_MEMORY = frozenset(("tmpfs", "ramfs", "devtmpfs", "hugetlbfs"))
"""Types of filesystems whose files are in memory."""
_FUSE_LOCAL = frozenset(
    (
        *("fuse-overlayfs", "overlayfs", "mergerfs", "unionfs", "unionfs-fuse", "mhddfs", "bindfs"),
        *("gocryptfs", "encfs", "cryfs", "securefs", "ntfs-3g", "lowntfs-3g", "ntfs", "exfat", "fuse2fs", "fuse-ext2"),
        *("ext2", "ext4", "apfs-fuse", "squashfuse", "squashfuse_ll", "snapfuse", "erofsfuse", "dwarfs", "fuseiso"),
        *("archivemount", "fuse-archive", "fuse-zip", "mount-zip", "ratarmount", "rar2fs", "lxcfs", "zfs-fuse"),
    )
)
"""Names of FUSE servers that read files and devices of this machine."""
_FUSE_REMOTE = (
    *("sshfs", "s3fs", "s3ql", "goofys", "geesefs", "mountpoint-s3", "gcsfuse", "rclone", "blobfuse", "juicefs"),
    *("glusterfs", "ceph", "curlftpfs", "davfs", "hdfs", "hadoop", "alluxio", "seaweedfs", "weed", "mfs", "moosefs"),
    *("lizardfs", "saunafs", "cvmfs", "quobyte", "objectivefs", "ossfs", "cosfs", "obsfs", "dfuse", "curvefs"),
    *("smbnetfs", "jindo", "cunofs", "onedriver", "google-drive", "yas3fs", "tigrisfs", "fluid"),
)
"""Prefixes of the names of FUSE servers with remote data."""
_OTHER_HOST = pattern(r"[^/\s]+:.*")
"""Matches a mount's source that names another machine: "host:/dir", "user@host:", "s3://bucket", "remote:path"."""


def is_fuse(fstype: str) -> bool:
    """Whether a program serves the filesystem (FUSE). False for fuseblk, whose data is on a block device."""
    return fstype == "fuse" or fstype.startswith("fuse.")


def fuse_is_remote(fstype: str, source: str) -> bool | None:
    """Whether the data of a FUSE server is remote, judged by the server's name and source; None if unknown.

    The kernel does not know this: the server itself chooses its subtype ("fuse.sshfs") and source.
    """
    name = fstype.partition(".")[2].lower()
    if name in _FUSE_LOCAL or name.endswith(".appimage"):
        return False
    # Without a subtype, the source is the server's name or any text that the server chose.
    if (name or source.lower()).startswith(_FUSE_REMOTE) or _OTHER_HOST.fullmatch(source):
        return True
    if source.startswith("/") or source.lower() in _FUSE_LOCAL:
        return False
    return None


def is_remote(fstype: str, source: str = "") -> bool:
    """Whether a filesystem is known to be remote, so that a query may hang."""
    if is_fuse(fstype):
        return fuse_is_remote(fstype, source) is True
    return fstype.startswith(NETWORK) and fstype != "nfsd"  # nfsd is the control filesystem of the NFS server


_UNKNOWN_INODES = 2**64 - 1


class FilesystemUsage(NamedTuple):
    """The result of statvfs for one mount.

    Used space is total - free, as in df: blocks reserved for root are free until root uses them. The number of inodes
    is not fixed if inodes_total is 0 or 2^64-1, or less than inodes_free (CephFS reports -1).
    """

    total_bytes: int
    free_bytes: int
    available_bytes: int
    inodes_total: int
    inodes_free: int

    @property
    def used_ratio(self) -> float | None:
        """df's Use%: used / (used + available), 0 to 1; None for a filesystem of size 0."""
        used = self.total_bytes - self.free_bytes
        return quotient(used, used + self.available_bytes)

    @property
    def inodes_used_ratio(self) -> float | None:
        """The share of inodes in use, 0 to 1; None without a fixed number of inodes."""
        if self.inodes_free > self.inodes_total or self.inodes_total >= _UNKNOWN_INODES:
            return None
        return quotient(self.inodes_total - self.inodes_free, self.inodes_total)
