"""Warns on stderr about a packed recording that is cut off, as an unfinished copy is."""

from __future__ import annotations

import sys

from iotop_ai.model.clean import clean
from iotop_ai.playback.selection import RecordedFrames

_PART = ".part"
"""The end of the name of a file that is being written."""


def warn_of_cut(played: RecordedFrames) -> None:
    """One line for each file that is cut off. The rest is read. A plain file may end anywhere: it grows."""
    for part in played.source.parts:
        if part.cut_bytes and not part.path.endswith(_PART):
            many = "byte is" if part.cut_bytes == 1 else f"{part.cut_bytes} bytes are"
            print(
                f"{clean(part.path)} is cut off: its last {many} left out, and what followed is missing",
                file=sys.stderr,
            )
