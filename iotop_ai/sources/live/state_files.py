"""Reads the user's state folder on a separate thread, because the folder's file server may not answer."""

from __future__ import annotations

from typing import Any

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.with_timeout import BackgroundWorker
from iotop_ai.collectors.state.acknowledged import Acknowledged
from iotop_ai.model.clean import clean
from iotop_ai.model.reading import Reading, Status

READ_EVERY_NS = 4_900_000_000
"""The minimum time between two reads of the acknowledged findings, in nanoseconds. A change by this program is read at
the next tick. Waking the thread in each tick would take 0.2 ms/s of the 10 ms/s that the monitor uses."""
FIRST_WAIT_S = 0.25
"""The longest wait of the first tick for the first read, in seconds. On a local disk, this read takes a millisecond."""
WAIT_S = 0.005
"""The longest wait of a later tick for a read, in seconds. Its Snapshot then has all changes made before the tick."""
LATE_NS = 3_000_000_000
"""How long a read may take, in nanoseconds, before the Reading counts as failed."""


class StateFiles:
    """Reads the acknowledged findings of a state folder and, if wanted, the disks' read latency baselines.

    Only one thread may call its methods.
    """

    def __init__(self, folder: str, clock: Clock, *, baselines: bool) -> None:
        self._folder = folder
        self._clock = clock
        self._acknowledged = Acknowledged(folder)
        self._changes: list[tuple[str, str | None]] = []
        self._worker = BackgroundWorker("state-folder")
        self._asked_ns: int | None = None
        self._writes = 0
        """``Acknowledged.writes`` when the last read began."""
        self._wants_baselines = baselines
        self._baselines: Reading[Any] | None = None
        self._missing: Reading[Any] | None = None
        """The Reading for a missing answer. The same object is returned again, so that a recording contains it once."""

    def start_read(self, at_ns: int, wall_ns: int) -> None:
        """Start a read in the background if a read is due and none is running."""
        writes = Acknowledged.writes
        if self._asked_ns is not None and at_ns - self._asked_ns < READ_EVERY_NS and writes == self._writes:
            return
        first = self._asked_ns is None

        def read_files() -> None:
            if first and self._wants_baselines:
                self._baselines = read_baselines(self._folder, at_ns, wall_ns)
            self._changes += self._acknowledged.changes()

        if self._worker.submit(read_files):
            self._asked_ns, self._writes = at_ns, writes
            self._worker.wait(FIRST_WAIT_S if first else WAIT_S)

    def changes(self) -> list[tuple[str, str | None]]:
        """Return (identity, value) of each finding whose acknowledgement has changed since the last call.

        The value is None if the user has removed the acknowledgement.
        """
        changes: list[tuple[str, str | None]] = []
        while self._changes:
            changes.append(self._changes.pop(0))
        return changes

    def baselines(self, at_ns: int) -> Reading[Any] | None:
        """Return the baselines of earlier sessions. None if they are not wanted, or after they have been returned.

        Until they are read, the Reading is pending; after LATE_NS, it is failed.
        """
        if not self._wants_baselines:
            return None
        baselines, asked_ns = self._baselines, self._asked_ns
        if baselines is not None:
            self._wants_baselines = False
            return baselines
        late = asked_ns is not None and at_ns - asked_ns >= LATE_NS
        status = Status.FAILED if late else Status.PENDING
        if self._missing is None or self._missing.status is not status:
            reason = f"{self._folder}: no answer" if late else "the state folder is being read"
            remedy = "check the file server of your home directory" if late else ""
            self._missing = Reading(None, status, clean(reason), remedy, at_ns)
        return self._missing

    def close(self) -> None:
        """End the thread."""
        self._worker.close()


def read_baselines(folder: str, at_ns: int, wall_ns: int) -> Reading[Any]:
    """Read the baselines in the folder; a pending Reading if there are none.

    The read may hang if the folder's file server does not answer.
    """
    try:
        from iotop_ai.store.baselines import Baselines  # imported here, because the import reads a file, too

        baselines = Baselines(folder).read(at_ns, wall_ns // 10**9)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return Reading(None, Status.FAILED, f"baselines.json: {reason}", "", at_ns)
    return Reading(baselines, Status.OK, at_ns=at_ns) if baselines else Reading()
