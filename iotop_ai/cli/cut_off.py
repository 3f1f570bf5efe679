"""Says on stderr that a packed recording is not whole: a copy that was not finished."""

from __future__ import annotations

import sys

from iotop_ai.model.clean import clean
from iotop_ai.playback.selection import RecordedFrames

_PART = ".part"
"""How the name of a file ends that is being written."""


def warn_of_cut(played: RecordedFrames) -> None:
    """One line for each file that is cut off. What is left of it is read; of a plain file, that is normal: it grows."""
    for part in played.source.parts:
        if part.cut_bytes and not part.path.endswith(_PART):
            many = "byte is" if part.cut_bytes == 1 else f"{part.cut_bytes} bytes are"
            print(
                f"{clean(part.path)} is cut off: its last {many} left out, and what followed is missing",
                file=sys.stderr,
            )
