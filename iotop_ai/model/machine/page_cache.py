"""The page cache: how much of a dataset is in it, and the effect of dropping or evicting it."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple

CACHES = {1: "page cache", 2: "dentries and inodes", 3: "page cache, dentries and inodes"}
"""The caches that the kernel drops for each value of vm.drop_caches."""


class Levels(NamedTuple):
    """Memory figures in bytes at one moment; None if this kernel does not print the figure."""

    cached_bytes: int | None
    slab_reclaimable_bytes: int | None
    free_bytes: int | None
    available_bytes: int | None
    dirty_bytes: int | None
    total_bytes: int | None


class Cached(NamedTuple):
    """The part of a dataset that is in memory.

    top: the folder or file that was examined
    files, size_bytes: the regular files; a file with several names counts once
    resident_bytes: the bytes in memory of the files whose state is known
    unknown_files, unknown_bytes: the files whose state is unknown
    unreadable: the number of entries that could not be examined
    first_unreadable: one of these entries, with its error
    elsewhere: the number of folders left out because they are on other filesystems
    """

    top: str
    files: int = 0
    size_bytes: int = 0
    resident_bytes: int = 0
    unknown_files: int = 0
    unknown_bytes: int = 0
    unreadable: int = 0
    first_unreadable: str = ""
    elsewhere: int = 0

    @property
    def known_bytes(self) -> int:
        """The bytes of the files whose state is known."""
        return self.size_bytes - self.unknown_bytes

    @property
    def resident_ratio(self) -> float | None:
        """The share of the known bytes that is in memory; None without known bytes."""
        return self.resident_bytes / self.known_bytes if self.known_bytes > 0 else None


class Effect(NamedTuple):
    """The effect of dropping caches.

    level: the value of vm.drop_caches, a key of CACHES
    sync_s: the seconds that the sync before the drop took
    drop_s: the seconds that the drop itself took
    """

    level: int
    before: Levels
    after: Levels
    sync_s: float
    drop_s: float


class Evicted(NamedTuple):
    """The effect of evicting a dataset from the page cache.

    files, size_bytes: the files that were evicted; a file with several names counts once
    before_bytes, after_bytes: the bytes in memory of the files whose state is known
    unknown_files: the number of evicted files whose state this user cannot see
    top, unreadable, first_unreadable, elsewhere: as in Cached
    """

    top: str
    files: int = 0
    size_bytes: int = 0
    before_bytes: int = 0
    after_bytes: int = 0
    unknown_files: int = 0
    unreadable: int = 0
    first_unreadable: str = ""
    elsewhere: int = 0
