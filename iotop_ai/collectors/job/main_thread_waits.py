"""Finds main threads that are blocked or asleep but do not wait for data, judged by their system calls.

A main thread that is blocked in a call that writes, or in fsync, saves a checkpoint, even when its count of written
bytes no longer grows.

A main thread that seems to sleep at a socket may wait for a terminal instead: the kernel shows the same function for
both.

A main thread that sleeps in poll while loaders are busy may wait for the loaders' result queue, or for a driver,
another rank or a server. If no GPU shows how the time is used, only the descriptors of the call distinguish these
cases. If the descriptors cannot be read, the thread counts as waiting for data.

A sweep is one sample of all watched tasks (task_sampler.py). A trainer is a training process, and its loaders are the
processes that load its data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.job.rank_watch import RankWatch
from iotop_ai.collectors.job.wait_target import (
    WaitTarget,
    at_terminal,
    has_no_socket,
    held_inodes,
    is_writing,
)
from iotop_ai.model.job.looks import Loading
from iotop_ai.model.job.task_states import DISK, NET, OTHER, QUEUE, RUNNING, TERMINAL, WRITING

MOST_TARGETS = 2
"""The most blocked main threads, and the most sleeping ones, whose system call is read in one sweep.

Reading the call of one thread takes 80 µs; if there are more threads, they are read in rotation.
"""
MOST_LOADERS = 8
"""The most loaders of a trainer whose descriptors are searched for the inode on which the trainer waits."""
REMEMBER_NS = 10_000_000_000
"""How long we remember whether a loader has an inode open, in nanoseconds."""
TERMINAL_NS = 1_000_000_000
"""How long we remember whether a main thread waits for a terminal, in nanoseconds."""
_WORKING_STATES = frozenset((DISK, RUNNING, NET))
"""The wait states of a loader that is producing data."""
_EXAMINED_STATES = (DISK, NET, QUEUE)
"""The wait states of a main thread that may not be waiting for data."""


class MainThreadWaits:
    """Marks main threads that do not wait for data.

    It marks them as WRITING if they write, as TERMINAL if they wait for a terminal, and otherwise as OTHER. These are
    wait states: states of a task, as in ``model.job.task_states``.
    """

    def __init__(self, root: Root) -> None:
        self._root = root
        self._turn = 0
        self._writing_by_pid: dict[int, bool] = {}
        """Whether a blocked main thread was in a call that writes when it was last read, by PID."""
        self._at_terminal: dict[int, tuple[int, bool]] = {}
        """(time of the read, whether a main thread waited for a terminal instead of a socket) by PID."""
        self._other_waits: dict[int, bool] = {}
        """Whether a main thread was waiting for something other than data when it was last read, by PID."""
        self._held_by_loader: dict[tuple[int, int], tuple[int, bool]] = {}
        """(time of the read, whether a loader has the inode open) by (the trainer's PID, the inode)."""

    def due(self, watches: Sequence[RankWatch], wait_states: Sequence[int | None], now_ns: int) -> list[int]:
        """Return the PIDs of the trainers whose wait targets ``update`` needs for the same sweep."""
        if not _is_any_examined(watches, wait_states):
            return []
        unsure = [watch.rank.key.pid for watch in watches if _is_unsure(watch, wait_states)]
        if len(unsure) > MOST_TARGETS:
            self._turn += MOST_TARGETS
            start = self._turn % len(unsure)
            unsure = [*unsure[start:], *unsure[:start]][:MOST_TARGETS]
        at_socket = [w.rank.key.pid for w in watches if w.end > w.start and wait_states[w.start] == NET]
        return unsure + [pid for pid in at_socket if self._is_terminal_due(pid, now_ns)]

    def update(
        self,
        watches: Sequence[RankWatch],
        wait_states: list[int | None],
        targets: Mapping[int, WaitTarget],
        now_ns: int,
    ) -> None:
        """Correct ``wait_states``, which holds the wait state of each task in one sweep.

        targets: what some main threads wait for, by PID.
        """
        if not _is_any_examined(watches, wait_states):
            self._writing_by_pid = {}
            return
        self._find_writers(watches, wait_states)
        self._find_terminals(watches, wait_states, targets, now_ns)
        for watch in watches:
            if not _is_unsure(watch, wait_states):
                continue
            pid = watch.rank.key.pid
            if pid in targets:
                self._other_waits[pid] = self._waits_for_other(watch, targets[pid], now_ns)
            if self._other_waits.get(pid):
                wait_states[watch.start] = OTHER

    def keep_only(self, pids: set[int]) -> None:
        """Forget all trainers except these."""
        self._other_waits = {pid: other for pid, other in self._other_waits.items() if pid in pids}
        self._writing_by_pid = {pid: writing for pid, writing in self._writing_by_pid.items() if pid in pids}
        self._at_terminal = {pid: at for pid, at in self._at_terminal.items() if pid in pids}
        self._held_by_loader = {key: held for key, held in self._held_by_loader.items() if key[0] in pids}

    def _find_writers(self, watches: Sequence[RankWatch], wait_states: list[int | None]) -> None:
        blocked = [watch for watch in watches if watch.end > watch.start and wait_states[watch.start] == DISK]
        pids = {watch.rank.key.pid for watch in blocked}
        self._writing_by_pid = {pid: writing for pid, writing in self._writing_by_pid.items() if pid in pids}
        # First read the threads that have not been read yet, then those whose last read is the oldest.
        for pid in [*(pids - self._writing_by_pid.keys()), *self._writing_by_pid][:MOST_TARGETS]:
            self._writing_by_pid.pop(pid, None)
            self._writing_by_pid[pid] = is_writing(self._root, pid)
        for watch in blocked:
            if self._writing_by_pid.get(watch.rank.key.pid):
                wait_states[watch.start] = WRITING

    def _is_terminal_due(self, pid: int, now_ns: int) -> bool:
        """Whether it is time to check again if a main thread waits for a terminal."""
        return pid not in self._at_terminal or now_ns - self._at_terminal[pid][0] >= TERMINAL_NS

    def _find_terminals(
        self,
        watches: Sequence[RankWatch],
        wait_states: list[int | None],
        targets: Mapping[int, WaitTarget],
        now_ns: int,
    ) -> None:
        for watch in watches:
            if watch.end == watch.start or wait_states[watch.start] != NET:
                continue
            pid = watch.rank.key.pid
            waits = self._at_terminal.get(pid, (0, False))[1]
            if pid in targets and self._is_terminal_due(pid, now_ns):
                target = targets[pid]
                # If the call cannot be read, a process without sockets can only be waiting for a terminal.
                waits = at_terminal(self._root, pid, target) if target.call else has_no_socket(self._root, pid)
                self._at_terminal[pid] = now_ns, waits
            if waits:
                wait_states[watch.start] = TERMINAL

    def _waits_for_other(self, watch: RankWatch, target: WaitTarget, now_ns: int) -> bool:
        """Whether a trainer's main thread certainly does not wait for a loader. target: what it waits for."""
        named = watch.loading is Loading.NAMED
        # The two ends of a Unix socket have different inodes, so we cannot see whether a loader has the other end open.
        # Only PyTorch's loaders are known to use a pipe; the batches of others may come through a TCP socket.
        if target.kind not in ("pipe", "timer", "eventfd", "file", *(("socket",) if named else ())):
            return False
        return not any(self._is_held(watch, inode, now_ns) for inode in target.inodes)

    def _is_held(self, watch: RankWatch, inode: int, now_ns: int) -> bool:
        """Whether a loader may have the inode open: one has it, or one is not sampled, not searched or cannot be read.

        PyTorch's loaders all have the same result queue open, so searching the first MOST_LOADERS is enough.
        """
        own_pid = watch.rank.key.pid
        remembered = self._held_by_loader.get((own_pid, inode))
        if remembered is not None and now_ns - remembered[0] < REMEMBER_NS:
            return remembered[1]
        loaders = [pid for pid in watch.pids() if pid != own_pid]
        if watch.loading is not Loading.NAMED and (watch.partial or len(loaders) > MOST_LOADERS):
            return True
        inode_sets = (held_inodes(self._root, pid) for pid in loaders[:MOST_LOADERS])
        is_held = any(inodes is None or inode in inodes for inodes in inode_sets)
        self._held_by_loader[own_pid, inode] = now_ns, is_held
        return is_held


def _is_any_examined(watches: Sequence[RankWatch], wait_states: Sequence[int | None]) -> bool:
    """Whether any main thread is in a wait state that ``MainThreadWaits`` examines."""
    return any(watch.end > watch.start and wait_states[watch.start] in _EXAMINED_STATES for watch in watches)


def _is_unsure(watch: RankWatch, wait_states: Sequence[int | None]) -> bool:
    """Whether the main thread sleeps in a queue while loaders are busy, and no GPU shows what the thread waits for."""
    if watch.on_gpu or watch.end == watch.start or wait_states[watch.start] != QUEUE:
        return False
    states = wait_states[watch.start : watch.end]
    return not _WORKING_STATES.isdisjoint(states) and any(
        wait_state in _WORKING_STATES and pid != watch.rank.key.pid
        for pid, wait_state in zip(watch.row_pids, states, strict=True)
    )
