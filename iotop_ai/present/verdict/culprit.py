"""The culprit: the disk, GPU or processes that the verdict names as the cause. The screen shows them in the colour of
the verdict's state.
"""

from __future__ import annotations

from collections.abc import Mapping

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.finding import Finding, Severity
from iotop_ai.model.frame import Frame
from iotop_ai.model.job.records import Job
from iotop_ai.model.verdict_class import CLASS_SPECS, LOUD, State
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.frame_cache import cached_per_frame
from iotop_ai.present.text.states import HUE

Args = Mapping[str, str | float | None]
_GPU_CELLS = {
    "gpu_throttle": "throttle",
    "pcie": "link",
    "gpu_memory": "mem",
    "imbalance": "busy",
    "no_gpu": "busy",
    "comm_wait": "power",
}
"""By class, the column of the GPU table that shows why a GPU is named."""
_COMPUTE = ("cpu_prep", "single_thread", "host_bound")
"""The classes whose cause is that the job's processes compute."""
_WRITES = ("checkpoint_write",)
"""The classes whose argument ``device`` is the disk that is written to."""


class Culprit(NamedTuple):
    """The disk, GPUs or processes that the verdict names as the cause.

    hue: "bad" or "warn"; "" if the primary finding's state is not in LOUD. disk: the disk's kernel name. disk_hue: the
    disk's colour, which can differ from hue because a second finding may name the disk. mount: the mount point of a
    full or slow filesystem. gpus: the UUIDs of the named GPUs. gpu_cell, process_cell: the column that shows why a GPU
    or a process is named. pids: the pids of the named processes. worker_state: "run" if the cause is that the job's
    processes compute. cores, memory: whether the machine's cores or memory are the cause.
    """

    hue: str = ""
    disk: str = ""
    disk_hue: str = ""
    mount: str = ""
    gpus: frozenset[str] = frozenset()
    gpu_cell: str = ""
    pids: frozenset[int] = frozenset()
    process_cell: str = ""
    worker_state: str = ""
    cores: bool = False
    memory: bool = False


NO_CULPRIT = Culprit()


@cached_per_frame
def culprit_of(frame: Frame, view: View) -> Culprit:
    """The culprit that the Frame's verdict names."""
    primary = frame.verdict.primary
    disk, disk_hue = next(iter(named_disks(frame, view).items()), ("", ""))
    if primary.state not in LOUD:
        return Culprit(disk=disk, disk_hue=disk_hue) if disk else NO_CULPRIT
    args = dict(primary.args)
    pids, cell = _processes(frame, primary, args)
    mount = args.get("mount") if primary.class_id in ("fs_full", "network_fs") else None
    limit = args.get("limit")
    return Culprit(
        hue_of(primary.state),
        disk,
        disk_hue,
        "/dev/shm" if primary.class_id == "shm_full" else str(mount or ""),
        _gpus(frame, primary, args),
        _GPU_CELLS.get(primary.class_id, ""),
        pids,
        cell,
        "run" if primary.class_id in _COMPUTE else "",
        limit == "cpu" or (primary.class_id == "noisy_neighbour" and args.get("what") == "cpu"),
        limit == "memory" or primary.class_id == "mem_pressure",
    )


def hue_of(state: State) -> str:
    """The colour of a state in LOUD: "bad" or "warn"."""
    return HUE[state]


@cached_per_frame
def named_disks(frame: Frame, view: View) -> Mapping[str, str]:
    """The hue of each named disk, by kernel name: first the disks that findings with a state in LOUD name, in the order
    of the findings, then ``verdict.slow_disk``. INFO findings after the first do not count.
    """
    present = {key.name for key in frame.snapshot.block.value or {}}
    out: dict[str, str] = {}
    for number, finding in enumerate(frame.verdict.findings):
        if finding.state not in LOUD or (number and finding.severity is Severity.INFO):
            continue
        name = _disk_named_by(finding)
        if name in present:
            out.setdefault(name, hue_of(finding.state))
    slow = frame.verdict.slow_disk
    if slow is not None and slow.device in present:
        out.setdefault(slow.device, "warn")
    return out


