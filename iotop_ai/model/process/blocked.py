"""Processes that are blocked in the kernel (state D) at one moment."""

from __future__ import annotations

from collections.abc import Mapping

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.process.records import ProcessKey, ProcessTable


class Wait(NamedTuple):
    """How many of a process's sampled threads are in state D (``blocked``), and how many were sampled."""

    blocked: int
    sampled: int


def waits_of(table: ProcessTable | None) -> Mapping[ProcessKey, Wait]:
    """The processes with a thread in state D at this reading, without kernel threads; {} if unknown.

    If the threads of a process were not sampled, only its main thread is considered. Source: field 3 of /proc/PID/stat
    and of /proc/PID/task/TID/stat.
    """
    if table is None:
        return {}
    out = {}
    for key, look in table.threads.items():
        blocked = sum(n for state, n in look.states if state == "D")
        if blocked:
            out[key] = Wait(blocked, sum(n for _, n in look.states))
    for key in table.blocked():
        if key not in out and key not in table.threads:
            info = table.info.get(key)
            if info is None or not info.kernel:
                out[key] = Wait(1, 1)
    return out
