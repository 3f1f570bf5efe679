"""Finds the training jobs among the processes. Pure: tables in, jobs out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.job.batch_ids import JobIds, job_ids
from iotop_ai.model.job.inspection import OFTEN_IDLE, READERS, Inspection
from iotop_ai.model.job.order import job_order, work_level
from iotop_ai.model.job.process_tree import CandidateTree
from iotop_ai.model.job.programs import SPAWNED, is_notebook, is_script, names_file, script_name
from iotop_ai.model.job.rank_numbers import with_rank_numbers
from iotop_ai.model.job.ray import RayRoles, ray_roles
from iotop_ai.model.job.records import LOADER, MOST_JOBS, RAY, Job, Rank
from iotop_ai.model.process.records import ProcessInfo, ProcessKey, ProcessStat

_SINGLE_JOB_LAUNCHERS = ("launcher", "mpi", "notebook")
"""Kinds of launchers that belong to a single job; below a slurmstepd or a raylet, there may be several jobs."""
_RANK_LAUNCHERS = ("launcher", "mpi", "slurm")
_GPU_EVIDENCE = frozenset({"gpu", "device"})
"""The kinds of evidence that a process uses a GPU."""
_LEAST_CHILDREN = 2
"""The children of a program that runs as ``python -m`` may prepare data only if at least this many of them work."""


class Work(NamedTuple):
    """The activity of candidate processes.

    busy: the processes that have used a second of CPU time or read 8 MiB since their start
    working: the processes that at some time worked in two intervals in a row; a process works in an interval if its CPU
        use and I/O together are at least a tenth of a core, or if it is in state R or D when the interval ends
    cores, bytes_per_s: each process's current CPU use in cores, and its reads and writes
    two_way: the workers that wait at a pair of sockets for the next request of their trainer
    """

    busy: frozenset[ProcessKey] = frozenset()
    working: frozenset[ProcessKey] = frozenset()
    cores: Mapping[ProcessKey, float] = {}
    bytes_per_s: Mapping[ProcessKey, float] = {}
    two_way: frozenset[ProcessKey] = frozenset()


NO_WORK = Work()


class _Search(NamedTuple):
    """The intermediate results of the search. evidence: why each process counts as a training process."""

    tree: CandidateTree
    roles: RayRoles
    work: Work
    evidence: Mapping[ProcessKey, tuple[str, ...]]


def find_jobs(
    info: Mapping[ProcessKey, ProcessInfo],
    stat: Mapping[ProcessKey, ProcessStat],
    candidates: Iterable[ProcessKey],
    inspections: Mapping[ProcessKey, Inspection],
    on_gpu: Mapping[int, tuple[str, ...]],
    work: Work = NO_WORK,
    kept: Iterable[ProcessKey] = (),
) -> dict[ProcessKey, Job]:
    """The jobs by key, the most important first, at most ``MOST_JOBS``; {} if there is no job.

    candidates: the processes for which ``is_candidate`` is true, and those on a GPU
    on_gpu: the UUIDs of the GPUs that each compute process uses, by pid
    kept: the keys of the jobs found before, which are preferred to new jobs of equal importance
    """
    tree = CandidateTree(info, stat, candidates, on_gpu, inspections)
    roles = ray_roles(tree)
    search = _Search(tree, roles, work, _evidence(tree, roles, work))
    ranks = _ranks(search)
    tops = {rank.key: _top(search, rank.key) for rank in ranks}
    groups = _group_by_job(search, ranks, tops)
    kept_keys = frozenset(kept)
    jobs = [(min((tops[rank.key] for rank in members), key=_age), members) for members in groups]

    def order(group: tuple[ProcessKey, list[Rank]]) -> tuple[int, int, bool, int]:
        top, members = group
        keys = {top, *(rank.key for rank in members), *(worker for rank in members for worker in rank.workers)}
        level = work_level(sum(work.cores.get(k, 0.0) for k in keys), sum(work.bytes_per_s.get(k, 0.0) for k in keys))
        by_gpus, by_work, by_age = job_order(len({uuid for r in members for uuid in r.gpus}), level, top.start_ticks)
        return by_gpus, by_work, top not in kept_keys, by_age

    jobs = sorted(jobs, key=order)[:MOST_JOBS]
    helpers = _helpers(tree, jobs)
    return {top: _job(search, top, members, helpers[top]) for top, members in jobs}


def _helpers(tree: CandidateTree, jobs: list[tuple[ProcessKey, list[Rank]]]) -> dict[ProcessKey, list[ProcessKey]]:
    """The helpers of each job: its top process unless it is a rank, and candidates up to three levels below the job."""
    job_of = {rank.key: top for top, ranks in jobs for rank in ranks} | {top: top for top, _ in jobs}
    known = job_of.keys() | {worker for _, ranks in jobs for rank in ranks for worker in rank.workers}
    out: dict[ProcessKey, list[ProcessKey]] = {top: [] for top, _ in jobs}
    for top, ranks in jobs:
        if all(rank.key != top for rank in ranks):
            out[top].append(top)
    for key in tree.candidates:
        if key not in known:
            for ancestor in tree.ancestors(key)[:3]:
                if ancestor in job_of:
                    out[job_of[ancestor]].append(key)
                    break
    return out


def _evidence(tree: CandidateTree, roles: RayRoles, work: Work) -> dict[ProcessKey, tuple[str, ...]]:
    """The kinds of evidence for each process that seems to train."""
    worker_evidence: dict[ProcessKey, set[str]] = {}
    working_children: dict[ProcessKey, int] = {}
    for kind, workers in (("loader", tree.loaders), ("children", tree.pool_children)):
        for worker in workers:
            trainer = tree.trainer(worker)
            if trainer is None:
                continue
            working_children[trainer] = working_children.get(trainer, 0) + (worker in work.working)
            if kind == "loader" or worker in work.busy:
                worker_evidence.setdefault(trainer, set()).add(kind)
    ray_programs = {roles.owner[key] for key in roles.owner if key in work.busy}
    out = {}
    for key in dict.fromkeys((*tree.candidates, *worker_evidence)):
        if key not in tree.info or key in tree.loaders or key in tree.servers or key in tree.trackers:
            continue
        if key in tree.pool_children or key in tree.kinds or (key in tree.ray and key not in roles.ranks):
            continue
        by_workers = worker_evidence.get(key, set())
        if "children" in by_workers and not _may_prepare_data(tree.info[key], working_children.get(key, 0)):
            by_workers = by_workers - {"children"}
        inspection = tree.inspection(key)
        libraries = [name for name in inspection.libraries if name not in OFTEN_IDLE or _works(tree, key, work)]
        kinds = (
            "gpu" if key.pid in tree.on_gpu else "",
            "device" if inspection.opens_gpu else "",
            "library" if libraries else "",
            *sorted(by_workers, reverse=True),
            "ray" if key in roles.ranks or key in ray_programs else "",
        )
        if any(kinds):
            out[key] = tuple(kind for kind in kinds if kind)
    for key in tree.candidates:
        if key not in out and (launcher_kinds := _launcher_evidence(tree, key, work, out)):
            out[key] = launcher_kinds
    return out


def _may_prepare_data(info: ProcessInfo, working_children: int) -> bool:
    """Whether a program's busy children may prepare data.

    The children of a program whose command line names a Python file always may. The children of a module
    (``python -m``) may if enough of them work and the module is not a known server. The children of a notebook never
    may.
    """
    if is_notebook(info):
        return False
    return names_file(info) or (is_script(info) and working_children >= _LEAST_CHILDREN)


def _works(tree: CandidateTree, key: ProcessKey, work: Work) -> bool:
    """Whether the process, or a child that it started by multiprocessing, works."""
    return key in work.working or any(tree.stat[child].ppid == key.pid for child in tree.pool_children & work.working)


def _launcher_evidence(
    tree: CandidateTree, key: ProcessKey, work: Work, evidence: Mapping[ProcessKey, object]
) -> tuple[str, ...]:
    """The kind of the launcher above a working program that has no other evidence; () for any other process."""
    if key not in work.working or key in tree.kinds or key in tree.ray:
        return ()
    if key in tree.loaders or key in tree.pool_children or key in tree.servers or key in tree.trackers:
        return ()
    ancestors = tree.ancestors(key)
    if any(ancestor in evidence for ancestor in ancestors):
        return ()
    for ancestor in ancestors:
        kind = tree.kinds.get(ancestor, "")
        if kind in _RANK_LAUNCHERS:
            return (kind,)
        if ancestor in tree.candidates:
            return ()
    return ()


def _ranks(search: _Search) -> list[Rank]:
    """The training processes with their workers and GPUs, without processes that only start others (``_starters``)."""
    tree, evidence, roles = search.tree, search.evidence, search.roles
    workers: dict[ProcessKey, list[ProcessKey]] = {}
    for worker in sorted((*tree.loaders, *tree.pool_children), key=_age):
        own_trainer = tree.trainer(worker)
        if own_trainer is not None and own_trainer in evidence:
            workers.setdefault(own_trainer, []).append(worker)
    for children in workers.values():
        # If some children are loaders by name, the others are a pool with another purpose.
        named = [worker for worker in children if worker in tree.loaders]
        children[:] = named or children
    ray_ranks: dict[ProcessKey, list[ProcessKey]] = {}
    for key in sorted(roles.ranks, key=_age):
        ray_ranks.setdefault(roles.owner[key], []).append(key)
    for n, worker in enumerate(sorted(roles.workers, key=_age)):
        # A worker that several ranks share is counted for only one of them.
        owner = roles.owner[worker]
        trainers = ray_ranks.get(owner) or [owner]
        trainer = trainers[n % len(trainers)]
        if trainer in evidence:
            workers.setdefault(trainer, []).append(worker)
    ranks = [
        Rank(
            key,
            tuple(workers.get(key, ())),
            tree.on_gpu.get(key.pid, ()),
            tree.inspection(key).pin_tid,
            _worker_kind(search, key, workers.get(key, ())),
        )
        for key in evidence
    ]
    starters = _starters(search, ray_ranks)
    first = _first_ranks(search)
    return [rank for rank in ranks if rank.workers or rank.gpus or rank.key not in starters or rank.key in first]


def _starters(search: _Search, ray_ranks: Mapping[ProcessKey, Sequence[ProcessKey]]) -> set[ProcessKey]:
    """The processes that only start ranks and do not train: torch.multiprocessing.spawn, Ray's program.

    A process that uses a GPU, such as a notebook that started TensorBoard, trains if none of the ranks below it uses a
    GPU.

    ray_ranks: the ranks of each program of Ray
    """
    ranks_below = {owner: list(ranks) for owner, ranks in ray_ranks.items()}
    for key in search.evidence:
        for ancestor in search.tree.ancestors(key):
            ranks_below.setdefault(ancestor, []).append(key)
    on_gpu = {key for key, kinds in search.evidence.items() if not _GPU_EVIDENCE.isdisjoint(kinds)}
    return {key for key, below in ranks_below.items() if key not in on_gpu or not on_gpu.isdisjoint(below)}


def _first_ranks(search: _Search) -> set[ProcessKey]:
    """The processes that are rank 0 and also started the other ranks of their script (PyTorch Lightning)."""
    tree = search.tree
    evidence = search.evidence
    parents = {key: parent for key in evidence if (parent := tree.parent(key)) is not None and parent in evidence}
    return {
        parent
        for key, parent in parents.items()
        if tree.info[parent].cmdline == tree.info[key].cmdline
        and tree.starts_rank(parent, key)
        and tree.inspection(key).ids.rank
    }


def _worker_kind(search: _Search, key: ProcessKey, workers: Sequence[ProcessKey]) -> str:
    """The value of Rank.worker_kind for these workers."""
    tree = search.tree
    if not workers:
        return ""
    if any(worker in tree.loaders for worker in workers):
        return LOADER
    if any(worker in tree.ray for worker in workers):
        return RAY
    inspections = [tree.inspection(worker) for worker in workers]
    with_datasets = sum({"arrow", "xxhash"} <= set(inspection.modules) for inspection in inspections)
    # Hugging Face datasets uses ``multiprocess`` instead of ``multiprocessing``.
    by_multiprocess = any("from multiprocess." in part for worker in workers for part in tree.info[worker].cmdline)
    if by_multiprocess or with_datasets > len(workers) / 2:
        return "prep"
    simulators = sum("simulator" in found.modules and "torch" not in found.libraries for found in inspections)
    if max(simulators, sum(worker in search.work.two_way for worker in workers)) > len(workers) / 2:
        return "env"
    # Before PyTorch 2.6, loader workers have no name of their own.
    return "" if "torch" in tree.inspection(key).libraries else "pool"


def _top(search: _Search, key: ProcessKey) -> ProcessKey:
    """The highest launcher, trainer or multiprocessing parent above a process; without one, the process itself.

    For a worker of Ray, it is the top of the program that the worker works for. Processes of other users are skipped.
    """
    tree, top, uid = search.tree, key, search.tree.info[key].uid
    owner = search.roles.owner.get(key)
    if owner is not None and owner != key:
        return _top(search, owner)
    for ancestor in tree.ancestors(key):
        if ancestor not in tree.info or tree.info[ancestor].uid != uid:
            continue
        spawned = SPAWNED in tree.info[top].cmdline and tree.stat[top].ppid == ancestor.pid
        if ancestor in search.evidence or tree.kinds.get(ancestor) in _SINGLE_JOB_LAUNCHERS or spawned:
            top = ancestor
    return top


def _group_by_job(search: _Search, ranks: list[Rank], tops: Mapping[ProcessKey, ProcessKey]) -> list[list[Rank]]:
    """The ranks grouped by job.

    Ranks belong to one job if they share a top process, or belong to one user and share a batch job, MPI job, pod, or
    master address. The user must be the same because users choose environment variables and names of cgroups, so any
    user could claim another user's job.
    """
    # Ranks that share a token belong to one job.
    tokens: dict[ProcessKey, set[object]] = {rank.key: {tops[rank.key]} for rank in ranks}
    seen_ranks: set[tuple[object, int | None]] = set()
    for rank in ranks:
        if is_notebook(search.tree.info[rank.key]):
            # Each notebook is a separate job, even if one batch job or pod runs a server with many notebooks.
            continue
        own, ids = search.tree.inspection(rank.key).ids, _ids(search, rank.key)
        uid = search.tree.info[rank.key].uid
        shared: list[object] = [("slurm", uid, ids.slurm.partition(".")[0])] if ids.slurm else []
        shared += [("pod", uid, ids.pod)] if ids.pod else []
        shared += [("mpi", uid, own.mpi)] if own.mpi else []
        # A loopback address (``own.group`` is "") means the container itself, so the container must be the same too.
        master = ("master", uid, "" if own.group else ids.container, own.size, own.master)
        # If a rank number occurs twice at one master address, two programs use the same default address and port.
        if own.master and (master, own.rank) not in seen_ranks:
            seen_ranks.add((master, own.rank))
            shared.append(master)
        tokens[rank.key].update(shared)
    groups: list[tuple[set[object], list[Rank]]] = []
    for rank in ranks:
        own_tokens, members = set(tokens[rank.key]), [rank]
        disjoint = []
        for group in groups:
            if own_tokens.isdisjoint(group[0]):
                disjoint.append(group)
            else:
                own_tokens |= group[0]
                members = [*group[1], *members]
        groups = [*disjoint, (own_tokens, members)]
    return [members for _, members in groups]


def _ids(search: _Search, key: ProcessKey) -> JobIds:
    """The ids in the process's cgroup path. If a container hides the path, the Slurm id comes from the environment."""
    ids = job_ids(search.tree.info[key].cgroup)
    slurm = search.tree.inspection(key).ids.slurm
    return ids if ids.slurm or not slurm else ids._replace(slurm=slurm)


