"""New processes without listing /proc each tick.

The last field of /proc/loadavg is the last pid handed out in the reader's pid namespace (fs/proc/loadavg.c), so an
unchanged field means that nothing was started. A listing every ``RECONCILE`` ticks checks that the field speaks of
the same namespace as the listing.
"""

from __future__ import annotations

from collections.abc import Container

from iotop_ai.collectors.root import KeptFile, Root

MOST_PROBED = 300
"""Pids handed out since the last tick above which one listing is cheaper than probing each."""
RECONCILE = 30
"""Ticks between two listings."""
MID_FORK = 16
"""Of the newest pids, those not there yet are probed once more: a pid is handed out before it can be seen."""


class NewPids:
    """Which pids may have appeared since the last look.

    ``listed``: after a look, the set of all pids when it listed /proc, else None.
    """

    def __init__(self, root: Root) -> None:
        self._root = root
        self._live = root.live
        self._file: KeptFile | None = None
        self._last: int | None = None
        self._due = 0
        self._distrust = 0
        self._again: list[int] = []
        self._repeated: frozenset[int] = frozenset()
        self.listed: set[int] | None = None

    def look(self, known: Container[int], *, always: bool = False) -> list[int]:
        """Pids to admit, ascending, none of them known; some may be threads or gone unless ``listed`` is set.

        always: list /proc in this look.
        """
        before, now = self._last, self._last_pid()
        self._due -= 1
        if always or self._distrust > 0 or self._due <= 0 or before is None or now is None:
            return self._list(known, before, now)
        if not 0 <= now - before <= MOST_PROBED:
            return self._list(known, before, now)
        self.listed = None
        self._last = now
        again, self._again = self._again, []
        self._repeated = frozenset(again)
        return [pid for pid in (*again, *range(before + 1, now + 1)) if pid not in known]

    def missing(self, pids: list[int]) -> None:
        """Probed pids that nobody has: the newest of them may be in the middle of fork."""
        if self.listed is None and self._last is not None:
            self._again += [pid for pid in pids if pid > self._last - MID_FORK and pid not in self._repeated]

    def ended(self, pid: int) -> None:
        """A known process is no more. Its pid may already have a new owner, which was taken for the old one."""
        self._again.append(pid)

    def close(self) -> None:
        """Give the descriptor back."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _list(self, known: Container[int], before: int | None, now: int | None) -> list[int]:
        pids = {int(name) for name in self._root.names("proc") if name.isdecimal()}
        if not pids:  # the listing failed (no descriptor was free): nobody is known to have ended
            self.listed = None
            return []
        new = sorted(pid for pid in pids if pid not in known)
        self._distrust -= 1
        if before is not None:
            after = self._last_pid()
            if after is None or not all(self._handed_out(pid, before, after) for pid in new):
                self._distrust = RECONCILE
        self.listed = pids
        self._last = now
        self._due = RECONCILE
        self._again = []
        return new

    def _handed_out(self, pid: int, before: int, after: int) -> bool:
        if pid in self._again:
            return True
        return before < pid <= after if after >= before else pid > before or pid <= after

    def _last_pid(self) -> int | None:
        """None when it cannot be read, and in a captured tree, where it tells nothing about the next look."""
        if not self._live:
            return None
        try:
            if self._file is None:
                self._file = self._root.keep("proc/loadavg", 512)
            return int(self._file.read().rpartition(b" ")[2])
        except (OSError, ValueError):
            return None
