"""Xids by the required action: on the board, or none; the others are mostly errors of the program.

Source: https://docs.nvidia.com/deploy/xid-errors/.
"""

from __future__ import annotations

OF_THE_BOARD = frozenset((46, 48, 61, 62, 64, 74, 79, 95, 119, 120))
"""The board, its slot or its links: it needs a reset, a repair or a replacement."""
MENDED = frozenset((63, 92))
"""The board has repaired it: a row was remapped, errors were corrected."""
