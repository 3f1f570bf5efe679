"""Warns on stderr about a packed recording that is cut off, as the result of an unfinished copy is."""

from __future__ import annotations

from iotop_ai.cli.stderr import print_notice
from iotop_ai.model.clean import clean
from iotop_ai.playback.selection import RecordedFrames

_PART = ".part"
"""The suffix of a file that is still being written."""


def warn_of_truncation(recording: RecordedFrames) -> None:
    """Print a line for each file that is cut off.

    A file that is not packed may end anywhere, because it still grows.
    """
    for part in recording.source.parts:
        if part.cut_bytes and not part.path.endswith(_PART):
            many = "byte is" if part.cut_bytes == 1 else f"{part.cut_bytes} bytes are"
            print_notice(f"{clean(part.path)} is cut off: its last {many} left out, and what followed is missing")
