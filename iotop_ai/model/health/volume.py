"""The reasons why a RAID volume has no health of its own: its disks, behind the controller, have one."""

from __future__ import annotations

NOT_QUERIED = "a RAID volume: it has no health of its own"
"""The reason if none of the disks behind the volume is queried."""
DISKS_QUERIED = "a RAID volume: the disks behind it are queried"
"""The reason if disks behind the volume are queried and named after it: "sda/megaraid,3"."""
_ON = " on "


def disks_queried_on(bus: str) -> str:
    """The reason if disks behind the volume are queried and named after their bus: "bus/0/megaraid,3".

    bus: "bus/0", or the node of the controller: "sg2", whose disks are "sg2/areca,1".
    """
    return f"{DISKS_QUERIED}{_ON}{bus}"


def bus_in(reason: str) -> str:
    """The bus in a reason that ``disks_queried_on`` made, such as "bus/0"; "" for any other reason."""
    return reason.removeprefix(DISKS_QUERIED + _ON) if reason.startswith(DISKS_QUERIED + _ON) else ""
