"""The candidate processes of a search for jobs, with their ancestors and kinds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from iotop_ai.model.job.inspection import NOTHING_SEEN, Inspection
from iotop_ai.model.job.programs import SPAWNED, is_python, is_reaper, traits
from iotop_ai.model.process.records import ProcessInfo, ProcessKey, ProcessStat

_MOST_ANCESTORS = 24


class CandidateTree:
    """The processes that are searched for jobs, with the relations between them.

    loaders: PyTorch's loader workers, known by name
    pool_children: other processes that multiprocessing started
    servers: fork servers
    trackers: processes that only clean up or compile for another process, or build a package
    ray: Ray's workers
    kinds: the kind of each launcher, by its key
    """

    def __init__(
        self,
        info: Mapping[ProcessKey, ProcessInfo],
        stat: Mapping[ProcessKey, ProcessStat],
        candidates: Iterable[ProcessKey],
        on_gpu: Mapping[int, tuple[str, ...]],
        inspections: Mapping[ProcessKey, Inspection],
    ) -> None:
        self.info = info
        self.stat = stat
        self.on_gpu = on_gpu
        self.inspections = inspections
        self.by_pid = {key.pid: key for key in stat}
        self.candidates = dict.fromkeys(key for key in candidates if key in stat and key in info)
        self._traits = {key: traits(info[key]) for key in self.candidates}
        items = self._traits.items()
        self.kinds = {key: own.kind for key, own in items if own.kind}
        self.trackers = {key for key, own in items if own.tracker}
        self.servers = {key for key, own in items if own.fork_server and self._is_server(key)}
        self.loaders = {key for key, own in items if own.loader}
        self._ancestors: dict[ProcessKey, list[ProcessKey]] = {}
        with_ray_title = {key for key, own in items if own.ray and not own.loader}
        # A process that was forked by an actor keeps the actor's title.
        self.ray = {key for key in with_ray_title if self.parent(key) not in with_ray_title}
        # A process with loaders is a trainer, even if multiprocessing started it.
        loader_parents = {stat[key].ppid for key in self.loaders}
        self.pool_children = {
            key
            for key in self.candidates
            if key not in self.loaders and key.pid not in loader_parents and self._is_pool_child(key)
        }

    def inspection(self, key: ProcessKey) -> Inspection:
        """The result of the process's inspection; NOTHING_SEEN before the first inspection."""
        return self.inspections.get(key, NOTHING_SEEN)

    def parent(self, key: ProcessKey) -> ProcessKey | None:
        """The parent process; None if it is not listed."""
        return self.by_pid.get(self.stat[key].ppid)

    def ancestors(self, key: ProcessKey) -> list[ProcessKey]:
        """The ancestors, nearest first."""
        cached = self._ancestors.get(key)
        if cached is not None:
            return cached
        out: list[ProcessKey] = []
        ancestor = self.parent(key)
        while ancestor is not None and ancestor not in out and len(out) < _MOST_ANCESTORS:
            out.append(ancestor)
            ancestor = self.parent(ancestor)
        self._ancestors[key] = out
        return out

    def _is_server(self, key: ProcessKey) -> bool:
        """Whether the process is the fork server itself; the processes that it forks have the same command line."""
        if key in self.trackers:
            return False
        parent = self.parent(key)
        return parent is None or parent not in self._traits or not self._traits[parent].fork_server

    def _is_pool_child(self, key: ProcessKey) -> bool:
        """Whether multiprocessing started the process, or its parent forked it and both have the same command line."""
        if key in self.trackers or key in self.servers or key in self.ray or key.pid in self.on_gpu:
            return False
        parent = self.parent(key)
        if parent is None or parent not in self.info or self.info[parent].uid != self.info[key].uid:
            return False
        cmdline = self.info[key].cmdline
        if self._traits[key].spawned:
            # A spawned process inherits no open device, so one that has a GPU open is a rank (torch.multiprocessing).
            return SPAWNED not in cmdline or not self.inspection(key).opens_gpu
        is_rank = self.starts_rank(parent, key) or self._opens_own_gpu(parent, key)
        return bool(cmdline) and cmdline == self.info[parent].cmdline and not is_rank

    def _opens_own_gpu(self, key: ProcessKey, child: ProcessKey) -> bool:
        """Whether a forked child opens a GPU that its parent does not open, as a rank of a notebook_launcher does."""
        inherited = self.inspection(key).opens_gpu or key.pid in self.on_gpu
        return self.inspection(child).opens_gpu and not inherited

    def starts_rank(self, key: ProcessKey, child: ProcessKey) -> bool:
        """Whether the child was started with another rank number than its parent; a forked child has the same number.

        PyTorch Lightning runs the same command line again for each further rank.
        """
        rank = self.inspection(child).ids.rank
        return rank is not None and rank != self.inspection(key).ids.rank

    def trainer(self, worker: ProcessKey) -> ProcessKey | None:
        """The process that the worker loads data for: the nearest ancestor that is neither a worker nor a fork server.

        None if there is none, or if it only adopts orphans.
        """
        for ancestor in self.ancestors(worker):
            if ancestor not in self.loaders and ancestor not in self.servers and ancestor not in self.pool_children:
                return None if self._reaps(ancestor) else ancestor
        return None

    def _reaps(self, key: ProcessKey) -> bool:
        """Whether the process only adopts orphans, as init does.

        In a container, pid 1 may be the training program instead.
        """
        record = self.info.get(key)
        if record is not None and is_python(record):
            return False
        return key.pid == 1 or (record is not None and is_reaper(record))
