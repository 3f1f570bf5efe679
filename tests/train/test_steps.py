"""The counter of steps, the measured loader, and the messages that monitors receive."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import pickle
import socket
import threading
import time
import weakref
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import iotop_ai
from iotop_ai.train import steps
from iotop_ai.train.distributed import ranks
from iotop_ai.train.steps import StepCounter, measured_items


class Listener:
    """A monitor's socket that keeps the messages it receives."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.setblocking(False)

    def messages(self) -> list[dict[str, Any]]:
        out = []
        try:
            while True:
                out.append(json.loads(self._socket.recv(4096)))
        except BlockingIOError:
            return out

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def listener(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    monkeypatch.setenv("IOTOP_AI_SOCKET", str(tmp_path / "m.sock"))
    monkeypatch.setattr(steps, "COUNTER", StepCounter())
    found = Listener(tmp_path / "m.sock")
    yield found
    found.close()


def slow(count: int, seconds: float) -> Iterator[int]:
    for i in range(count):
        time.sleep(seconds)
        yield i


def test_the_wait_for_each_batch_is_measured() -> None:
    counter = StepCounter()
    began = time.monotonic_ns()
    for _ in measured_items(slow(5, 0.03), counter):
        time.sleep(0.02)
    took = time.monotonic_ns() - began
    assert counter.batches == 5
    assert counter.data_ns is not None
    assert 150e6 <= counter.data_ns <= took - 100e6


def test_a_loop_that_is_left_early_counts_its_last_batch() -> None:
    counter = StepCounter()
    for i in measured_items(slow(5, 0), counter):
        if i == 2:
            break
    assert counter.batches == 3


def test_an_error_in_the_loader_reaches_the_loop() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise LookupError("no such sample")

    counter = StepCounter()
    with pytest.raises(LookupError, match="no such sample"):
        list(measured_items(broken(), counter))
    assert counter.batches == 1


def test_a_watched_loader_behaves_like_the_loader() -> None:
    class Loader(list[int]):
        batch_size = 7

    watched = iotop_ai.watch(Loader([1, 2, 3]))
    assert list(watched) == [1, 2, 3] == list(watched), "the loader cannot be iterated again"
    assert (len(watched), watched.batch_size) == (3, 7)
    with pytest.raises(AttributeError, match="sampler"):
        watched.sampler  # noqa: B018 - its lookup raises
    with pytest.raises(TypeError):
        len(iotop_ai.watch(slow(1, 0)))


class AsyncLoader:
    """A loader that awaits something before each item, and whose items come from another watched loader."""

    batch_size = 7

    async def __aiter__(self) -> AsyncIterator[int]:
        for item in iotop_ai.watch([1, 2, 3]):
            await asyncio.sleep(0.03)
            yield item


@pytest.mark.parametrize(
    "wrap", [lambda loader: loader, lambda loader: loader.__aiter__()], ids=["loader", "generator"]
)
def test_the_wait_for_an_asynchronous_loader_is_measured_once(wrap: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "COUNTER", StepCounter())

    async def train() -> list[int]:
        return [item async for item in iotop_ai.watch(wrap(AsyncLoader()))]

    assert asyncio.run(train()) == [1, 2, 3]
    assert (steps.COUNTER.batches, iotop_ai.watch(AsyncLoader()).batch_size) == (3, 7)
    assert steps.COUNTER.data_ns is not None
    assert steps.COUNTER.data_ns >= 90e6


def test_another_task_is_counted_while_one_awaits_its_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "COUNTER", StepCounter())

    async def train() -> None:
        awaits, goes_on = asyncio.Event(), asyncio.Event()

        async def stalled() -> AsyncIterator[int]:
            awaits.set()
            await goes_on.wait()
            yield 1

        async def consume() -> list[int]:
            return [item async for item in iotop_ai.watch(stalled())]

        task = asyncio.ensure_future(consume())
        await awaits.wait()
        assert list(iotop_ai.watch([1, 2])) == [1, 2]
        assert steps.COUNTER.batches == 2
        goes_on.set()
        assert await task == [1]

    asyncio.run(train())
    assert steps.COUNTER.batches == 3


def test_a_watched_loader_can_be_copied_and_its_items_accessed() -> None:
    watched = iotop_ai.watch([1, 2, 3])
    for same in (copy.copy(watched), copy.deepcopy(watched), pickle.loads(pickle.dumps(watched))):
        assert list(same) == [1, 2, 3]
    assert (watched[0], watched[1:]) == (1, [2, 3])
    assert not iotop_ai.watch([])
    assert iotop_ai.watch(slow(0, 0)), "a generator is not true"
    with pytest.raises(TypeError):
        iotop_ai.watch({1})[0]
    assert not hasattr(watched, "__next__")


