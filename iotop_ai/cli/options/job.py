"""Checks the process that --job names, so that an unknown process is an error before anything is shown."""

from __future__ import annotations

from collections.abc import Iterable

from iotop_ai.model.errors import UsageError
from iotop_ai.model.snapshot import Snapshot


def check_job(snapshot: Snapshot, pid: int) -> None:
    """Raise UsageError when a complete process table lacks the process. pid: 0 if the user selected no job."""
    table = snapshot.processes.value
    if pid and table is not None and table.complete and all(key.pid != pid for key in table.stat):
        raise UsageError(f"--job {pid}: no such process")


def check_recorded_job(snapshots: Iterable[Snapshot], pid: int) -> None:
    """Raise UsageError when no Snapshot contains the process. Reads up to the first Snapshot that contains it."""
    for snapshot in snapshots:
        table, jobs = snapshot.processes.value, snapshot.jobs.value
        if table is not None and any(key.pid == pid for key in table.info):
            return
        if jobs is not None and any(key.pid == pid for job in jobs.jobs.values() for key in job.members):
            return
    raise UsageError(f"--job {pid}: no process of this recording has this pid")
