"""Staging: a dataset copied to where it is read faster, first planned and measured, at last verified."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple

FASTER = 1.2
"""A target that does not read this much faster than the source is not worth the copy."""


class Plan(NamedTuple):
    """What a copy would do. source, target: whole paths; the target is the new path of the same name.

    there_*: already copied, of the same size and time. differing: files of the target that are others; first_differing
    is one. links: symbolic links, copied as they are; back_links: of these those that lead back into the source.
    others: pipes, sockets and devices, left out. room_bytes: what may be written until the floor is reached, None
    unknown; inodes: files that may be made, None where the filesystem sets no number. memory: whether the target lies
    in memory, which then holds room_bytes at most. swap: whether that memory can be swapped out. same_disk: what both
    ends lie on, "" when that is not the same or not known.
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
    """Bytes per second, measured past the page cache on a sample; None could not be measured.

    sample_files, sample_bytes: what of the source was read. direct: whether the page cache was gone round (O_DIRECT)
    rather than emptied of the sample first. too_small: whether the sample is too small to compare by.
    """

    source_read: float | None = None
    target_write: float | None = None
    target_read: float | None = None
    sample_files: int = 0
    sample_bytes: int = 0
    direct: bool = False
    too_small: bool = False

    @property
    def gain(self) -> float | None:
        """How many times as fast the target reads; None unknown."""
        if self.too_small or not (self.source_read and self.target_read):
            return None
        return self.target_read / self.source_read

    def seconds(self, left_bytes: int) -> float | None:
        """How long the copy takes; None unknown."""
        rates = [rate for rate in (self.source_read, self.target_write) if rate]
        return left_bytes / min(rates) if len(rates) == 2 else None


class Verified(NamedTuple):
    """What was compared. checked_files, checked_bytes: by content; the others by size. wrong: that are not alike."""

    files: int = 0
    checked_files: int = 0
    checked_bytes: int = 0
    wrong: int = 0
    first_wrong: str = ""