class LoaderWithSetting:
    """A loader with an attribute that the training sets, like the loaders of timm."""

    def __init__(self) -> None:
        self._mixup = True

    @property
    def mixup_enabled(self) -> bool:
        return self._mixup

    @mixup_enabled.setter
    def mixup_enabled(self, enabled: bool) -> None:
        self._mixup = enabled

    def __iter__(self) -> Iterator[str]:
        yield "mixed" if self._mixup else "plain"


@pytest.mark.parametrize("wrapped", [False, True], ids=["once", "twice"])
def test_an_attribute_that_is_set_on_a_watched_loader_reaches_the_loader(wrapped: bool) -> None:
    loader = LoaderWithSetting()
    watched: Any = iotop_ai.watch(iotop_ai.watch(loader) if wrapped else loader)
    watched.mixup_enabled = False
    assert (loader.mixup_enabled, list(watched)) == (False, ["plain"])
    watched.epoch = 3
    assert vars(loader) == {"_mixup": False, "epoch": 3}
    del watched.epoch
    assert not hasattr(loader, "epoch")
    with pytest.raises(AttributeError):
        del watched.epoch
    with pytest.raises(AttributeError):
        iotop_ai.watch([1]).epoch = 3


def test_a_watched_iterator_is_measured_item_by_item(listener: Listener) -> None:
    watched = iotop_ai.watch(slow(3, 0.02))
    assert next(watched) == 0
    assert steps.COUNTER.batches == 1
    assert steps.COUNTER.data_ns is not None
    assert steps.COUNTER.data_ns >= 20e6
    assert list(watched) == [1, 2]
    with pytest.raises(StopIteration):
        next(watched)
    assert steps.COUNTER.batches == 3


def test_only_the_outermost_watched_loader_counts(listener: Listener) -> None:
    def doubled(items: Iterable[int]) -> Iterator[int]:
        return (2 * item for item in items)

    began = time.monotonic_ns()
    for _ in iotop_ai.watch(doubled(iotop_ai.watch(iotop_ai.watch(slow(4, 0.02))))):
        pass
    took = time.monotonic_ns() - began
    assert steps.COUNTER.batches == 4
    assert steps.COUNTER.data_ns is not None
    assert 80e6 <= steps.COUNTER.data_ns <= took


def test_a_loop_within_a_step_is_counted_separately(listener: Listener) -> None:
    for _ in iotop_ai.watch(range(2)):
        assert list(iotop_ai.watch(range(3))) == [0, 1, 2]
    assert steps.COUNTER.batches == 2 + 2 * 3


def test_a_loop_in_another_thread_is_counted_separately(listener: Listener) -> None:
    def fetched() -> Iterator[int]:
        other = threading.Thread(target=list, args=(iotop_ai.watch(range(5)),))
        other.start()
        other.join()
        yield 1

    list(iotop_ai.watch(fetched()))
    assert steps.COUNTER.batches == 1 + 5


def test_an_error_during_a_fetch_does_not_affect_later_counts(listener: Listener) -> None:
    def broken() -> Iterator[int]:
        raise LookupError("no such sample")
        yield 1

    for fetch in (next, list):
        with pytest.raises(LookupError):
            fetch(iotop_ai.watch(broken()))
    list(iotop_ai.watch(range(2)))
    assert steps.COUNTER.batches == 2


class Skipping:
    """An iterator that goes on after the error of one item, like that of torch's DataLoader."""

    def __init__(self, broken: int) -> None:
        self._broken, self._next = broken, 0

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        self._next += 1
        if self._next == self._broken:
            raise LookupError("no such sample")
        if self._next > 5:
            raise StopIteration
        return self._next


class Restarting:
    """A loader whose iterator is a new Skipping."""

    def __iter__(self) -> Iterator[int]:
        return Skipping(2)


@pytest.mark.parametrize("loader", [Restarting, lambda: Skipping(2)], ids=["loader", "iterator"])
def test_a_loop_that_skips_an_error_gets_the_items_after_it(loader: Any, listener: Listener) -> None:
    items, got, errors = iter(iotop_ai.watch(loader())), [], 0
    while len(got) < 4 and errors < 2:
        try:
            got.append(next(items))
        except LookupError:
            errors += 1
    assert (got, errors) == ([1, 3, 4, 5], 1)
    with pytest.raises(StopIteration):
        next(items)
    assert steps.COUNTER.batches == 4
    (last,) = listener.messages()
    assert last["batches"] == 4, "the end of the loader was not sent at once"


def test_a_watched_iterator_within_a_fetch_stays_open_after_a_break(listener: Listener) -> None:
    shards = iotop_ai.watch(slow(10, 0))

    def batches() -> Iterator[list[int]]:
        for _ in range(4):
            batch = []
            for shard in shards:
                batch.append(shard)
                if len(batch) == 3:
                    break
            yield batch

    assert list(iotop_ai.watch(batches())) == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
    assert steps.COUNTER.batches == 4


