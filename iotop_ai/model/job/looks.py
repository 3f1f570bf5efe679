"""Looks at one training process and at the makers of its data, and their counts.

A look records where the main thread and the makers of data run or wait: each other thread of the trainer that moves,
and each of its processes (loader workers, readers, actors) with its threads taken as one. A look is not yet a share of
the time: whether a moment was lost is known only with the GPU's utilisation (model/job/time_account.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.job.task_states import CHILD, DISK, HIDDEN, NET, OTHER, QUEUE, RUNNING, STOPPED, WRITING


class Loading(IntEnum):
    """How a training process gets its data."""

    NAMED = 0
    """Loader workers that are known by name: PyTorch's."""
    OTHERS = 1
    """Other processes: a pool, actors, readers."""
    ITSELF = 2
    """Threads of its own, or its main thread."""


class Split(NamedTuple):
    """Looks by what the makers of data did; a look at several makers is split over the busy ones."""

    disk: float = 0.0
    network: float = 0.0
    cpu: float = 0.0
    other: float = 0.0

    @property
    def whole(self) -> float:
        """The sum of all looks of this part."""
        return self.disk + self.network + self.cpu + self.other


class Look(NamedTuple):
    """One moment of one training process.

    main: the place of its main thread. pin: of its pin-memory thread; None without one. threads: of its other threads
    that move. autograd: whether a thread of its backward pass runs. makers: the places of each process's threads, with
    whether its TCP sockets received bytes lately or one of its threads waits at one.
    """

    main: int
    pin: int | None
    threads: Sequence[int]
    autograd: bool
    makers: Sequence[tuple[Sequence[int], bool]]
    receives: bool = False
    """Whether the trainer's own TCP sockets received bytes lately."""


class LookCounts(NamedTuple):
    """Looks at one training process in an interval; each is in exactly one part but ``looks``, which has all.

    crowded: of ``running``, those at which a process that makes its data ran as well, or was ready to.

    waits: the main thread is at its result queue, and its makers work. futex: it sleeps in a futex while makers work:
    a wait of a thread loader, or a synchronisation with a GPU. futex_computing: the same, with a thread of the trainer
    on a CPU. main_disk: the main thread waits for a device itself. main_write: the same, in a call that writes.
    main_net: at a socket. running: it runs. backward: it sleeps while its backward pass runs. asleep: it sleeps
    elsewhere (a timer, a driver's call). resting: it sleeps in a queue, and nothing makes data, or until a child ends.
    stopped. hidden: the kernel does not say where it sleeps.
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


def split_look(look: Look, *, threads: bool = True) -> Split | None:
    """The makers that work at this moment, as parts of one look; None when none works."""
    disk = network = cpu = 0
    if threads:
        disk = sum(place == DISK for place in look.threads)
        cpu = sum(place == RUNNING for place in look.threads)
        waits_at_socket = look.receives and any(place in (QUEUE, NET) for place in look.threads)
        network = sum(place == NET for place in look.threads) or int(waits_at_socket and not (disk or cpu))
    for places, receives in look.makers:
        if DISK in places:
            disk += 1
        elif RUNNING in places:
            cpu += 1
        elif NET in places or receives:
            network += 1
    whole = disk + network + cpu
    return Split(disk / whole, network / whole, cpu / whole, 0.0) if whole else None


def _busy_elsewhere(look: Look) -> bool:
    """Whether a loader process is in the middle of a batch, though neither blocked nor running: a lock, a sleep."""
    return any(any(place in (OTHER, CHILD) for place in places) for places, _ in look.makers)


def kind_of(look: Look, loading: Loading) -> tuple[str, Split | None]:
    """The part of ``LookCounts`` that a look belongs to, and its split where that part is one."""
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
        found = split_look(look, threads=loading is not Loading.NAMED)
        return ("hidden", None) if found is None else ("waits", found)
    if main == OTHER:
        return "asleep", None
    if main == CHILD:
        # What the child does, an upload or a step, is not known.
        return "resting", None
    if main == QUEUE:
        found = split_look(look, threads=loading is not Loading.NAMED)
        if found is None and look.receives and not look.makers:
            return "main_net", None
        if found is None and _busy_elsewhere(look):
            found = Split(other=1.0)
        return ("resting", None) if found is None else ("waits", found)
    return _at_futex(look, loading)


def _at_futex(look: Look, loading: Loading) -> tuple[str, Split | None]:
    """The main thread sleeps in a futex: at a queue of its own threads, or until a GPU or a backward pass is done."""
    if look.autograd:
        return "backward", None
    if loading is Loading.NAMED:
        # A pin-memory thread that sleeps at the result queue shows that the queue is empty.
        at_queue = look.pin in (QUEUE, NET)
        if at_queue:
            found = split_look(look, threads=False)
            if found is None and _busy_elsewhere(look):
                found = Split(other=1.0)
            return ("resting", None) if found is None else ("waits", found)
        look = look._replace(makers=())
    found = split_look(look)
    if found is None:
        return "resting", None
    return "futex_computing" if RUNNING in look.threads else "futex", found


class LookTally:
    """Adds up the looks at one training process."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._numbers = dict.fromkeys(_NUMBERS, 0)
        self._splits = {name: [0.0] * len(Split._fields) for name in _SPLITS}

    def add(self, look: Look, loading: Loading, times: int = 1) -> bool:
        """Count a look that was seen ``times`` times. True where something made data while the main thread slept."""
        name, split = kind_of(look, loading)
        self._numbers["looks"] += times
        if split is None:
            self._numbers[name] += times
            if name == "running" and any(RUNNING in places for places, _ in look.makers):
                self._numbers["crowded"] += times
            return False
        sums = self._splits[name]
        for i, part in enumerate(split):
            sums[i] += part * times
        return True

    def take(self) -> LookCounts:
        """The counts since the last call."""
        splits = {name: Split(*parts) for name, parts in self._splits.items()}
        numbers: dict[str, Any] = {**self._numbers, **splits}
        out = LookCounts(**numbers)
        self._clear()
        return out


_SPLITS = ("waits", "futex", "futex_computing")
_NUMBERS = tuple(name for name in LookCounts._fields if name not in _SPLITS)
