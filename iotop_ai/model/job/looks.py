"""Samples ("looks") of one training process and of the makers of its data, and their counts.

A look records whether the main thread and the makers of data run, or what they wait for. Each other active thread of
the trainer is a maker of data, and so is each child process with all its threads (a loader worker, reader or actor).
Whether time was lost also depends on the GPU's utilisation (model/job/time_account.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.job.task_states import (
    CHILD,
    DISK,
    HIDDEN,
    NET,
    OTHER,
    QUEUE,
    RUNNING,
    STOPPED,
    TERMINAL,
    WRITING,
)


class Loading(IntEnum):
    """The way in which a training process gets its data."""

    NAMED = 0
    """By loader workers that are known by name; only PyTorch names its workers."""
    OTHERS = 1
    """By other processes: a pool, actors or readers."""
    ITSELF = 2
    """By its own threads, including its main thread."""


class Split(NamedTuple):
    """Counts of looks by what the makers of data did. If several makers work, each counts as a fraction of the look."""

    disk: float = 0.0
    network: float = 0.0
    cpu: float = 0.0
    other: float = 0.0

    @property
    def whole(self) -> float:
        """The sum of all fields."""
        return self.disk + self.network + self.cpu + self.other


class Look(NamedTuple):
    """One sample of one training process and its makers of data.

    main: the wait state of its main thread
    pin: the wait state of its pin-memory thread; None without one
    threads: the wait states of its other active threads
    autograd: whether a thread of its backward pass runs
    makers: for each process that makes data, the wait states of its threads, and whether its TCP sockets receive data
        or its main thread waits at a socket
    """

    main: int
    pin: int | None
    threads: Sequence[int]
    autograd: bool
    makers: Sequence[tuple[Sequence[int], bool]]
    receives: bool = False
    """Whether the trainer's own sockets receive data, or its main thread waits at one of them; False if the job has
    several training processes, because these also exchange bytes that are not data."""


class LookCounts(NamedTuple):
    """Looks at one training process in an interval, by kind.

    Each look counts in ``looks`` and in exactly one other field; ``crowded`` additionally counts a part of ``running``,
    and ``peer_waits`` a part of all.

    waits: the main thread waits at its result queue, or at a place that the kernel does not show, while makers of its
        data work or sleep in the middle of a batch
    futex: the main thread sleeps in a futex while makers work: it waits for a loader that uses threads, or for a GPU
    futex_computing: the main thread sleeps in a futex while makers work and a thread of the trainer is on a CPU
    main_disk: the main thread itself waits for a device
    main_write: the main thread waits for a device in a call that writes
    main_net: the main thread waits at a socket
    running: the main thread runs
    backward: the main thread sleeps while its backward pass runs
    asleep: the main thread sleeps for another reason, such as a timer or a call of a driver
    resting: the main thread sleeps in a queue or a futex while nothing makes data, or until a child process ends, or at
        a terminal; with PyTorch's workers, also in a futex that is not their queue, while only they work
    stopped: the process is stopped
    hidden: the kernel does not show where the main thread sleeps, and nothing makes data
    crowded: the looks of ``running`` in which a process that makes its data also ran, or was ready to run
    peer_waits: the looks in which another rank of the job waited for its data, and this one did not
    """

    looks: int = 0
    waits: Split = Split()
    futex: Split = Split()
    futex_computing: Split = Split()
    main_disk: int = 0
    main_write: int = 0
    main_net: int = 0
    running: int = 0
    backward: int = 0
    asleep: int = 0
    resting: int = 0
    stopped: int = 0
    hidden: int = 0
    crowded: int = 0
    peer_waits: Split = Split()


def split_look(look: Look, *, threads: bool = True) -> Split | None:
    """One look divided among the makers that work; None if none works.

    threads: whether the trainer's own threads count as makers
    """
    disk = network = cpu = 0
    if threads:
        disk = sum(wait_state == DISK for wait_state in look.threads)
        cpu = sum(wait_state == RUNNING for wait_state in look.threads)
        waits_at_socket = look.receives and any(wait_state in (QUEUE, NET) for wait_state in look.threads)
        network = sum(wait_state == NET for wait_state in look.threads) or int(waits_at_socket and not (disk or cpu))
    for wait_states, receives in look.makers:
        if DISK in wait_states:
            disk += 1
        elif RUNNING in wait_states:
            cpu += 1
        elif NET in wait_states or receives:
            network += 1
    whole = disk + network + cpu
    return Split(disk / whole, network / whole, cpu / whole, 0.0) if whole else None


def data_wait(name: str, split: Split | None) -> Split | None:
    """The wait for data that a look proves, by the look's field and split; None if it proves none."""
    if name == "waits":
        return split
    return {"main_disk": Split(disk=1.0), "main_net": Split(network=1.0)}.get(name)


