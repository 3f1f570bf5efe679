"""Decides when to write again to a file after an error, and when to replace it by another file."""

from __future__ import annotations

PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0)
"""The pause before each further try to write to a file, in seconds. After a reset, a path or controller is back within
seconds, and the kernel itself retries before it returns EIO (SCSI: 5 tries of 30 s)."""
LONGEST_PAUSE_S = 60.0
"""The longest pause between tries to begin a new file, in seconds."""


class Retries:
    """Counts the failures since the last sync. Times are monotonic ns."""

    def __init__(self) -> None:
        self.failing = False
        """Whether the last try failed."""
        self._failures = 0
        self._next_ns = 0

    @property
    def given_up(self) -> bool:
        """Whether all tries for the file failed."""
        return self._failures > len(PAUSES_S)

    def give_up(self) -> None:
        """Let the next failure be the last for this file: a new file is tried after it."""
        self._failures = max(self._failures, len(PAUSES_S))

    def due(self, now_ns: int) -> bool:
        """Whether it is time for the next try."""
        return now_ns >= self._next_ns

    def count_failure(self, now_ns: int) -> float:
        """Count a failure; return the seconds until the next try."""
        further = self._failures - len(PAUSES_S)
        if further < 0:
            pause_s = PAUSES_S[self._failures]
        else:  # after the last try for this file there is no pause, because a new file may work
            pause_s = min(LONGEST_PAUSE_S, PAUSES_S[-1] * 2.0 ** min(further, 8)) if further else 0.0
        self._failures += 1
        self.failing = True
        self._next_ns = now_ns + int(pause_s * 1e9)
        return pause_s

    def count_write(self) -> None:
        """Note that a write worked. The failures still count, because the data may be lost until a sync works."""
        self.failing = False

    def reset(self) -> None:
        """Forget the failures after a sync worked."""
        self.failing, self._failures, self._next_ns = False, 0, 0
