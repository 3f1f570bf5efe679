"""Process tables of made-up machines, like those with real launchers and training programs."""

from __future__ import annotations

from iotop_ai.model.job.detection import NO_WORK, Work, find_jobs
from iotop_ai.model.job.inspection import Inspection
from iotop_ai.model.job.programs import is_candidate
from iotop_ai.model.job.records import Job
from iotop_ai.model.process.records import ProcessInfo, ProcessKey, ProcessStat

TRAIN = ("python", "/home/alice/train.py", "--data", "/data")
SPAWN = ("python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main(5)", "--multiprocessing-fork")
TRACKER = ("python", "-c", "from multiprocessing.resource_tracker import main;main(3)")
SERVER = ("python", "-c", "from multiprocessing.forkserver import main; main(5, 6)")
TORCH = Inspection(("torch",))


class Machine:
    def __init__(self) -> None:
        self.info: dict[ProcessKey, ProcessInfo] = {}
        self.stat: dict[ProcessKey, ProcessStat] = {}
        self.add(1, "systemd", 0, ("/sbin/init",))

    def add(
        self, pid: int, name: str, ppid: int, cmdline: tuple[str, ...] = TRAIN, cgroup: str = "", uid: int = 1000
    ) -> ProcessKey:
        key = ProcessKey(pid, pid)
        self.info[key] = ProcessInfo(name, cmdline, "alice", uid, False, cgroup)
        self.stat[key] = ProcessStat("S", ppid, 0, 0, 0, 0, 0, 1, 0, 0)
        return key

    def jobs(
        self,
        inspections: dict[ProcessKey, Inspection] | None = None,
        on_gpu: dict[int, tuple[str, ...]] | None = None,
        work: Work = NO_WORK,
    ) -> list[Job]:
        candidates = [key for key, info in self.info.items() if is_candidate(info) or key.pid in (on_gpu or {})]
        return list(find_jobs(self.info, self.stat, candidates, inspections or {}, on_gpu or {}, work).values())


def pids(keys: object) -> list[int]:
    return [key.pid for key in keys]  # type: ignore[attr-defined]
