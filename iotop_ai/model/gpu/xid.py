"""Xids by the required action: on the board, in the program, or none; any other is looked up.

Source: https://docs.nvidia.com/deploy/xid-errors/.
"""

from __future__ import annotations

OF_THE_BOARD = frozenset((46, 48, 54, 61, 62, 64, 74, 79, 95, 119, 120, 140))
"""The board, its power, its slot or its links: it needs a reset, a repair or a replacement."""
OF_THE_PROGRAM = frozenset((13, 31, 43, 45, 94))
"""The program faulted, or has to restart."""
MENDED = frozenset((63, 92))
"""The board has repaired it: a row was remapped, errors were corrected."""

ASKS_RECOVERY = 154
"""The driver changes what it asks for; comes with other Xids."""


def replaces(number: int, earlier: int) -> bool:
    """Whether an Xid takes the place of an earlier one: a fault of the board stays until the board has another."""
    return number in OF_THE_BOARD or earlier not in OF_THE_BOARD
