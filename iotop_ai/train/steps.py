"""Counts this process's steps and its waits for data, and sends the totals to the monitors of this user.

``for batch in watch(loader)`` measures the time in next(), ``step()`` counts a step, and ``mark(text)`` marks a moment.
All monitors of this user get the totals through a Unix socket, at most twice a second. Without a monitor nothing
happens.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from contextvars import ContextVar
from typing import (
    Any,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Dict,
    Generic,
    Iterable,
    Iterator,
    Optional,
    Tuple,
    TypeVar,
    overload,
)

from iotop_ai.collectors.io.monitor_sockets import LONGEST_TEXT, send
from iotop_ai.model.clean import clean
from iotop_ai.train.distributed import ranks
from iotop_ai.train.loader_settings import dataloader_settings

T = TypeVar("T")
Message = Dict[str, Any]
Totals = Tuple[int, Optional[int], Optional[int]]
"""The fields batches, steps and data_ns of a StepCounter."""

SEND_EVERY_NS = 500_000_000
"""The shortest time between two messages while a loop runs. A socket's queue has room for only ten messages."""


class StepCounter:
    """The totals of this process. They never decrease.

    batches: the batches that ``watch`` or a callback has counted. steps: the finished steps; None until ``step`` counts
    the first one. data_ns: the time for which the loop has waited for data; None until something measures it.
    """

    __slots__ = ("_sent", "batches", "data_ns", "due_ns", "listeners", "loader", "own_sockets", "steps")

    def __init__(self) -> None:
        self.batches = 0
        self.steps: int | None = None
        self.data_ns: int | None = None
        self.due_ns = time.monotonic_ns() + SEND_EVERY_NS
        self.listeners: list[Callable[[Message], None]] = []
        """Functions that are called with each message, which also goes to the monitors' sockets."""
        self.own_sockets: set[str] = set()
        """The names of the sockets that get no message, because their monitors get it through ``listeners``."""
        self.loader: Message | None = None
        """The settings of the DataLoader from which the loop takes its batches; None if it has another loader."""
        self._sent: Totals = (0, None, None)

    def reset(self) -> None:
        """Start from zero. A forked child does this, because the steps of its parent do not count for it."""
        self.batches = 0
        self.steps = None if self.steps is None else 0
        self.data_ns = None if self.data_ns is None else 0
        self._sent = (0, self.steps, self.data_ns)
        self.loader = None
        self.listeners = []
        self.own_sockets = set()  # a forked child sends its messages to the recorder's socket

    def use_loader(self, loader: Any) -> None:
        """Take the settings of the loader from which the loop takes its batches, if it is a DataLoader."""
        while isinstance(loader, Watched):
            loader = loader._loader
        # An attribute of a loader may raise any error, which must not end the training.
        with contextlib.suppress(Exception):
            self.loader = dataloader_settings(loader) or self.loader

    def step(self, count: int = 1) -> None:
        """Count a finished step, or several."""
        self.steps = (self.steps or 0) + count
        self.send_if_due(time.monotonic_ns())

    def add_wait(self, nanoseconds: int) -> None:
        """Add the time for which the loop waited for a batch, and count the batch."""
        self.data_ns = (self.data_ns or 0) + max(0, nanoseconds)
        self.batches += 1

    def send_if_due(self, now_ns: int) -> None:
        """Send the totals if the last message was sent long enough ago."""
        if now_ns >= self.due_ns:
            self.send(now_ns)

    def send(self, now_ns: int | None = None) -> None:
        """Send the totals to the monitors, unless the monitors have them already."""
        at_ns = time.monotonic_ns() if now_ns is None else now_ns
        self.due_ns = at_ns + SEND_EVERY_NS
        totals = (self.batches, self.steps, self.data_ns)
        if totals == self._sent:
            return
        self._sent = totals
        batches, steps, data_ns = totals
        self.broadcast(
            {"kind": "steps", "at_ns": at_ns, "steps": steps, "batches": batches, "data_ns": data_ns},
            {**ranks(os.environ), "loader": self.loader},
        )

    def broadcast(self, message: Message, more: Message | None = None) -> None:
        """Send a message to all monitors and listeners. more: fields to add, except those that are None."""
        message.update((name, value) for name, value in (more or {}).items() if value is not None)
        for listener in tuple(self.listeners):  # another thread may end its recording meanwhile
            listener(message)
        # An error of a monitor must not end the training.
        with contextlib.suppress(Exception):
            send(message, os.environ, self.own_sockets)


COUNTER = StepCounter()
"""The counter of this process."""


def step() -> None:
    """Count a finished training step of this process."""
    COUNTER.step()


def mark_error(error: BaseException | None, marker: Callable[[str], None] | None = None) -> None:
    """Mark that an error ended the training. Ctrl-C and a normal exit are not errors. marker: ``mark`` by default."""
    if error is not None and not isinstance(error, (KeyboardInterrupt, SystemExit, GeneratorExit)):
        (marker or mark)(f"ended by {type(error).__name__}")


def mark(text: str) -> None:
    """Mark this moment on the timeline of every monitor and recording of this user. An empty text marks nothing."""
    cleaned = clean(str(text).strip(), LONGEST_TEXT)
    if cleaned:
        COUNTER.broadcast({"kind": "mark", "text": cleaned})


class _Fetching(threading.local):
    """The state of a measured fetch, for each thread.

    active: whether this thread is within a measured fetch. A watched loader within it does not count again.
    """

    active = False


_FETCHING = _Fetching()
_AWAITING: ContextVar[bool] = ContextVar("awaiting", default=False)
"""Whether the current task awaits a measured fetch. Other tasks of the same thread go on meanwhile."""