def _maker_sleeps_mid_batch(look: Look) -> bool:
    """Whether a process that makes data sleeps in the middle of a batch, such as at a lock, without waiting for I/O."""
    return any(any(wait_state in (OTHER, CHILD) for wait_state in wait_states) for wait_states, _ in look.makers)


def field_of(look: Look, loading: Loading) -> tuple[str, Split | None]:
    """The field of ``LookCounts`` that a look belongs to, and the look's split if that field holds a Split."""
    main = look.main
    if main == STOPPED:
        return "stopped", None
    if main == DISK:
        return "main_disk", None
    if main == WRITING:
        return "main_write", None
    if main == RUNNING:
        return "running", None
    if main == NET:
        return "main_net", None
    if main == HIDDEN:
        if look.autograd:
            return "backward", None
        split = split_look(look, threads=loading is not Loading.NAMED)
        return ("hidden", None) if split is None else ("waits", split)
    if main == OTHER:
        return "asleep", None
    if main in (CHILD, TERMINAL):
        # It is unknown what a child does: it may upload something or run a step.
        return "resting", None
    if main == QUEUE:
        split = split_look(look, threads=loading is not Loading.NAMED)
        if split is None and look.receives and not look.makers:
            return "main_net", None
        if split is None and _maker_sleeps_mid_batch(look):
            split = Split(other=1.0)
        return ("resting", None) if split is None else ("waits", split)
    return _at_futex(look, loading)


def _at_futex(look: Look, loading: Loading) -> tuple[str, Split | None]:
    """The result of ``field_of`` for a main thread in a futex.

    Such a thread waits at a queue of its loader threads, for a GPU, or for a backward pass.
    """
    if look.autograd:
        return "backward", None
    if loading is Loading.NAMED:
        # If the pin-memory thread sleeps at the result queue, the queue is empty.
        at_queue = look.pin in (QUEUE, NET)
        if at_queue:
            split = split_look(look, threads=False)
            if split is None and _maker_sleeps_mid_batch(look):
                split = Split(other=1.0)
            return ("resting", None) if split is None else ("waits", split)
        look = look._replace(makers=())
    split = split_look(look)
    if split is None:
        return "resting", None
    return "futex_computing" if RUNNING in look.threads else "futex", split


class LookTally:
    """Adds up the looks at one training process."""

    def __init__(self) -> None:
        self.newest_wait: Split | None = None
        """The wait for data that the newest look proves; None if it proves none."""
        self._clear()

    def _clear(self) -> None:
        self._numbers = dict.fromkeys(_NUMBERS, 0)
        self._splits = {name: [0.0] * len(Split._fields) for name in _SPLITS}

    def add(self, look: Look, loading: Loading, times: int = 1) -> bool:
        """Count a look ``times`` times.

        Returns whether a maker worked, or slept in the middle of a batch, while the main thread waited.
        """
        name, split = field_of(look, loading)
        self.newest_wait = data_wait(name, split)
        self._numbers["looks"] += times
        if split is None:
            self._numbers[name] += times
            if name == "running" and any(RUNNING in wait_states for wait_states, _ in look.makers):
                self._numbers["crowded"] += times
            return False
        self._add_split(name, split, times)
        return True

    def add_peers(self, wait: Split, times: int = 1) -> None:
        """Count, ``times`` times, the wait for data of the job's other ranks in the newest look."""
        self._add_split("peer_waits", wait, times)

    def _add_split(self, name: str, split: Split, times: int) -> None:
        sums = self._splits[name]
        for i, part in enumerate(split):
            sums[i] += part * times

    def take(self) -> LookCounts:
        """Return the counts since the last call, and start again from 0."""
        splits = {name: Split(*parts) for name, parts in self._splits.items()}
        numbers: dict[str, Any] = {**self._numbers, **splits}
        out = LookCounts(**numbers)
        self._clear()
        return out


def count_peers(tallies: Sequence[LookTally], times: int = 1) -> None:
    """For each rank of a job whose newest look proves no wait for data, count the mean of the other ranks' waits.

    tallies: one for each rank of the job, from one sweep. times: how often this sweep occurred.
    """
    waits = [tally.newest_wait for tally in tallies if tally.newest_wait is not None]
    if not waits:
        return
    mean = Split(*(sum(parts) / len(waits) for parts in zip(*waits, strict=True)))
    for tally in tallies:
        if tally.newest_wait is None:
            tally.add_peers(mean, times)


_SPLITS = ("waits", "futex", "futex_computing", "peer_waits")
_NUMBERS = tuple(name for name in LookCounts._fields if name not in _SPLITS)
