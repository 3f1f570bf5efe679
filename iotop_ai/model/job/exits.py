"""Finds which processes of training jobs ended between two Snapshots, and how."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.counter import delta
from iotop_ai.model.job.records import Job
from iotop_ai.model.process.records import ProcessKey, ProcessTable
from iotop_ai.model.snapshot import Snapshot

ENDED = "process_ended"
"""The kind of the event that reports the end of a process."""
TRAINER, WORKER, MEMBER = "trainer", "worker", "member"
KILLED = -9
CRASHES = (-4, -6, -7, -8, -11)
"""Minus SIGILL, SIGABRT, SIGBUS, SIGFPE and SIGSEGV: signals for a fault of the process itself."""
_KILL_NS = 60_000_000_000
"""How long after an OOM kill the end of the killed process may follow."""
_UNNAMED_KILL_NS = 15_000_000_000
"""The same for a kill that does not name the process."""


class Ended(NamedTuple):
    """A process that ended between two Snapshots.

    role: trainer, worker, or member for a process that descends from a recorded command; "" for any other process
    code: the exit code (0 to 255) or minus the signal's number; None if unknown
    job_pid: the pid at the top of its job; None without a job
    """

    key: ProcessKey
    name: str
    role: str = ""
    code: int | None = None
    job_pid: int | None = None
    job_name: str = ""

    @property
    def text(self) -> str:
        """The end in words, such as "worker pt_data_worker (pid 4712) of train.py: SIGKILL"."""
        role = f"{self.role} " if self.role in (TRAINER, WORKER) else ""
        job = f" of {self.job_name}" if self.role == WORKER else ""
        return f"{role}{self.name} (pid {self.key.pid}){job}: {how_it_ended(self.code)}"


def may_end_by_kill(pid: int | None, ago_ns: int) -> bool:
    """Whether an OOM kill that the kernel reported ``ago_ns`` ago may be the cause of an end that is seen now.

    The kernel reports the kill when it sends the signal, and the process needs seconds to free its memory. pid: the
    process that was killed; None if unknown, and then less time is allowed because the end may have another cause.
    """
    return 0 <= ago_ns < (_UNNAMED_KILL_NS if pid is None else _KILL_NS)


def have_ended(keys: Iterable[ProcessKey], table: ProcessTable | None) -> bool:
    """Whether all of these processes are known to have ended. table: the newest process table."""
    if table is None or not table.complete:
        return False
    return all(table.stat[key].has_ended() if key in table.stat else key not in table.info for key in keys)


def how_it_ended(code: int | None) -> str:
    """The way a process ended: "exit 1", "SIGKILL" for -9, or "end unknown" for None."""
    if code is None:
        return "end unknown"
    if code >= 0:
        return f"exit {code}"
    try:
        # Imported here, because it is not needed at start-up.
        from signal import Signals

        return Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def job_ends(
    before: Snapshot, after: Snapshot, killed_before: Callable[[int], bool] | None = None
) -> dict[ProcessKey, Ended]:
    """The trainers and workers of the jobs in ``before`` that have ended since, trainers first.

    A process counts as ended when it becomes a zombie, and not again when it is reaped. A job with weak evidence may
    not be a training job, so only its crashes and OOM kills count. {} if processes or jobs are unknown.

    killed_before: a function that returns whether the kernel reported an OOM kill of a pid some seconds ago
    """
    jobs, old, new = before.jobs.value, before.processes.value, after.processes.value
    if jobs is None or not jobs.jobs or old is None or new is None:
        return {}
    gone = frozenset(new.gone)
    kills = _killed_for_memory(before, after)
    out = [
        ended
        for job in jobs.jobs.values()
        for role in (TRAINER, WORKER)
        for ended in _ended_in_role(job, role, old, new, gone)
        if not job.weak
        or ended.code in CRASHES
        or (ended.code == KILLED and (kills or (killed_before is not None and killed_before(ended.key.pid))))
    ]
    return {ended.key: ended for ended in sorted(out, key=lambda e: e.role != TRAINER)}


def _killed_for_memory(before: Snapshot, after: Snapshot) -> bool:
    """Whether there was an OOM kill between the two Snapshots."""
    old, new = before.memory.value, after.memory.value
    return old is not None and new is not None and bool(delta(old.oom_kills, new.oom_kills))


def _ended_in_role(
    job: Job, role: str, old: ProcessTable, new: ProcessTable, gone: frozenset[ProcessKey]
) -> list[Ended]:
    keys = [rank.key for rank in job.ranks] if role == TRAINER else job.workers
    out = []
    for key in keys:
        if key not in old.stat or old.stat[key].has_ended():
            continue
        if key in gone or (key in new.stat and new.stat[key].has_ended()):
            name = job.name if role == TRAINER or key not in old.info else old.info[key].name
            out.append(Ended(key, name, role, new.exits.get(key), job.key.pid, job.name))
    return out
