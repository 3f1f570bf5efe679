"""Finds main threads that sleep at descriptors which none of their loaders holds: they do not wait for data.

A main thread in poll beside busy loaders waits for its result queue, or for a driver, another rank, a server. Without
a GPU that shows what the time is used for, only the descriptors tell them apart. Where they
may not be read it counts as a wait.
"""

from __future__ import annotations

from collections.abc import Sequence

from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.job.rank_watch import RankWatch
from iotop_ai.collectors.job.wait_target import WaitTarget, held_inodes, wait_target
from iotop_ai.model.job.looks import Loading
from iotop_ai.model.job.task_states import DISK, NET, OTHER, QUEUE, RUNNING

MOST_TARGETS = 2
"""System calls that are read in one sweep, 80 us each; the main threads of many ranks take turns."""
MOST_MAKERS = 8
KNOWN_NS = 10_000_000_000
"""How long it is remembered which pipes the loaders hold."""
_WORKS = frozenset((DISK, RUNNING, NET))


class MainTargets:
    """Changes the places of main threads that do not wait for data to asleep elsewhere."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._turn = 0
        self._last: dict[int, bool] = {}
        """Whether a main thread was last found to wait elsewhere, by pid."""
        self._shared: dict[tuple[int, int], tuple[int, bool]] = {}
        """(when it was read, whether a loader holds the inode) by the trainer's pid and the inode."""

    def update(self, watches: Sequence[RankWatch], places: list[int | None], now_ns: int) -> None:
        """Change the places of one sweep."""
        asked = [watch for watch in watches if _to_ask(watch, places)]
        if not asked:
            return
        self._turn += MOST_TARGETS
        first = self._turn % len(asked) if len(asked) > MOST_TARGETS else 0
        for i, watch in enumerate([*asked[first:], *asked[:first]]):
            pid = watch.rank.key.pid
            if i < MOST_TARGETS:
                self._last[pid] = self._elsewhere(watch, wait_target(self._root, pid, pid), now_ns)
            if self._last.get(pid):
                places[watch.start] = OTHER

    def forget(self, pids: set[int]) -> None:
        """Forget all but these trainers."""
        self._last = {pid: found for pid, found in self._last.items() if pid in pids}
        self._shared = {key: found for key, found in self._shared.items() if key[0] in pids}

    def _elsewhere(self, watch: RankWatch, target: WaitTarget, now_ns: int) -> bool:
        named = watch.loading is Loading.NAMED
        # The ends of a Unix socket have different inodes: whether a loader has the other end is not known. Only
        # PyTorch's loaders are known to hand their batches over through a pipe.
        if target.kind not in ("pipe", "timer", "eventfd", "file", *(("socket",) if named else ())):
            return False
        return not any(self._held(watch, inode, now_ns) for inode in target.inodes)

    def _held(self, watch: RankWatch, inode: int, now_ns: int) -> bool:
        own = watch.rank.key.pid
        known = self._shared.get((own, inode))
        if known is not None and now_ns - known[0] < KNOWN_NS:
            return known[1]
        makers = [pid for pid in watch.pids() if pid != own]
        held = (held_inodes(self._root, pid) for pid in makers[:MOST_MAKERS])
        found = any(inodes is None or inode in inodes for inodes in held)
        self._shared[own, inode] = now_ns, found
        return found


def _to_ask(watch: RankWatch, places: Sequence[int | None]) -> bool:
    """Whether its main thread is at a queue beside loaders that work, and no GPU shows what it waits for."""
    mine = places[watch.start : watch.end]
    if watch.on_gpu or not mine or mine[0] != QUEUE:
        return False
    return any(place in _WORKS and pid != watch.rank.key.pid for pid, place in zip(watch.row_pids(), mine, strict=True))