def _age(key: ProcessKey) -> tuple[int, int]:
    return key.start_ticks, key.pid


def _job(search: _Search, top: ProcessKey, ranks: list[Rank], helpers: list[ProcessKey]) -> Job:
    tree = search.tree

    def rank_order(rank: Rank) -> tuple[int, int, int]:
        own = tree.inspection(rank.key).ids.rank
        return (0 if own is None else own, *_age(rank.key))

    ranks = sorted(ranks, key=rank_order)
    first_key = ranks[0].key
    record = tree.info[first_key]
    ids = _ids(search, first_key)
    libraries = [name for rank in ranks for name in tree.inspection(rank.key).libraries]
    evidence = dict.fromkeys(kind for rank in ranks for kind in search.evidence[rank.key])
    above_ranks = [ancestor for rank in ranks for ancestor in tree.ancestors(rank.key)]
    evidence |= dict.fromkeys(kind for ancestor in above_ranks if (kind := tree.kinds.get(ancestor, "")))
    if ids.slurm:
        evidence["slurm"] = None
    hidden = dict.fromkeys(part for rank in ranks for part in tree.inspection(rank.key).hidden)
    return Job(
        top,
        _name(search, top, first_key),
        record.user,
        record.uid,
        tuple(with_rank_numbers(ranks, {rank.key: tree.inspection(rank.key).ids for rank in ranks})),
        tuple(helpers),
        ids._replace(unit="").label,
        libraries[0] if libraries else ("torch" if "loader" in evidence else ""),
        tuple(evidence),
        tuple(hidden),
        tree.inspection(first_key).ids.group,
        is_notebook(record) and "notebook" not in evidence,
        _readers(search, ranks),
    )


def _readers(search: _Search, ranks: Sequence[Rank]) -> tuple[str, ...]:
    """The libraries with which the ranks or their workers read their data, as in ``Job.readers``."""
    found = [search.tree.inspection(key) for rank in ranks for key in (rank.key, *rank.workers)]
    modules = {name for inspection in found for name in inspection.modules}
    # TensorFlow loads h5py for its own files.
    without = {"hdf5"} if any("tensorflow" in inspection.libraries for inspection in found) else set()
    readers = [name for name in READERS if name in modules - without]
    return (*readers, *(["datasets"] if {"arrow", "xxhash"} <= modules else []))


def _name(search: _Search, top: ProcessKey, first: ProcessKey) -> str:
    """A job's name: the script of its first rank or else of its top process; for a notebook, the file if known."""
    tree = search.tree
    name = script_name(tree.info[first])
    if is_notebook(tree.info[first]) and tree.inspection(first).ids.notebook:
        return tree.inspection(first).ids.notebook
    if not name.endswith(".py") and top in tree.info:
        top_name = script_name(tree.info[top])
        if top_name.endswith((".py", ".ipynb")) or (name.startswith("ray::") and first != top):
            return top_name
    return name
