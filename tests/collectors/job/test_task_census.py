"""The threads and children of real processes: those that compute are chosen, and those that rest are dropped."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.job.task_census import (
    ACTIVE_NS,
    LISTED_EVERY_NS,
    MOST_CHILDREN,
    MOST_LISTED,
    ROTATED_PER_CENSUS,
    Census,
    ThreadCensus,
    children_of,
    start_ticks,
)
from iotop_ai.model.process.records import ProcessKey
from tests.collectors.job.children import Child, descriptors, fields, names_of
from tests.waiting import until

ROOT = Root()
HALF_NS = 500_000_000
Start = Callable[..., Child]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a process with these threads."""
    children: list[Child] = []

    def run(*words: str) -> Child:
        children.append(Child(*words))
        return children[-1]

    yield run
    for child in children:
        child.end()


class Censuses:
    """Takes censuses of one process, and pretends that half a second passes between them."""

    def __init__(self, child: Child) -> None:
        self.census = ThreadCensus(ROOT, child.key)
        self.now_ns = 10**12

    def next(self, later_ns: int = HALF_NS) -> Census:
        """The census after this much time."""
        self.now_ns += later_ns
        return self.census.update(self.now_ns)

    def until(self, threads: set[int]) -> Census:
        """Take censuses until exactly these threads are chosen, and return the last census."""
        found = Census()

        def just_these() -> bool:
            nonlocal found
            found = self.next()
            return set(found.threads) == threads

        until(just_these)
        return found


def test_threads_that_compute_are_chosen_until_they_rest_for_five_seconds(start: Start) -> None:
    child = start(*["asleep"] * 10, *["busy"] * 3, *["asleep"] * 7)
    busy = set(child.tids[10:13])
    before = descriptors()
    censuses = Censuses(child)
    censuses.until(busy)
    used = {tid: child.cpu_ticks(tid) for tid in busy}
    until(lambda: all(child.cpu_ticks(tid) > used[tid] for tid in busy))
    child.rest()
    assert set(censuses.next().threads) == busy
    assert set(censuses.next(ACTIVE_NS).threads) == busy
    assert censuses.next(1) == Census()
    censuses.census.close()
    assert descriptors() == before


def test_a_thread_in_state_d_is_chosen_without_cpu_time(tmp_path: Path) -> None:
    child = Child.in_d(tmp_path)
    try:
        tid = child.tids[0]
        until(lambda: fields(child.pid, tid)[0] == "D")
        censuses = Censuses(child)
        censuses.until({tid})
        assert censuses.next(20 * ACTIVE_NS).threads == (tid,)
        censuses.census.close()
    finally:
        child.end()


def test_threads_of_pytorch_are_known_by_name(start: Start) -> None:
    child = start("asleep", "busy:pt_autograd_0", "busy:pt_data_pin", "asleep:pt_autograd_1", "busy:OpenMP")
    _, autograd, pin, resting, pool = child.tids
    censuses = Censuses(child)
    found = censuses.until({autograd, pool})
    assert found.pin == pin
    # A thread that rests is known as well, so that it need not be looked up when it begins to work.
    assert found.autograd == {autograd, resting}
    child.rest()
    assert censuses.next(2 * ACTIVE_NS).pin == pin
    assert censuses.next(2 * ACTIVE_NS) == Census((), pin, frozenset((autograd, resting)))
    censuses.census.close()


def test_the_number_of_threads_is_bounded(start: Start) -> None:
    child = start(*["asleep"] * 198, "busy", "busy")
    before = descriptors()
    censuses = Censuses(child)
    censuses.until(set(child.tids[-2:]))
    assert descriptors() == before + MOST_LISTED
    censuses.next(LISTED_EVERY_NS)
    assert descriptors() == before + MOST_LISTED
    censuses.census.close()
    assert descriptors() == before


def test_a_process_may_end_during_the_census(start: Start) -> None:
    child = start("busy", "asleep", "asleep:pt_data_pin")
    before = descriptors()
    censuses = Censuses(child)
    censuses.until({child.tids[0]})
    assert descriptors() == before + 3
    child.end()
    assert censuses.next(1) == Census()
    # The two pipes to the child are closed too.
    assert descriptors() == before - 2
    assert censuses.next(LISTED_EVERY_NS) == Census()
    assert start_ticks(ROOT, child.pid) is None
    censuses.census.close()


def test_a_new_thread_is_found_within_a_second() -> None:
    own = ProcessKey(os.getpid(), start_ticks(ROOT, os.getpid()) or 0)
    census = ThreadCensus(ROOT, own)
    census.update(10**12)
    end = threading.Event()
    tids: list[int] = []

    def compute() -> None:
        tids.append(threading.get_native_id())
        while not end.is_set():
            sum(range(10_000))

    thread = threading.Thread(target=compute)
    before = len(os.listdir("/proc/self/task"))
    thread.start()
    until(lambda: len(os.listdir("/proc/self/task")) > before and bool(tids))
    now = 10**12 + LISTED_EVERY_NS - 1
    assert tids[0] not in census.update(now).threads
    found: list[int] = []

    def seen() -> bool:
        nonlocal now
        now += HALF_NS
        found[:] = census.update(now).threads
        return tids[0] in found

    until(seen)
    end.set()
    thread.join()
    until(lambda: not Path(f"/proc/self/task/{tids[0]}").exists())
    assert tids[0] not in census.update(now).threads
    census.close()


def test_a_pipeline_below_the_main_thread_is_found(start: Start) -> None:
    child = start("asleep", "below")
    until(lambda: names_of(children_of(ROOT, child.pid)) == ["cat", "cat", "sh"])
    child.end()
    assert children_of(ROOT, child.pid) == []


def test_a_pipeline_below_any_thread_is_found_and_kept(start: Start) -> None:
    child = start(*["asleep"] * 30, "shell", *["asleep"] * 30)
    censuses = Censuses(child)
    censuses.next()
    until(lambda: names_of(censuses.census.children([child.tids[30]])) == ["cat", "cat", "sh"])
    # The pipeline stays listed although the thread that started it goes on sleeping.
    for _ in range(20):
        assert names_of(censuses.census.children([])) == ["cat", "cat", "sh"]
    assert children_of(ROOT, child.pid) == []
    other = Censuses(child)
    other.next()
    turns = [bool(other.census.children([])) for _ in range(-(-len(child.tids) // ROTATED_PER_CENSUS))]
    assert turns[-1]
    assert not turns[0]
    child.end()
    assert censuses.census.children([]) == []
    for one in (censuses, other):
        one.census.close()


def test_the_number_of_children_is_bounded(start: Start) -> None:
    child = start(*["shell"] * 24)
    censuses = Censuses(child)
    censuses.next()
    until(lambda: len(censuses.census.children(child.tids)) == MOST_CHILDREN)
    assert len(set(censuses.census.children(child.tids))) == MOST_CHILDREN
    censuses.census.close()
