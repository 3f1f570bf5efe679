"""Notices that another disk has taken the name of a disk in the kernel log."""

from __future__ import annotations

from iotop_ai.collectors.io.root import Root
from iotop_ai.lazy.namedtuple import NamedTuple


class _Identity(NamedTuple):
    """The identity of a disk apart from its name. A field is "" when it is unknown.

    number: /sys/block/X/diskseq (Linux 5.15), which is new each time a disk is connected. id: the WWID or serial number
    that the disk itself reports, which stays the same when a bad cable disconnects the disk for a moment.
    """

    number: str = ""
    id: str = ""


class ReplacedDisks:
    """Finds the names that now belong to another disk."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._known: dict[str, _Identity] = {}
        """The last known identity by name."""

    def is_replaced(self, name: str) -> bool:
        """Whether another disk or NVMe controller has taken this name since the last call for the name.

        A disk that is not connected now, or whose identity is unknown, counts as the same disk.
        """
        now, before = self._identity(name), self._known.get(name, _Identity())
        if now != _Identity():
            self._known[name] = now
        if now.number and now.number == before.number:
            return False
        pair = (before.id, now.id) if before.id and now.id else (before.number, now.number)
        return all(pair) and pair[0] != pair[1]

    def _identity(self, name: str) -> _Identity:
        base = f"sys/block/{name.replace('/', '!')}"
        places = (f"{base}/wwid", f"{base}/device/wwid", f"{base}/serial", f"sys/class/nvme/{name}/serial")
        number = self._root.text_or(f"{base}/diskseq")
        return _Identity(number, next(filter(None, map(self._root.text_or, places)), ""))
