"""Whose processes are on a GPU: NVML's pids joined with /proc, in the words of people."""

from __future__ import annotations

from iotop_ai.model.frame import Frame
from iotop_ai.model.gpu import GpuProcess, GpuState
from iotop_ai.model.job_ids import job_ids
from iotop_ai.model.process import ProcessInfo
from iotop_ai.model.record import NamedTuple
from iotop_ai.present.memo import once_a_frame
from iotop_ai.present.units import UNKNOWN
from iotop_ai.present.view import View


class User(NamedTuple):
    """A process on a GPU. name, user "?": not to be seen from here. job: "slurm 48213", "" none."""

    process: GpuProcess
    name: str
    user: str
    command: str
    job: str

    @property
    def known(self) -> bool:
        """Whether it was found in our /proc."""
        return self.user != UNKNOWN


@once_a_frame
def _by_pid(frame: Frame, view: View) -> dict[int, ProcessInfo]:
    table = frame.snapshot.processes.value
    return {} if table is None else {key.pid: info for key, info in table.info.items()}


def users(frame: Frame, view: View, state: GpuState) -> tuple[User, ...] | None:
    """Its processes, the one with most memory first; None when NVML does not list them."""
    if state.processes is None:
        return None
    found = _by_pid(frame, view)
    out = []
    for one in sorted(state.processes, key=lambda p: (-(p.memory_bytes or 0), p.pid)):
        info = found.get(one.pid) if one.found else None
        if info is None:
            # A pid of another namespace, or of a process that hidepid hides.
            out.append(User(one, f"pid {one.pid}", UNKNOWN, "", ""))
        else:
            out.append(User(one, info.name, info.user, " ".join(info.cmdline), job_ids(info.cgroup).label))
    return tuple(out)


def owner(frame: Frame, view: View, state: GpuState) -> str:
    """Who holds most of its memory, in a few words: "alice python (pid 812)"; "" when nobody is listed."""
    listed = users(frame, view, state)
    if not listed:
        return ""
    first = listed[0]
    if not first.known:
        return first.name
    return f"{first.user} {first.name} (pid {first.process.pid})"
