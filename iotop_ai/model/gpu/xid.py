"""Xids (numbers of errors that NVIDIA's driver reports), grouped by what has to be repaired: the board, the program, or
nothing. Other Xids have to be looked up.

Source: https://docs.nvidia.com/deploy/xid-errors/.
"""

from __future__ import annotations

OF_THE_BOARD = frozenset((46, 48, 54, 61, 62, 64, 74, 79, 95, 119, 120, 140))
"""Xids that report a fault of the board, its power, its slot or its links: it needs a reset, a repair or a replacement.
"""
OF_THE_PROGRAM = frozenset((13, 31, 43, 45, 94))
"""Xids that report a fault of the program, or after which the program has to restart."""
REPAIRED = frozenset((63, 92))
"""Xids that report a fault which the board has repaired: it remapped a row or corrected errors."""

ASKS_RECOVERY = 154
"""The Xid that reports the recovery which the driver now asks for. It accompanies other Xids."""


def replaces(number: int, earlier: int) -> bool:
    """Whether an Xid is shown instead of an earlier one: only a fault of the board replaces a fault of the board."""
    return number in OF_THE_BOARD or earlier not in OF_THE_BOARD
