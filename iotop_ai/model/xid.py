"""Who has to act on an Xid: the board's owner, the program's author or nobody.

Source: https://docs.nvidia.com/deploy/xid-errors/.
"""

from __future__ import annotations

OF_THE_PROGRAM = frozenset((13, 31, 43, 45, 94))
"""Usually an error in the program; 94 is an ECC error that only the program that hit it has to care about."""
OF_THE_BOARD = frozenset((46, 48, 61, 62, 64, 74, 79, 95, 119, 120))
"""The board, its slot or its links: it needs a reset, a repair or a replacement."""
MENDED = frozenset((63, 92))
"""The board has mended it by itself: a row was remapped, errors were corrected."""
