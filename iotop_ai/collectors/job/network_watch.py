"""Finds the processes of a job that wait for the network, though they seem to sleep without work.

HTTP clients of Python sleep in poll, asyncio in epoll, threaded clients in a futex. Bytes that arrive on a process's
own TCP sockets show it, and so does the descriptor of its system call where that may be read.
"""

from __future__ import annotations

from collections.abc import Sequence

from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.job.rank_watch import RankWatch
from iotop_ai.collectors.job.sockets import JobSockets, Traffic
from iotop_ai.collectors.job.wait_target import wait_target
from iotop_ai.model.job.records import RAY
from iotop_ai.model.job.task_states import FUTEX, NET, QUEUE

LEAST_BYTES_PER_S = 10_000.0
"""Below this rate a connection only keeps itself alive."""
MOST_TARGETS = 8
"""Processes whose system call is read in one update; the sleeping ones take turns."""
FAR_NS = 5_000_000_000
"""How long a connection with another machine is remembered: a client may open one for each request."""
_ASLEEP = (QUEUE, NET, FUTEX)


class NetworkWatch:
    """Tells which sleeping processes wait for the network. Call ``update`` a few times a second while one sleeps."""

    def __init__(self, root: Root, sockets: JobSockets) -> None:
        self._root = root
        self._sockets = sockets
        self._turn = 0
        self._targets: dict[int, bool] = {}
        """Whether a process's main thread was last found asleep at a TCP socket."""
        self._far_ns: dict[int, int] = {}
        """The time when a process last had a connection that counts."""
        self.traffic: dict[int, Traffic] = {}
        """The traffic by pid, from the newest update."""

    def update(self, watches: Sequence[RankWatch], asleep: Sequence[int], now_ns: int) -> bool:
        """Set which processes of each watch wait for the network, and which cannot; returns whether the former changed.

        asleep: pids of all watches.
        """
        pids = [pid for watch in watches for pid in watch.pids()]
        # Ray's processes talk to its services on the same machine all the time, even if no data is sent.
        of_ray = [pid for watch in watches if watch.rank.worker_kind == RAY for pid in watch.pids()]
        jobs = {pid: watch.job for watch in watches for pid in watch.pids()}
        self.traffic = self._sockets.update(pids, now_ns, of_ray, jobs)
        with_sockets = [pid for pid in asleep if pid in self.traffic and self.traffic[pid].sockets]
        self._turn += MOST_TARGETS
        first = self._turn % len(with_sockets) if len(with_sockets) > MOST_TARGETS else 0
        for pid in [*with_sockets[first:], *with_sockets[:first]][:MOST_TARGETS]:
            self._targets[pid] = wait_target(self._root, pid, pid).kind == "socket"
        self._targets = {pid: found for pid, found in self._targets.items() if pid in with_sockets}
        receiving = {pid for pid, traffic in self.traffic.items() if _receives(traffic)}
        waiting = receiving | {pid for pid, found in self._targets.items() if found}
        self._far_ns |= {pid: now_ns for pid, traffic in self.traffic.items() if traffic.sockets}
        self._far_ns = {pid: at for pid, at in self._far_ns.items() if now_ns - at < FAR_NS}
        within = {pid for pid, traffic in self.traffic.items() if traffic.near and pid not in self._far_ns}
        changed = False
        for watch in watches:
            watch.within = frozenset(within.intersection(watch.pids()))
            mine = waiting.intersection(watch.pids())
            if watch.ranks > 1:
                # Ranks talk to each other: bytes of a trainer's own sockets need not be data.
                mine.discard(watch.rank.key.pid)
            if mine != watch.receiving:
                watch.receiving, changed = frozenset(mine), True
        return changed

    def busiest(self, pids: Sequence[int]) -> Traffic | None:
        """The traffic of the process that receives most, with the sum of their rates; None where none is known."""
        known = [self.traffic[pid] for pid in pids if pid in self.traffic]
        if not known:
            return None
        most = max(known, key=lambda one: one.received_bytes_per_s)
        return most._replace(received_bytes_per_s=sum(one.received_bytes_per_s for one in known))


def _receives(traffic: Traffic) -> bool:
    return traffic.growing and traffic.received_bytes_per_s >= LEAST_BYTES_PER_S


def sleepers(watches: Sequence[RankWatch], places: Sequence[int | None]) -> list[int]:
    """Pids of the processes whose main thread sleeps, in jobs whose trainer sleeps too. places: for all watches."""
    out: list[int] = []
    for watch in watches:
        mine = places[watch.start : watch.end]
        if mine and mine[0] in _ASLEEP:
            out += [pid for pid, place in zip(watch.main_pids(), mine, strict=False) if place in _ASLEEP]
    return out