def _disk_named_by(finding: Finding) -> str:
    """The kernel name of the disk that the finding names; "" if it does not name a disk."""
    args = dict(finding.args)
    names_disk = CLASS_SPECS[finding.class_id].names_disk or finding.class_id in _WRITES or args.get("limit") == "disk"
    device = args.get("device")
    if not names_disk:
        return ""
    return device if isinstance(device, str) and device else finding.subject


def _job(frame: Frame) -> Job | None:
    """The job of the verdict; None without one."""
    table, pid = frame.snapshot.jobs.value, frame.verdict.job_pid
    return None if table is None else next((job for key, job in table.jobs.items() if key.pid == pid), None)


def _processes(frame: Frame, primary: Finding, args: Args) -> tuple[frozenset[int], str]:
    """(pids of the processes that the finding names, the column that shows why)."""
    if primary.class_id in _COMPUTE:
        job = _job(frame)
        if job is None:
            return _same_program(frame, args.get("pid")), "cpu"
        late = str(args.get("late_pids") or "").split()
        ranks = [rank for rank in job.ranks if not late or str(rank.key.pid) in late]
        workers = [worker for rank in ranks for worker in rank.workers]
        members = workers if primary.class_id == "cpu_prep" and workers else [rank.key for rank in ranks]
        return frozenset(key.pid for key in members), "cpu"
    if primary.class_id == "noisy_neighbour":
        others = _same_program(frame, args.get("other_pid"))
        return others, "cpu" if args.get("what") == "cpu" else _larger_rate(frame, others)
    if primary.class_id == "gpu_memory":
        return _same_program(frame, args.get("other_pid")), ""
    if primary.class_id == "hung":
        return _same_program(frame, args.get("main")), "state"
    if args.get("limit") in ("cpu", "memory"):
        return _same_program(frame, args.get("top_pid")), "cpu" if args.get("limit") == "cpu" else "rss"
    if primary.class_id == "no_gpu":
        return _same_program(frame, args.get("pid")), ""
    return frozenset(), ""


def _larger_rate(frame: Frame, pids: frozenset[int]) -> str:
    """The column with the larger sum over these processes: "read" or "write"."""
    table = frame.sample.processes.value
    rates = [] if table is None else [rate for key, rate in table.rates.items() if key.pid in pids]
    read = sum(rate.read_bytes_per_s or 0.0 for rate in rates)
    return "write" if sum(rate.write_bytes_per_s or 0.0 for rate in rates) > read else "read"


def _same_program(frame: Frame, pid: str | float | None) -> frozenset[int]:
    """The pids of all processes with the name and user of process ``pid``. A finding about several processes holds only
    the pid of one of them.
    """
    table = frame.snapshot.processes.value
    if table is None or not isinstance(pid, float):
        return frozenset()
    match = next((info for key, info in table.info.items() if key.pid == int(pid)), None)
    if match is None:
        return frozenset()
    return frozenset(key.pid for key, info in table.info.items() if (info.name, info.uid) == (match.name, match.uid))


def _gpus(frame: Frame, primary: Finding, args: Args) -> frozenset[str]:
    """The UUIDs of the GPUs that the finding names by number or by UUID; for comm_wait, of all GPUs of the job
    or, without a job, of the machine.
    """
    readings = frame.snapshot.gpu.value or {}
    if primary.subject in readings:
        return frozenset((primary.subject,))
    if primary.class_id == "comm_wait":
        job = _job(frame)
        return frozenset(readings) if job is None else job.gpus
    if primary.class_id not in _GPU_CELLS:
        return frozenset()
    words = [str(args.get(name) or "") for name in ("worst", "late", "gpu", "free")]
    numbers = {word.removeprefix("GPU ") for word in words if word.startswith("GPU ")}
    return frozenset(
        uuid for uuid, gpu in readings.items() if gpu.value is not None and str(gpu.value.number) in numbers
    )
