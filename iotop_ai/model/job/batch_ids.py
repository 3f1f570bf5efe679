"""The batch job, pod or container of a process, read from the path of its cgroup."""

from __future__ import annotations

from collections.abc import Iterable

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.lazy.regex import pattern


class JobIds(NamedTuple):
    """The ids in a cgroup path; an id that the path does not contain is empty.

    slurm: the Slurm job, "48213", or the job and its step, "48213.0"
    pod: the UID of the Kubernetes pod
    container: the first 12 digits of the container id, as ``docker ps`` shows them
    unit: the systemd service, without ".service"
    """

    slurm: str = ""
    pod: str = ""
    container: str = ""
    unit: str = ""

    @property
    def label(self) -> str:
        """The most informative id in a few words; "" if there is none."""
        if self.slurm:
            return f"slurm {self.slurm}"
        if self.pod:
            return f"pod {self.pod[:8]}"
        if self.container:
            return f"container {self.container}"
        return self.unit

    @property
    def batch_id(self) -> str:
        """The id of the Slurm job without its step, or else of the pod or container; "" if there is none."""
        return self.slurm.partition(".")[0] or self.pod or self.container


_SLURM = pattern(r"/job_(\d+)(?:/step_(\w+))?")
_POD = pattern(r"pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12})")
_CONTAINER = pattern(r"(?:^|[/:-])([0-9a-f]{64})(?:\.scope)?(?:/|$)")
_UNIT = pattern(r"/([^/]+)\.service(?=/|$)")
_SESSION_UNITS = ("user@", "session-")


def job_ids(cgroup: str) -> JobIds:
    """The ids in a cgroup path.

    Examples, in which 64 stands for 64 hexadecimal digits:
    Slurm: ``/system.slice/slurmstepd.scope/job_48213/step_0/user/task_0``, ``/slurm/uid_1000/job_7/step_batch``.
    Kubernetes: ``/kubepods.slice/kubepods-burstable-podUID.slice/cri-containerd-64.scope``,
        ``/kubepods/burstable/podUID/64``.
    Docker: ``/docker/64``, ``/system.slice/docker-64.scope``.
    """
    slurm = _SLURM.search(cgroup)
    pod = _POD.search(cgroup)
    container = _CONTAINER.search(cgroup)
    units = [name for name in _UNIT.findall(cgroup) if not name.startswith(_SESSION_UNITS)]
    job = ""
    if slurm is not None:
        job = slurm[1] if slurm[2] is None or not slurm[2].isdigit() else f"{slurm[1]}.{slurm[2]}"
    return JobIds(
        job,
        "" if pod is None else pod[1].replace("_", "-"),
        "" if container is None else container[1][:12],
        units[-1] if units else "",
    )


def first_batch_path(cgroups: Iterable[str]) -> str:
    """The first cgroup path that contains the id of a Slurm job, pod or container; "" if none does."""
    return next((cgroup for cgroup in cgroups if job_ids(cgroup).batch_id), "")
