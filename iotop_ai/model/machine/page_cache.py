"""The page cache: what of a dataset lies in it, and what dropping or evicting did."""

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
    """What of a dataset lies in memory.

    files, size_bytes: of its regular files, each counted once however many names it has. resident_bytes: of those of
    which it is known; unknown_files, unknown_bytes: of the others. unreadable: entries that could not be looked at,
    first_unreadable: one of them and why. elsewhere: folders on other filesystems, left out.
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
        """Bytes of the files of which it is known."""
        return self.size_bytes - self.unknown_bytes

    @property
    def resident_ratio(self) -> float | None:
        """Share in memory of what is known; None when nothing is, or nothing has a size."""
        return self.resident_bytes / self.known_bytes if self.known_bytes > 0 else None


class Effect(NamedTuple):
    """What a drop did. sync_s: writing out what was dirty; drop_s: the drop itself."""

    level: int
    before: Levels
    after: Levels
    sync_s: float
    drop_s: float


class Evicted(NamedTuple):
    """What an eviction did. files: asked for; before_bytes, after_bytes: in memory, of those of which it is known.

    unknown_files: evicted, but this user may not read how much of them was or is in memory.
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
