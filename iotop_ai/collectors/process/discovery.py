"""Finds new processes without listing /proc in each tick.

The last field of /proc/loadavg is the newest PID in the reader's PID namespace (fs/proc/loadavg.c), so an unchanged
field means that no process has started. Every ``RECONCILE`` ticks, a listing checks that /proc and /proc/loadavg show
the same PID namespace.
"""

from __future__ import annotations

from collections.abc import Container

from iotop_ai.collectors.io.root import KeptFile, Root

MOST_PROBED = 300
"""The most new PIDs that are tried one by one. If there are more, listing /proc is cheaper."""
RECONCILE = 30
"""The most ticks between two listings of /proc."""
MOST_RETRIED = 16
"""How many of the newest PIDs are tried once more if they are missing.

The kernel assigns a PID before the new process appears in /proc.
"""


class PidDiscovery:
    """Finds the PIDs of processes that may have started since the last call of ``find``.

    listed: all PIDs, if the last call of ``find`` listed /proc; otherwise None.
    """

    def __init__(self, root: Root) -> None:
        self._root = root
        self._live = root.live
        self._file: KeptFile | None = None
        self._last: int | None = None
        """The newest PID at the last call of ``find``; None when it is unknown."""
        self._due = 0
        """The number of ticks until /proc is listed again."""
        self._mismatch_ticks = 0
        """The number of further ticks that list /proc, because /proc/loadavg did not announce a new process."""
        self._probe_again: list[int] = []
        self._probed_twice: frozenset[int] = frozenset()
        """The PIDs that the last ``find`` tried for the second time; they are not tried a third time."""
        self.listed: set[int] | None = None

    def find(self, known_pids: Container[int], *, always: bool = False) -> list[int]:
        """Return the PIDs that are not in ``known_pids``.

        Unless /proc was listed, some of them may belong to threads or to processes that have exited. always: whether to
        list /proc even if no process seems to have started.
        """
        before, now = self._last, self._last_pid()
        self._due -= 1
        if always or self._mismatch_ticks > 0 or self._due <= 0 or before is None or now is None:
            return self._list(known_pids, before, now)
        if not 0 <= now - before <= MOST_PROBED:
            return self._list(known_pids, before, now)
        self.listed = None
        self._last = now
        again, self._probe_again = self._probe_again, []
        self._probed_twice = frozenset(again)
        # After the PIDs have wrapped around, a PID in ``again`` may also be one of the new PIDs: return it only once.
        return [pid for pid in dict.fromkeys((*again, *range(before + 1, now + 1))) if pid not in known_pids]

    def retry_missing(self, pids: list[int]) -> None:
        """Try missing PIDs again in the next tick if they are among the newest. Their fork may not be complete yet."""
        if self.listed is None and self._last is not None:
            self._probe_again += [
                pid for pid in pids if pid > self._last - MOST_RETRIED and pid not in self._probed_twice
            ]

    def probe_again(self, pid: int) -> None:
        """Try the PID in the next tick, also if no process starts."""
        self._probe_again.append(pid)

    def close(self) -> None:
        """Close /proc/loadavg."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _list(self, known_pids: Container[int], before: int | None, now: int | None) -> list[int]:
        pids = {int(name) for name in self._root.names("proc") if name.isdecimal()}
        if not pids:  # the listing failed, for lack of a free descriptor
            self.listed = None
            return []
        new = sorted(pid for pid in pids if pid not in known_pids)
        self._mismatch_ticks -= 1
        if before is not None:
            after = self._last_pid()
            if after is None or not all(self._is_new(pid, before, after) for pid in new):
                self._mismatch_ticks = RECONCILE
        self.listed = pids
        self._last = now
        self._due = RECONCILE
        self._probe_again = []
        return new

    def _is_new(self, pid: int, before: int, after: int) -> bool:
        """Whether a process that starts while the newest PID goes from ``before`` to ``after`` may have this PID."""
        if pid in self._probe_again:
            return True
        return before < pid <= after if after >= before else pid > before or pid <= after

    def _last_pid(self) -> int | None:
        """Return the newest PID; None when it is unknown or never changes.

        It never changes in a saved copy of /proc, nor in gVisor, where it is always 0.
        """
        if not self._live:
            return None
        try:
            if self._file is None:
                self._file = self._root.keep("proc/loadavg", 512)
            return int(self._file.read_record().rpartition(b" ")[2]) or None
        except (OSError, ValueError):
            return None
