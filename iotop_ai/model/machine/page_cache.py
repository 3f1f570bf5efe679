"""The page cache: how much of a dataset it holds, and the effect of a drop or an eviction."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple

CACHES = {1: "page cache", 2: "dentries and inodes", 3: "page cache, dentries and inodes"}
"""What each value of vm.drop_caches drops."""


class Levels(NamedTuple):
    """Memory now, in bytes; None: this kernel does not print it."""

    cached_bytes: int | None
    slab_reclaimable_bytes: int | None
    free_bytes: int | None
    available_bytes: int | None
    dirty_bytes: int | None
    total_bytes: int | None


class Cached(NamedTuple):
    """The part of a dataset in memory.

    files, size_bytes: its regular files, each counted once however many names it has. resident_bytes: over the files
    whose state is known; unknown_files, unknown_bytes: the others. unreadable: entries that could not be examined,
    first_unreadable: one of them with its error. elsewhere: folders left out because they are on other filesystems.
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
        """Bytes of the files whose state is known."""
        return self.size_bytes - self.unknown_bytes

    @property
    def resident_ratio(self) -> float | None:
        """Share of the known bytes that is in memory; None without known bytes."""
        return self.resident_bytes / self.known_bytes if self.known_bytes > 0 else None


class Effect(NamedTuple):
    """The effect of a drop. sync_s: duration of the write-out; drop_s: of the drop itself."""

    level: int
    before: Levels
    after: Levels
    sync_s: float
    drop_s: float


class Evicted(NamedTuple):
    """The effect of an eviction.

    files: all of them; before_bytes, after_bytes: in memory, over the files whose state is known. unknown_files:
    evicted, but this user may not know how much of them was or is in memory.
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
