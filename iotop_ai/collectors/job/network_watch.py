"""Finds the processes of a job that wait for the network although they seem to sleep without work.

Python's HTTP clients sleep in poll, asyncio sleeps in epoll, and threaded clients sleep in a futex. Two facts reveal
such a wait: bytes that arrive on the process's own TCP sockets, and the descriptor in its system call, if we can read
it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence

from iotop_ai.collectors.job.rank_watch import RankWatch
from iotop_ai.collectors.job.sockets import JobSockets, Traffic
from iotop_ai.collectors.job.wait_target import WaitTarget
from iotop_ai.model.job.records import RAY
from iotop_ai.model.job.task_states import FUTEX, NET, QUEUE

LEAST_BYTES_PER_S = 10_000.0
"""The least rate at which a process receives data. At a lower rate, it only exchanges keep-alive messages."""
MOST_TARGETS = 8
"""The most processes whose system call is read in one update. If more processes sleep, they are read in rotation."""
LATELY_NS = 10_000_000_000
"""The time over which the bytes of a trainer are averaged, in nanoseconds. One that is watched for less is not judged.
"""
REMEMBER_NS = 5_000_000_000
"""How long a process's last connection that counts in ``Traffic.sockets`` is remembered, in nanoseconds.

A client may open a new connection for each request.
"""
_ASLEEP = (QUEUE, NET, FUTEX)


class NetworkWatch:
    """Finds out which sleeping processes wait for the network.

    Call ``update`` a few times a second while a process sleeps. A watch is the RankWatch of one training process
    (trainer) with its workers and children.
    """

    def __init__(self, sockets: JobSockets) -> None:
        self._sockets = sockets
        self._turn = 0
        self._at_socket_by_pid: dict[int, bool] = {}
        """Whether the main thread of a process was waiting at a network socket when it was last read, by PID."""
        self._last_connected_ns: dict[int, int] = {}
        """The time when a process last had a connection that counts in ``Traffic.sockets``, by PID."""
        self._received: dict[int, deque[tuple[int, float]]] = {}
        """(time of an update, bytes received since the update before) of each trainer, by PID, oldest first.

        The first row is from LATELY_NS ago or earlier, if the trainer has been watched for that long.
        """
        self._updated_ns = 0
        self._inodes: dict[int, frozenset[int]] = {}
        """The sockets of each trainer at the newest update, by PID."""
        self.traffic: dict[int, Traffic] = {}
        """The traffic of each process at the newest update, by PID."""

    def due(self, asleep: Sequence[int]) -> list[int]:
        """Return the PIDs of the sleeping processes whose targets ``update`` needs next.

        asleep: the PIDs of the sleeping processes of all watches.
        """
        # The traffic of a process is unknown before its first update.
        with_sockets = [pid for pid in asleep if pid not in self.traffic or self.traffic[pid].sockets]
        self._turn += MOST_TARGETS
        start = self._turn % len(with_sockets) if len(with_sockets) > MOST_TARGETS else 0
        return [*with_sockets[start:], *with_sockets[:start]][:MOST_TARGETS]

    def update(
        self, watches: Sequence[RankWatch], asleep: Sequence[int], targets: Mapping[int, WaitTarget], now_ns: int
    ) -> bool:
        """Set ``receiving``, ``connected_within_job`` and ``main_gets_data`` of each watch; return whether any
        ``receiving`` changed.

        asleep: the PIDs of the sleeping processes of all watches. targets: what some main threads wait for, by PID.
        """
        pids = [pid for watch in watches for pid in watch.pids()]
        # Ray's processes exchange messages with its services on this machine all the time, even when no data is sent.
        ray_pids = [pid for watch in watches if watch.rank.worker_kind == RAY for pid in watch.pids()]
        jobs = {pid: watch.job for watch in watches for pid in watch.pids()}
        self.traffic = self._sockets.update(pids, now_ns, ray_pids, jobs)
        # If the traffic is unknown, as in a container's own network namespace, only the system call shows the wait. The
        # main thread of a server waits at a socket too, so only workers count.
        unknown = set(asleep).difference(self.traffic, ray_pids, (watch.rank.key.pid for watch in watches))
        with_sockets = [pid for pid in asleep if pid in unknown or (pid in self.traffic and self.traffic[pid].sockets)]
        self._at_socket_by_pid |= {pid: target.kind == "socket" for pid, target in targets.items()}
        self._at_socket_by_pid = {
            pid: at_socket for pid, at_socket in self._at_socket_by_pid.items() if pid in with_sockets
        }
        now_receiving = {pid for pid, traffic in self.traffic.items() if _receives(traffic)}
        waiting = now_receiving | {pid for pid, at_socket in self._at_socket_by_pid.items() if at_socket}
        self._last_connected_ns |= {pid: now_ns for pid, traffic in self.traffic.items() if traffic.sockets}
        self._last_connected_ns = {pid: at for pid, at in self._last_connected_ns.items() if now_ns - at < REMEMBER_NS}
        within_job = {
            pid for pid, traffic in self.traffic.items() if traffic.near and pid not in self._last_connected_ns
        }
        self._count_received({watch.rank.key.pid for watch in watches}, now_ns)
        changed = False
        for watch in watches:
            watch.main_gets_data = self._gets_data(watch.rank.key.pid, now_ns)
            watch.connected_within_job = frozenset(within_job.intersection(watch.pids()))
            receiving = waiting.intersection(watch.pids())
            if watch.has_peers:
                # The ranks exchange messages, so bytes on a trainer's own sockets may not be training data.
                receiving.discard(watch.rank.key.pid)
            if receiving != watch.receiving:
                watch.receiving, changed = frozenset(receiving), True
        return changed

    def _count_received(self, trainers: Collection[int], now_ns: int) -> None:
        seconds, self._updated_ns = (now_ns - self._updated_ns) / 1e9, now_ns
        known, self._inodes = self._inodes, {pid: self.traffic[pid].inodes for pid in trainers if pid in self.traffic}
        counted, self._received = self._received, {}
        for pid in trainers:
            if pid in self.traffic:
                rows = self._received[pid] = counted.get(pid, deque())
                if known.get(pid) != self._inodes[pid]:
                    rows.clear()  # bytes of connections that open and close between two updates are not counted
                rows.append((now_ns, self.traffic[pid].received_bytes_per_s * seconds))
                while len(rows) > 1 and rows[1][0] <= now_ns - LATELY_NS:
                    rows.popleft()

    def _gets_data(self, pid: int, now_ns: int) -> bool:
        """Return whether a trainer has lately received as much as data takes; True when that is unknown."""
        rows = self._received.get(pid)
        if not rows or now_ns - rows[0][0] < LATELY_NS or self.traffic[pid].near:
            return True
        received = sum(count for _, count in rows) - rows[0][1]
        return received * 1e9 >= LEAST_BYTES_PER_S * (now_ns - rows[0][0])

    def busiest(self, pids: Sequence[int]) -> Traffic | None:
        """Return the traffic of the process that receives most, with the sum of all these processes' rates as its rate.

        None when no traffic of these processes is known.
        """
        traffics = [self.traffic[pid] for pid in pids if pid in self.traffic]
        if not traffics:
            return None
        busiest = max(traffics, key=lambda traffic: traffic.received_bytes_per_s)
        return busiest._replace(received_bytes_per_s=sum(traffic.received_bytes_per_s for traffic in traffics))


def _receives(traffic: Traffic) -> bool:
    return traffic.growing and traffic.received_bytes_per_s >= LEAST_BYTES_PER_S


def sleepers(watches: Sequence[RankWatch], wait_states: Sequence[int | None]) -> list[int]:
    """Return the PIDs of the trainers whose main thread sleeps, and of their workers whose main thread sleeps too.

    wait_states: the state of each task of all watches in one sweep, as in ``model.job.task_states``.
    """
    out: list[int] = []
    for watch in watches:
        states = wait_states[watch.start : watch.end]
        if states and states[0] in _ASLEEP:
            out += [pid for pid, wait_state in zip(watch.main_pids(), states, strict=False) if wait_state in _ASLEEP]
    return out