def _begin_child() -> None:
    """Begin to count in a forked child. A loader may start its workers within a fetch that the parent measures."""
    COUNTER.reset()
    _FETCHING.active = False
    _AWAITING.set(False)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_child)


class Watched(Generic[T]):
    """A loader whose iteration is measured.

    All other uses (``len``, ``sampler``, ``dataset``, setting an attribute) go to the loader.
    """

    def __init__(self, loader: Iterable[T]) -> None:
        self._loader = loader

    def __iter__(self) -> Iterator[T]:
        return measured_items(self._loader, COUNTER)

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]  # raises the loader's own TypeError

    def __bool__(self) -> bool:
        return bool(self._loader)

    def __getitem__(self, index: Any) -> Any:
        return self._loader[index]  # type: ignore[index]  # raises the loader's own TypeError

    def __getattr__(self, name: str) -> Any:
        # copy and pickle look up special methods on the copy before it has its loader.
        if _is_own(name):
            raise AttributeError(name)
        return getattr(self._loader, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if _is_own(name):
            object.__setattr__(self, name, value)
        else:
            setattr(self._loader, name, value)

    def __delattr__(self, name: str) -> None:
        if _is_own(name):
            object.__delattr__(self, name)
        else:
            delattr(self._loader, name)


def _is_own(name: str) -> bool:
    """Return whether this attribute is that of a ``Watched`` itself, and not of its loader."""
    return name == "_loader" or (name.startswith("__") and name.endswith("__"))


class WatchedIterator(Watched[T]):
    """A watched loader that is itself an iterator, such as a generator."""

    def __next__(self) -> T:
        loader: Iterator[T] = self._loader  # type: ignore[assignment]
        if _FETCHING.active or _AWAITING.get():
            return next(loader)
        before = time.monotonic_ns()
        _FETCHING.active = True
        try:
            item = next(loader)
        finally:
            _FETCHING.active = False
        now = time.monotonic_ns()
        COUNTER.add_wait(now - before)
        COUNTER.send_if_due(now)
        return item


class WatchedAsync(Watched[T]):
    """A watched loader for use with ``async for``."""

    def __aiter__(self) -> AsyncIterator[T]:
        return WatchedAsyncIterator(self._loader.__aiter__())  # type: ignore[attr-defined]


class WatchedAsyncIterator(WatchedAsync[T]):
    """A watched loader that is itself an asynchronous iterator, such as an asynchronous generator."""

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    async def __anext__(self) -> T:
        loader: AsyncIterator[T] = self._loader  # type: ignore[assignment]
        if _AWAITING.get():
            return await loader.__anext__()
        before = time.monotonic_ns()
        _AWAITING.set(True)
        try:
            item = await loader.__anext__()
        finally:
            _AWAITING.set(False)
        now = time.monotonic_ns()
        COUNTER.add_wait(now - before)
        COUNTER.send_if_due(now)
        return item


@overload
def watch(loader: Iterable[T]) -> Watched[T]: ...
@overload
def watch(loader: AsyncIterable[T]) -> WatchedAsync[T]: ...


def watch(loader: Any) -> Any:
    """Return an object that behaves like the loader, measures the wait for each batch, and counts the batches.

    Iterate over an asynchronous loader with ``async for``. Its wait is the time for which the task awaits a batch.

    The object is not a DataLoader of torch: a Trainer of Lightning and ``accelerate.prepare()`` do not give it a
    DistributedSampler. Wrap the loader that your own loop iterates over, after ``prepare``. With a Trainer, use its
    callback instead.
    """
    if hasattr(loader, "__aiter__"):
        return (WatchedAsyncIterator if hasattr(loader, "__anext__") else WatchedAsync)(loader)
    return WatchedIterator(loader) if hasattr(loader, "__next__") else Watched(loader)


def measured_items(loader: Iterable[T], counter: StepCounter) -> Iterator[T]:
    """Return an iterator over the loader's items that measures the wait for each. The loader's start is a wait, too."""
    if _FETCHING.active or _AWAITING.get():  # a watched loader around this loader counts already
        return iter(loader)
    counter.use_loader(loader)
    before = time.monotonic_ns()
    _FETCHING.active = True
    try:
        items = iter(loader)
    finally:
        _FETCHING.active = False
        counter.data_ns = (counter.data_ns or 0) + time.monotonic_ns() - before
    return MeasuredItems(items, counter)


class MeasuredItems(Iterator[T]):
    """An iterator whose items are measured: the time in ``next`` is the wait, and an item counts when its step ends.

    It goes on after an error if the measured iterator does, and it keeps no reference to an item. A generator would end
    with its first error, and would keep its last item.
    """

    __slots__ = ("_counter", "_in_step", "_items")

    def __init__(self, items: Iterator[T], counter: StepCounter) -> None:
        self._items, self._counter = items, counter
        self._in_step = False
        """Whether the loop has an item that is not counted yet."""

    def __next__(self) -> T:
        fetching = _FETCHING
        if fetching.active or _AWAITING.get():  # the watched loader around this iterator counts already
            return next(self._items)
        counter, clock = self._counter, time.monotonic_ns
        before = clock()
        if self._in_step:
            self._in_step = False
            counter.batches += 1
        if before >= counter.due_ns:
            counter.send(before)
        fetching.active = True
        try:
            item = next(self._items)
        except BaseException as error:
            fetching.active = False
            counter.data_ns = (counter.data_ns or 0) + clock() - before
            if isinstance(error, StopIteration):  # the end of the loader
                counter.send()
            raise
        fetching.active = False
        counter.data_ns = (counter.data_ns or 0) + clock() - before
        self._in_step = True
        return item

    def __del__(self) -> None:
        """Count the last item and send the totals, because the loop is left."""
        if self._in_step:
            self._counter.batches += 1
        self._counter.send()
