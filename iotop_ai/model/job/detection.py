"""Finds the jobs among the processes. Pure: tables in, jobs out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.lazy.regex import pattern
from iotop_ai.model.job.batch_ids import job_ids
from iotop_ai.model.job.records import MOST_JOBS, Job, Rank
from iotop_ai.model.process.records import ProcessInfo, ProcessKey, ProcessStat

LOADER_NAMES = ("pt_data_worker", "pt_multiprocess")
"""comm of a DataLoader worker; the second is what the kernel keeps of PyTorch main's pt_multiprocess_data_worker."""
LAUNCHERS = ("torchrun", "deepspeed", "accelerate", "horovodrun", "torch.distributed.run", "torch.distributed.launch")
_NAME = pattern(r"[\w.+-]{1,64}")
_MODULE = pattern(r"[\w.]{1,64}")
_LAUNCHER_COMM = "pt_elastic"
_PYTHONS = ("python", "pypy", "ipython")
_DIGITS, _LETTERS = "0123456789.", "abcdefghijklmnopqrstuvwxyz"
REAPERS = ("systemd", "init", "tini", "dumb-init", "docker-init", "catatonit", "conmon", "containerd-shim")
"""Programs that inherit children whose parent ended: they do not train, whatever loader was left to them."""
_TRACKERS = ("multiprocessing.resource_tracker", "_inductor.compile_worker", "multiprocessing.semaphore_tracker")
_FORK_SERVER = "multiprocessing.forkserver"
_SPAWNED = "--multiprocessing-fork"
_MOST_LEVELS = 24


class Look(NamedTuple):
    """The result of one inspection of a process. libraries: torch, tensorflow, jax. device: a GPU's file is open.

    pin_tid: the thread named pt_data_pin, 0 when none.
    """

    libraries: tuple[str, ...] = ()
    device: bool = False
    pin_tid: int = 0


NO_LOOK = Look()


def is_python(info: ProcessInfo) -> bool:
    """Whether it is a Python interpreter, by its program's or its own name."""
    program = info.cmdline[0].rsplit("/", 1)[-1] if info.cmdline else ""
    return _is_python(program) or _is_python(info.name) or info.name.startswith("pt_")


def _is_python(name: str) -> bool:
    """Whether it is a name like python3.11, pypy3 or ipython."""
    for stem in _PYTHONS:
        if name.startswith(stem):
            return not name[len(stem) :].lstrip(_DIGITS).strip(_LETTERS)
    return False


def is_launcher(info: ProcessInfo) -> bool:
    """Whether it starts training processes for others: torchrun and kin."""
    if info.name == _LAUNCHER_COMM:
        return True
    words = [part.rsplit("/", 1)[-1] for part in info.cmdline[:4]]
    return any(word in LAUNCHERS for word in words)


def is_candidate(info: ProcessInfo) -> bool:
    """Whether a process may belong to a job by its names alone."""
    return not info.kernel and (is_python(info) or is_launcher(info))


def script_name(info: ProcessInfo) -> str:
    """What people call the program: "train.py", a module's name behind -m, else its own name.

    Never another argument: those may hold secrets, and a job's name is written into recordings.
    """
    for part in info.cmdline[1:]:
        name = part.rsplit("/", 1)[-1]
        if name.endswith(".py") and _NAME.fullmatch(name):
            return name
    for option, value in pairwise(info.cmdline[1:]):
        if option == "-m" and _MODULE.fullmatch(value):
            return value
        if not option.startswith("-"):
            break
    return info.name


def _has(info: ProcessInfo, word: str) -> bool:
    return any(word in part for part in info.cmdline)