def test_an_iterator_from_before_a_fetch_does_not_count_within_it(listener: Listener) -> None:
    items = iter(iotop_ai.watch(range(6)))
    assert next(items) == 0

    def pairs() -> Iterator[list[int]]:
        for _ in range(2):
            yield [next(items), next(items)]

    assert list(iotop_ai.watch(pairs())) == [[1, 2], [3, 4]]
    assert list(items) == [5]
    assert steps.COUNTER.batches == 1 + 2 + 1


class Batch:
    """An object to which a weak reference is possible."""


def test_a_batch_is_freed_when_the_loop_drops_it() -> None:
    for batch in iotop_ai.watch(Batch() for _ in range(2)):
        reference = weakref.ref(batch)
        del batch
        assert reference() is None


def test_the_loader_starts_when_its_iterator_is_made() -> None:
    class Loader:
        started = False

        def __iter__(self) -> Iterator[int]:
            self.started = True
            time.sleep(0.02)
            return iter([1])

    loader, counter = Loader(), StepCounter()
    items = measured_items(loader, counter)
    assert loader.started
    assert counter.data_ns is not None
    assert counter.data_ns >= 20e6, "the start was not measured"
    assert list(items) == [1]


def test_the_totals_are_sent_when_a_loop_is_left(listener: Listener) -> None:
    for _ in iotop_ai.watch(range(5)):
        break
    (message,) = listener.messages()
    assert message["batches"] == 1


def test_monitors_get_totals_at_most_twice_a_second(listener: Listener) -> None:
    for _ in iotop_ai.watch(range(20_000)):
        iotop_ai.step()
    (last,) = listener.messages()[-1:]
    assert (last["kind"], last["steps"], last["batches"]) == ("steps", 20_000, 20_000)
    assert last["at_ns"] <= time.monotonic_ns()
    counter = steps.COUNTER
    for tick in range(10):
        counter.step()
        counter.send_if_due(counter.due_ns - 1 if tick else counter.due_ns)
    assert len(listener.messages()) == 1


def test_unchanged_totals_are_not_sent_again(listener: Listener) -> None:
    steps.step()
    steps.COUNTER.send()
    steps.COUNTER.send()
    (only,) = listener.messages()
    assert only["steps"] == 1
    assert only["data_ns"] is None, "a wait was given that nothing measured"


def test_the_text_of_a_mark_is_cleaned_before_it_is_sent(listener: Listener) -> None:
    iotop_ai.mark(" epoch\x1b[31m 3 ")
    iotop_ai.mark("   ")
    assert listener.messages() == [{"kind": "mark", "text": "epoch\ufffd[31m 3"}]


def test_without_a_monitor_nothing_happens(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for path in (tmp_path / "missing.sock", tmp_path):
        monkeypatch.setenv("IOTOP_AI_SOCKET", str(path))
        iotop_ai.mark("epoch 1")
        steps.COUNTER.step()
        steps.COUNTER.send()


def test_a_forked_child_counts_its_own_steps(listener: Listener) -> None:
    for _ in iotop_ai.watch(range(3)):
        steps.step()
    listener.messages()
    pid = os.fork()
    if not pid:
        status = 1
        try:
            steps.step()
            steps.COUNTER.send()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    (message,) = listener.messages()
    assert (message["steps"], message["batches"], message["data_ns"]) == (1, 0, 0)


def batches_in_a_child() -> int:
    """The batches that a forked child counts while it iterates over a watched loader of three items."""
    pid = os.fork()
    if not pid:
        status = 255
        try:
            assert list(iotop_ai.watch("abc")) == ["a", "b", "c"]
            status = steps.COUNTER.batches
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class Forking:
    """A loader that starts its worker when an iteration begins."""

    def __iter__(self) -> Iterator[int]:
        return iter([batches_in_a_child()])


@pytest.mark.usefixtures("listener")
def test_a_worker_that_is_forked_within_a_measured_fetch_measures_its_own_loader() -> None:
    assert list(iotop_ai.watch(Forking())) == [3]

    async def loader() -> AsyncIterator[int]:
        yield batches_in_a_child()

    async def items() -> list[int]:
        return [item async for item in iotop_ai.watch(loader())]

    assert asyncio.run(items()) == [3]


def test_the_rank_comes_from_the_variables_of_the_launcher() -> None:
    assert ranks({"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "SLURM_PROCID": "0"}) == {
        "rank": 3,
        "local_rank": 1,
        "world_size": 8,
    }
    assert ranks({"SLURM_PROCID": "5", "SLURM_LOCALID": "x", "SLURM_NTASKS": "-1"}) == {
        "rank": 5,
        "local_rank": None,
        "world_size": None,
    }
