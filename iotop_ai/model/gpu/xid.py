"""Xids by the action that they require: on the board, in the program, or none. Any other Xid has to be looked up.

Source: https://docs.nvidia.com/deploy/xid-errors/.
"""

from __future__ import annotations

OF_THE_BOARD = frozenset((46, 48, 54, 61, 62, 64, 74, 79, 95, 119, 120, 140))
"""A fault of the board, its power, its slot or its links, which needs a reset, a repair or a replacement."""
OF_THE_PROGRAM = frozenset((13, 31, 43, 45, 94))
"""The program caused the fault, or has to restart."""
MENDED = frozenset((63, 92))
"""The board has repaired the fault: it remapped a row or corrected errors."""

ASKS_RECOVERY = 154
"""The driver changes the recovery that it asks for; this Xid comes with others."""


def replaces(number: int, earlier: int) -> bool:
    """Whether an Xid replaces an earlier one: only another fault of the board replaces a fault of the board."""
    return number in OF_THE_BOARD or earlier not in OF_THE_BOARD