class _Tree:
    """The processes that may matter, with what each of them is."""

    def __init__(
        self,
        info: Mapping[ProcessKey, ProcessInfo],
        stat: Mapping[ProcessKey, ProcessStat],
        candidates: Iterable[ProcessKey],
        on_gpu: Mapping[int, tuple[str, ...]],
    ) -> None:
        self.info = info
        self.stat = stat
        self.on_gpu = on_gpu
        self.by_pid = {key.pid: key for key in stat}
        self.candidates = [key for key in candidates if key in stat and key in info]
        self.trackers = {k for k in self.candidates if any(_has(info[k], word) for word in _TRACKERS)}
        self.servers = {k for k in self.candidates if k not in self.trackers and self._is_server(k)}
        self.loaders = {k for k in self.candidates if info[k].name.startswith(LOADER_NAMES)}
        # Who has loaders of its own trains, also where it was started by multiprocessing.
        feeds = {self.stat[k].ppid for k in self.loaders}
        self.alike = {k for k in self.candidates if k not in self.loaders and k.pid not in feeds and self._is_child(k)}

    def parent(self, key: ProcessKey) -> ProcessKey | None:
        return self.by_pid.get(self.stat[key].ppid)

    def above(self, key: ProcessKey) -> list[ProcessKey]:
        """The ancestors, nearest first."""
        out: list[ProcessKey] = []
        up = self.parent(key)
        while up is not None and up not in out and len(out) < _MOST_LEVELS:
            out.append(up)
            up = self.parent(up)
        return out

    def _is_server(self, key: ProcessKey) -> bool:
        """A fork server itself: what it forks has the same command line."""
        if not _has(self.info[key], _FORK_SERVER):
            return False
        up = self.parent(key)
        return up is None or up not in self.info or not _has(self.info[up], _FORK_SERVER)

    def _is_child(self, key: ProcessKey) -> bool:
        """Started by multiprocessing, or forked without exec: the same command line as its parent."""
        if key in self.trackers or key in self.servers or key.pid in self.on_gpu:
            return False
        up = self.parent(key)
        if up is None or up not in self.info or self.info[up].uid != self.info[key].uid:
            return False
        mine = self.info[key].cmdline
        return bool(mine) and (_SPAWNED in mine or mine == self.info[up].cmdline)

    def trainer(self, worker: ProcessKey) -> ProcessKey | None:
        """Who the worker loads for: the first above that neither loads nor serves."""
        for up in self.above(worker):
            if up not in self.loaders and up not in self.servers and up not in self.alike:
                return None if self._reaps(up) else up
        return None

    def _reaps(self, key: ProcessKey) -> bool:
        """Whether it only takes in orphans: init and its like, unless pid 1 is the training program of a container."""
        record = self.info.get(key)
        if record is not None and is_python(record):
            return False
        return key.pid == 1 or (record is not None and record.name.startswith(REAPERS))


def find_jobs(
    info: Mapping[ProcessKey, ProcessInfo],
    stat: Mapping[ProcessKey, ProcessStat],
    candidates: Iterable[ProcessKey],
    looks: Mapping[ProcessKey, Look],
    on_gpu: Mapping[int, tuple[str, ...]],
    busy: frozenset[ProcessKey] = frozenset(),
) -> dict[ProcessKey, Job]:
    """The jobs by key, at most ``MOST_JOBS``. {} when there is none.

    candidates: processes by ``is_candidate`` and those on a GPU. on_gpu: UUIDs by pid of a compute process. busy:
    processes that have read or computed so much that they may be loaders without being named so.
    """
    tree = _Tree(info, stat, candidates, on_gpu)
    why = _evidence(tree, looks, busy)
    ranks = _ranks(tree, looks, why)
    groups: dict[object, list[Rank]] = {}
    tops: dict[object, ProcessKey] = {}
    for rank in ranks:
        top = _top(tree, rank.key, why)
        ids = job_ids(info[rank.key].cgroup)
        whole: object = ids.slurm.partition(".")[0] or ids.pod or top
        groups.setdefault(whole, []).append(rank)
        if whole not in tops or top.start_ticks < tops[whole].start_ticks:
            tops[whole] = top
    out = {}
    for whole, members in sorted(groups.items(), key=lambda g: tops[g[0]])[:MOST_JOBS]:
        out[tops[whole]] = _job(tree, tops[whole], members, looks, why)
    return out


