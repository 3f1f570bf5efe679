"""Decides when to write again to a file after an error, and when to replace it by another file."""

from __future__ import annotations

PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0)
"""The pause before each further try to write to a file, in seconds. After a reset, a path or controller is back within
seconds, and the kernel itself retries before it returns EIO (SCSI: 5 tries of 30 s)."""
LONGEST_PAUSE_S = 60.0
"""The longest pause between tries to begin a new file, in seconds."""


class Retries:
    """Counts consecutive failures. Times are monotonic ns."""

    def __init__(self) -> None:
        self._failures = 0
        self._next_ns = 0

    @property
    def failing(self) -> bool:
        """Whether the last try failed."""
        return self._failures > 0

    @property
    def given_up(self) -> bool:
        """Whether all tries for the file failed."""
        return self._failures > len(PAUSES_S)

    def give_up(self) -> None:
        """Count all tries for the file as failed, so that a new file is tried at once."""
        self._failures, self._next_ns = len(PAUSES_S) + 1, 0

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
        self._next_ns = now_ns + int(pause_s * 1e9)
        return pause_s

    def reset(self) -> None:
        """Forget the failures after a success."""
        self._failures, self._next_ns = 0, 0
