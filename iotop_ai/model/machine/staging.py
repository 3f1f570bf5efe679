"""Staging: copying a dataset to faster storage, after a plan and a measurement and with a verification."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple

FASTER = 1.2
"""A target that does not read this much faster than the source is not worth the copy."""


class Plan(NamedTuple):
    """The plan of a copy.

    source, target: whole paths; the target is the new path of the same name. there_*: already copied, with the same
    size and time. differing: other files of the target with these names; first_differing is one. links: symbolic links,
    copied as they are; back_links: those of them that lead back into the source. others: pipes, sockets and devices,
    left out. room_bytes: bytes that may be written above the floor, None unknown; inodes: files that may be created,
    None without a limit. memory: whether the target is in memory, which then holds room_bytes at most. swap: whether
    that memory can be swapped out. same_disk: the storage common to both ends, "" when none or unknown.
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

    @property
    def left_bytes(self) -> int:
        """Bytes still to be copied."""
        return self.size_bytes - self.there_bytes

    @property
    def left_files(self) -> int:
        """Files still to be copied."""
        return self.files - self.there_files

    @property
    def fits(self) -> bool | None:
        """Whether it fits; None unknown."""
        if self.room_bytes is None:
            return None
        new = self.left_files + self.folders + self.links
        return self.left_bytes <= self.room_bytes and (self.inodes is None or new <= self.inodes)


class Speed(NamedTuple):
    """Bytes per second, measured past the page cache on a sample; None if not measurable.

    sample_files, sample_bytes: the part of the source that was read. direct: whether the page cache was bypassed
    (O_DIRECT) instead of emptied of the sample first. too_small: whether the sample is too small for a comparison.
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
        """The target's read speed over the source's; None unknown."""
        if self.too_small or not (self.source_read and self.target_read):
            return None
        return self.target_read / self.source_read

    def seconds(self, left_bytes: int) -> float | None:
        """Duration of the copy; None unknown."""
        rates = [rate for rate in (self.source_read, self.target_write) if rate]
        return left_bytes / min(rates) if len(rates) == 2 else None


class Verified(NamedTuple):
    """The result of the comparison.

    checked_files, checked_bytes: compared by content; the others by size. wrong: files that differ.
    """

    files: int = 0
    checked_files: int = 0
    checked_bytes: int = 0
    wrong: int = 0
    first_wrong: str = ""