def _evidence(
    tree: _Tree, looks: Mapping[ProcessKey, Look], busy: frozenset[ProcessKey]
) -> dict[ProcessKey, tuple[str, ...]]:
    loads_for: dict[ProcessKey, set[str]] = {}
    for kind, workers in (("loader", tree.loaders), ("children", tree.alike)):
        for worker in workers:
            up = tree.trainer(worker)
            if up is not None and (kind == "loader" or worker in busy):
                loads_for.setdefault(up, set()).add(kind)
    out = {}
    for key in dict.fromkeys((*tree.candidates, *loads_for)):
        if key in tree.loaders or key in tree.servers or key in tree.trackers or key not in tree.info:
            continue
        look = looks.get(key, NO_LOOK)
        found = loads_for.get(key, set())
        if "children" in found and not _has(tree.info[key], ".py"):
            found = found - {"children"}
        words = (
            "gpu" if key.pid in tree.on_gpu else "",
            "device" if look.device else "",
            "library" if look.libraries else "",
            *sorted(found, reverse=True),
        )
        strong = tuple(word for word in words if word)
        if strong and key not in tree.alike and not is_launcher(tree.info[key]):
            out[key] = strong
    return out


def _ranks(tree: _Tree, looks: Mapping[ProcessKey, Look], why: Mapping[ProcessKey, tuple[str, ...]]) -> list[Rank]:
    workers: dict[ProcessKey, list[ProcessKey]] = {}
    for worker in sorted((*tree.loaders, *tree.alike), key=lambda k: (k.start_ticks, k.pid)):
        up = tree.trainer(worker)
        if up is not None and up in why:
            workers.setdefault(up, []).append(worker)
    for found in workers.values():
        # Beside named loaders other children are a pool of the script's own.
        named = [worker for worker in found if worker in tree.loaders]
        found[:] = named or found
    ranks = [
        Rank(key, tuple(workers.get(key, ())), tree.on_gpu.get(key.pid, ()), looks.get(key, NO_LOOK).pin_tid)
        for key in why
    ]
    # A process that only started the others (torch.multiprocessing.spawn) does not train.
    above = {up for rank in ranks for up in tree.above(rank.key)}
    return [rank for rank in ranks if rank.workers or rank.gpus or rank.key not in above]


def _top(tree: _Tree, key: ProcessKey, why: Mapping[ProcessKey, tuple[str, ...]]) -> ProcessKey:
    """The launcher or trainer highest above, or whoever started it by multiprocessing."""
    top = key
    for up in tree.above(key):
        record = tree.info.get(up)
        if record is None:
            continue
        started = _SPAWNED in tree.info[top].cmdline and tree.stat[top].ppid == up.pid
        if up in why or is_launcher(record) or started:
            top = up
    return top


def _job(
    tree: _Tree,
    top: ProcessKey,
    ranks: list[Rank],
    looks: Mapping[ProcessKey, Look],
    why: Mapping[ProcessKey, tuple[str, ...]],
) -> Job:
    ranks = sorted(ranks, key=lambda rank: (rank.key.start_ticks, rank.key.pid))
    first = ranks[0].key
    record = tree.info[first]
    ids = job_ids(record.cgroup)
    inside = {top, *(rank.key for rank in ranks)}
    known = inside | {worker for rank in ranks for worker in rank.workers}
    helpers = [key for key in tree.candidates if key not in known and any(up in inside for up in tree.above(key)[:3])]
    if top not in {rank.key for rank in ranks}:
        helpers.insert(0, top)
    libraries = [name for rank in ranks for name in looks.get(rank.key, NO_LOOK).libraries]
    words = dict.fromkeys(word for rank in ranks for word in why[rank.key])
    if is_launcher(tree.info.get(top, record)):
        words["launcher"] = None
    name = script_name(record)
    if not name.endswith(".py") and top in tree.info and script_name(tree.info[top]).endswith(".py"):
        name = script_name(tree.info[top])
    return Job(
        top,
        name,
        record.user,
        record.uid,
        tuple(ranks),
        tuple(helpers),
        ids._replace(unit="").label,
        libraries[0] if libraries else ("torch" if "loader" in words else ""),
        tuple(words),
    )
