"""Distinguishes a disk from another disk that later gets the same kernel name."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.health.smart import SmartState


class DiskIdentity(NamedTuple):
    """A disk's identity; 0 and "" stand for unknown parts.

    diskseq: the number in /sys/block/X/diskseq, which is new each time a disk is connected (Linux 5.15)
    serial: the serial number or world-wide name that the kernel has in /sys/block/X
    smart_model, smart_serial, smart_wwn: what the disk itself reports to smartctl. The serial number alone is not
        enough, because on some models several disks have the same one.
    """

    diskseq: int = 0
    serial: str = ""
    smart_model: str = ""
    smart_serial: str = ""
    smart_wwn: str = ""

    def is_other(self, now: DiskIdentity) -> bool:
        """Whether ``now`` is another disk, or the same disk connected again. Unknown parts are not compared."""
        return any(one and other and one != other for one, other in zip(self, now, strict=True))

    def completed(self, other: DiskIdentity) -> DiskIdentity:
        """This identity, with its unknown parts taken from ``other``."""
        return DiskIdentity(
            self.diskseq or other.diskseq,
            self.serial or other.serial,
            self.smart_model or other.smart_model,
            self.smart_serial or other.smart_serial,
            self.smart_wwn or other.smart_wwn,
        )


def answered_identity(state: SmartState) -> DiskIdentity:
    """The identity that the disk itself reports."""
    return DiskIdentity(smart_model=state.model, smart_serial=state.serial, smart_wwn=state.wwn)


def replaced_disk_text(name: str) -> str:
    """The reason for refusing an action on a disk that is no longer the one the user chose."""
    return f"{name} is another disk now, or was reconnected"
