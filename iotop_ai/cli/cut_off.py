"""Warns on stderr about a compressed (gzip) recording that is cut off, for example by an interrupted copy."""

from __future__ import annotations

from iotop_ai.cli.stderr import print_notice
from iotop_ai.model.clean import clean
from iotop_ai.playback.selection import RecordedFrames

_PART = ".part"
"""The suffix of a file that is still being written."""


def warn_of_truncation(recording: RecordedFrames) -> None:
    """Print a line for each compressed file that is cut off.

    A plain file is not reported, because it may still grow and so may end anywhere.
    """
    for part in recording.source.parts:
        if part.cut_bytes and not part.path.endswith(_PART):
            lost = "byte is" if part.cut_bytes == 1 else f"{part.cut_bytes} bytes are"
            print_notice(f"{clean(part.path)} is cut off: its last {lost} left out, and what followed is missing")
