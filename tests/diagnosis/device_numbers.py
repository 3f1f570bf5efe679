"""The device numbers of made-up disks."""

from __future__ import annotations

import re


def minor_of(name: str) -> int:
    """The minor number as the kernel counts it: 0 for sda, 1 for sda1, 16 for sdb; else the name's first number."""
    letter = re.fullmatch(r"[sv]d([a-z])(\d*)", name)
    if letter is not None:
        return 16 * (ord(letter[1]) - ord("a")) + int(letter[2] or 0)
    return int((re.findall(r"\d+", name) or [0])[0])
