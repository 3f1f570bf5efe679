"""The processes on a GPU: the pids that the driver lists, joined with the process table."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.frame import Frame
from iotop_ai.model.gpu.state import GpuProcess, GpuState
from iotop_ai.model.job.batch_ids import job_ids
from iotop_ai.model.job.records import Job, Rank
from iotop_ai.model.process.records import ProcessInfo, ProcessKey
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.frame_cache import cached_per_frame, cached_per_item
from iotop_ai.present.text.line import plain
from iotop_ai.present.text.units import UNKNOWN


class GpuUser(NamedTuple):
    """A process on a GPU."""

    process: GpuProcess
    name: str
    """The process's name; "pid 812" if the process is not in /proc."""
    user: str
    """The process's user; "?" if the process is not in /proc."""
    command: str
    job: str
    """The batch job, such as "slurm 48213"; otherwise the training job's name; "" if there is neither."""

    @property
    def visible(self) -> bool:
        """Whether the process is in /proc."""
        return self.user != UNKNOWN


@cached_per_frame
def _by_pid(frame: Frame, view: View) -> dict[int, tuple[ProcessKey, ProcessInfo]]:
    """The processes of the process table that are on a GPU, by pid."""
    table, readings = frame.snapshot.processes.value, frame.snapshot.gpu.value or {}
    states = [reading.value for reading in readings.values() if reading.value is not None]
    gpu_pids = {process.pid for state in states for process in state.processes or ()}
    if table is None or not gpu_pids:
        return {}
    return {key.pid: (key, info) for key, info in table.info.items() if key.pid in gpu_pids}


def _job_name(frame: Frame, key: ProcessKey, info: ProcessInfo) -> str:
    if label := job_ids(info.cgroup).label:
        return label
    job = None if frame.snapshot.jobs.value is None else frame.snapshot.jobs.value.job_of(key)
    return "" if job is None else plain(job.name)


@cached_per_item(lambda state: state.uuid)
def gpu_users(frame: Frame, view: View, state: GpuState) -> tuple[GpuUser, ...] | None:
    """The processes on the GPU, the one with the most memory first; None if the driver does not list them."""
    if state.processes is None:
        return None
    by_pid = _by_pid(frame, view)
    out = []
    for process in sorted(state.processes, key=lambda p: (-(p.memory_bytes or 0), p.pid)):
        entry = by_pid.get(process.pid) if process.found else None
        if entry is None:
            # The pid belongs to another namespace, or hidepid hides the process.
            out.append(GpuUser(process, f"pid {process.pid}", UNKNOWN, "", ""))
        else:
            key, info = entry
            job = _job_name(frame, key, info)
            out.append(GpuUser(process, info.name, info.user, " ".join(info.cmdline), job))
    return tuple(out)


@cached_per_frame
def gpu_ranks(frame: Frame, view: View) -> dict[str, tuple[Job, Rank]]:
    """The training job on each GPU, with its rank there, by UUID; GPUs without a job are left out."""
    table = frame.snapshot.jobs.value
    jobs = () if table is None else table.jobs.values()
    return {uuid: (job, rank) for job in jobs for rank in job.ranks for uuid in rank.gpus}


def owner_text(frame: Frame, view: View, state: GpuState) -> str:
    """The process with the most memory on the GPU: "alice python (pid 812)"; "pid 812" if it is not in
    /proc; "" if there is none.
    """
    users = gpu_users(frame, view, state)
    if not users:
        return ""
    main_user = users[0]
    if not main_user.visible:
        return main_user.name
    return f"{main_user.user} {main_user.name} (pid {main_user.process.pid})"
