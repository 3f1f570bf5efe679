"""Records of staging: the plan, the measurement and the verification of a dataset's copy on faster storage."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple

FASTER = 1.2
"""A copy is worthwhile if the target reads at least this many times faster than the source."""

_FLOOR_SHARE, _MOST_FLOOR_BYTES = 0.05, 10 << 30
_MEMORY_FLOOR_SHARE = 0.1


def disk_floor_bytes(total_bytes: int) -> int:
    """The bytes that a copy leaves free on a filesystem: a full filesystem is slow, and other programs cannot write."""
    return int(min(total_bytes * _FLOOR_SHARE, _MOST_FLOOR_BYTES))


def memory_floor_bytes(total_bytes: int) -> int:
    """The bytes of memory that a copy leaves available, because a training job needs memory for more than its data."""
    return int(total_bytes * _MEMORY_FLOOR_SHARE)


class Plan(NamedTuple):
    """The plan of a copy.

    source, target: the full paths; the target is a new path that ends with the name of the source
    there_files, there_bytes: the files that the target already has, with the same size and time
    there_links: the number of links that the target already has, with the same content
    there_folders: the number of folders that the target already has
    differing: the number of files and links at whose path the target has something else
    first_differing: the first of these files and links
    links: the number of symbolic links, which are copied as links
    back_links: how many of the links lead back into the source
    others: the number of pipes, sockets and devices, which are left out
    elsewhere: the number of folders left out because they are on other filesystems
    room_bytes: the bytes that can be written without falling below the floor of free space; None if unknown
    inodes: the number of files that may be created; None without a limit
    memory: whether the target is in memory
    swap: whether that memory can be swapped out
    same_disk: the storage that source and target share; "" if none or unknown
    new_space_bytes: the space that the files still to be copied will occupy, in whole blocks
    """

    source: str
    target: str
    files: int = 0
    size_bytes: int = 0
    folders: int = 0
    links: int = 0
    back_links: int = 0
    others: int = 0
    there_files: int = 0
    there_bytes: int = 0
    differing: int = 0
    first_differing: str = ""
    unreadable: int = 0
    first_unreadable: str = ""
    elsewhere: int = 0
    room_bytes: int | None = None
    inodes: int | None = None
    floor_bytes: int = 0
    memory: bool = False
    swap: bool = False
    fstype: str = ""
    same_disk: str = ""
    there_links: int = 0
    new_space_bytes: int = 0
    there_folders: int = 0

    @property
    def left_bytes(self) -> int:
        """The bytes still to be copied."""
        return self.size_bytes - self.there_bytes

    @property
    def left_files(self) -> int:
        """The number of files still to be copied."""
        return self.files - self.there_files

    @property
    def left_links(self) -> int:
        """The number of links still to be copied."""
        return self.links - self.there_links

    @property
    def needed_bytes(self) -> int:
        """The space that the rest of the copy needs."""
        return max(self.left_bytes, self.new_space_bytes)

    @property
    def fits(self) -> bool | None:
        """Whether the rest of the copy fits into the target; None if unknown."""
        if self.room_bytes is None:
            return None
        new = self.left_files + self.left_links + self.folders - self.there_folders
        return self.needed_bytes <= self.room_bytes and (self.inodes is None or new <= self.inodes)


class Speed(NamedTuple):
    """Bytes per second, measured without the page cache on a sample of the source; None if not measurable.

    sample_files, sample_bytes: the size of the sample
    direct: whether the reads bypassed the page cache (O_DIRECT); otherwise the sample was evicted first
    too_small: whether the sample is too small for a comparison
    """

    source_read: float | None = None
    target_write: float | None = None
    target_read: float | None = None
    sample_files: int = 0
    sample_bytes: int = 0
    direct: bool = False
    too_small: bool = False

    @property
    def speedup(self) -> float | None:
        """The read speed of the target divided by that of the source; None if unknown."""
        if self.too_small or not (self.source_read and self.target_read):
            return None
        return self.target_read / self.source_read

    def seconds(self, left_bytes: int) -> float | None:
        """The duration of the copy; None if unknown."""
        rates = [rate for rate in (self.source_read, self.target_write) if rate]
        return left_bytes / min(rates) if len(rates) == 2 else None


class Verified(NamedTuple):
    """The result of comparing the copy with the source.

    checked_files, checked_bytes: the files whose content was compared; of all other files only the size was compared
    wrong: the number of files and links that differ
    links: the number of symbolic links
    """

    files: int = 0
    checked_files: int = 0
    checked_bytes: int = 0
    wrong: int = 0
    first_wrong: str = ""
    links: int = 0
