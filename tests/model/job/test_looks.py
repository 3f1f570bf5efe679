"""What one look at a training process counts as, by its main thread and by those that make its data."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotop_ai.model.job.looks import Loading, Look, LookCounts, LookTally, Split, kind_of, split_look
from iotop_ai.model.job.task_states import CHILD, DISK, FUTEX, HIDDEN, NET, OTHER, QUEUE, RUNNING, STOPPED, WRITING

NAMED, OTHERS, ITSELF = Loading.NAMED, Loading.OTHERS, Loading.ITSELF
PLACES = (DISK, RUNNING, QUEUE, NET, OTHER, HIDDEN, FUTEX, STOPPED, WRITING, CHILD)
IDLE = ((QUEUE,), False)
READER = ((DISK,), False)
DECODER = ((RUNNING,), False)


def look(
    main: int,
    *makers: tuple[tuple[int, ...], bool],
    pin: int | None = None,
    threads: tuple[int, ...] = (),
    autograd: bool = False,
    receives: bool = False,
) -> Look:
    return Look(main, pin, threads, autograd, makers, receives)


DISKS, NETWORK, CPU, OTHER_WAIT = Split(disk=1.0), Split(network=1.0), Split(cpu=1.0), Split(other=1.0)


@pytest.mark.parametrize(
    ("seen", "loading", "part", "split"),
    [
        # A main thread that is busy itself, whatever its makers do.
        (look(STOPPED, READER, DECODER), NAMED, "stopped", None),
        (look(DISK, DECODER), NAMED, "main_disk", None),
        (look(WRITING, READER), ITSELF, "main_write", None),
        (look(NET, DECODER), ITSELF, "main_net", None),
        (look(RUNNING, READER, threads=(DISK,)), ITSELF, "running", None),
        (look(OTHER, READER), NAMED, "asleep", None),
        # It waits for a child, which may upload a checkpoint: that is no time that trains.
        (look(CHILD, IDLE), NAMED, "resting", None),
        (look(QUEUE, ((CHILD,), False), IDLE), NAMED, "waits", OTHER_WAIT),
        # At the result queue of workers.
        (look(QUEUE, READER, IDLE), NAMED, "waits", DISKS),
        (look(QUEUE, DECODER, DECODER), NAMED, "waits", CPU),
        (look(QUEUE, READER, DECODER, DECODER, DECODER), NAMED, "waits", Split(disk=0.25, cpu=0.75)),
        (look(QUEUE, IDLE, IDLE), NAMED, "resting", None),
        (look(QUEUE, ((OTHER,), False), IDLE), NAMED, "waits", OTHER_WAIT),
        (look(QUEUE, ((OTHER,), False), READER), NAMED, "waits", DISKS),
        # Threads of the trainer do not make the data of named workers.
        (look(QUEUE, IDLE, threads=(RUNNING, RUNNING)), NAMED, "resting", None),
        (look(QUEUE, READER, threads=(RUNNING, RUNNING)), NAMED, "waits", DISKS),
        (look(QUEUE, threads=(RUNNING, DISK)), ITSELF, "waits", Split(disk=0.5, cpu=0.5)),
        # A process with its threads is one maker: a thread in D decides before one that runs.
        (look(QUEUE, ((QUEUE, DISK, RUNNING), False)), NAMED, "waits", DISKS),
        (look(QUEUE, ((QUEUE, RUNNING, NET), False)), NAMED, "waits", CPU),
        # An idle worker and one whose HTTP client polls differ by the bytes that arrive.
        (look(QUEUE, ((QUEUE,), True)), NAMED, "waits", NETWORK),
        (look(QUEUE, ((NET,), False)), OTHERS, "waits", NETWORK),
        (look(QUEUE, ((FUTEX, QUEUE), True), DECODER), NAMED, "waits", Split(network=0.5, cpu=0.5)),
        # Bytes at a socket do not prove a wait: R comes before them.
        (look(QUEUE, ((RUNNING,), True)), NAMED, "waits", CPU),
        (look(QUEUE, receives=True), ITSELF, "main_net", None),
        (look(QUEUE, threads=(QUEUE,), receives=True), ITSELF, "waits", NETWORK),
        (look(QUEUE, threads=(QUEUE, RUNNING), receives=True), ITSELF, "waits", CPU),
        (look(QUEUE, threads=(FUTEX,)), ITSELF, "resting", None),
        # Asleep where the kernel does not say.
        (look(HIDDEN, IDLE), NAMED, "hidden", None),
        (look(HIDDEN, READER), NAMED, "waits", DISKS),
        (look(HIDDEN, IDLE, threads=(RUNNING,)), NAMED, "hidden", None),
        (look(HIDDEN, threads=(RUNNING,)), ITSELF, "waits", CPU),
        (look(HIDDEN, IDLE, autograd=True), NAMED, "backward", None),
        (look(HIDDEN, READER, autograd=True), NAMED, "backward", None),
        # PyTorch in a futex: blocking synchronisation, unless the pin thread sleeps at an empty result queue.
        (look(FUTEX, READER, DECODER), NAMED, "resting", None),
        (look(FUTEX, READER, DECODER, pin=FUTEX), NAMED, "resting", None),
        (look(FUTEX, READER, DECODER, pin=QUEUE), NAMED, "waits", Split(disk=0.5, cpu=0.5)),
        (look(FUTEX, READER, pin=NET), NAMED, "waits", DISKS),
        (look(FUTEX, IDLE, pin=QUEUE), NAMED, "resting", None),
        (look(FUTEX, ((OTHER,), False), pin=QUEUE), NAMED, "waits", OTHER_WAIT),
        (look(FUTEX, DECODER, threads=(DISK,)), NAMED, "futex", DISKS),
        # Its own threads compute: without a GPU they are the training.
        (look(FUTEX, READER, threads=(RUNNING, RUNNING)), NAMED, "futex_computing", CPU),
        # The backward pass runs on a thread of its own while the main thread sleeps.
        (look(FUTEX, READER, DECODER, autograd=True), NAMED, "backward", None),
        (look(FUTEX, READER, pin=QUEUE, autograd=True), NAMED, "backward", None),
        (look(FUTEX, threads=(RUNNING,), autograd=True), ITSELF, "backward", None),
        (look(RUNNING, autograd=True), NAMED, "running", None),
        # A thread loader's queue is a futex.
        (look(FUTEX, threads=(DISK, DISK, FUTEX)), ITSELF, "futex", DISKS),
        (look(FUTEX, threads=(DISK, RUNNING)), ITSELF, "futex_computing", Split(disk=0.5, cpu=0.5)),
        (look(FUTEX, threads=(QUEUE,), receives=True), ITSELF, "futex", NETWORK),
        (look(FUTEX, threads=(FUTEX, QUEUE)), ITSELF, "resting", None),
        (look(FUTEX), ITSELF, "resting", None),
        # A child of a reader thread stands in for it.
        (look(FUTEX, ((QUEUE,), True)), OTHERS, "futex", NETWORK),
        (look(FUTEX, READER), OTHERS, "futex", DISKS),
    ],
)
def test_what_a_look_is(seen: Look, loading: Loading, part: str, split: Split | None) -> None:
    assert kind_of(seen, loading) == (part, split)


def test_makers_that_rest_are_no_split() -> None:
    assert split_look(look(QUEUE, IDLE, IDLE, threads=(FUTEX, OTHER, HIDDEN))) is None


def test_threads_count_only_where_they_may() -> None:
    seen = look(QUEUE, READER, threads=(RUNNING,))
    assert split_look(seen) == Split(disk=0.5, cpu=0.5)
    assert split_look(seen, threads=False) == DISKS


places = st.sampled_from(PLACES)
makers = st.lists(st.tuples(st.lists(places, min_size=1, max_size=4).map(tuple), st.booleans()), max_size=5)
looks = st.builds(Look, places, st.none() | places, st.lists(places, max_size=5), st.booleans(), makers, st.booleans())
SPLITS = ("waits", "futex", "futex_computing")


def parts(counts: LookCounts) -> dict[str, float]:
    """Looks by part, a split as one number."""
    values: dict[str, Any] = counts._asdict()
    assert values.pop("crowded") <= values["running"]
    return {
        name: value.whole if isinstance(value, Split) else value for name, value in values.items() if name != "looks"
    }


@given(looks, st.sampled_from(Loading))
def test_each_look_is_in_exactly_one_part(seen: Look, loading: Loading) -> None:
    part, split = kind_of(seen, loading)
    assert (split is not None) == (part in SPLITS)
    if split is not None:
        assert split.whole == pytest.approx(1.0)
        assert min(split) >= 0.0
    tally = LookTally()
    tally.add(seen, loading)
    counts = tally.take()
    assert counts.looks == 1
    assert {name: value for name, value in parts(counts).items() if value} == {part: pytest.approx(1.0)}


@given(st.lists(st.tuples(looks, st.sampled_from(Loading), st.integers(1, 50)), max_size=20))
def test_the_parts_of_many_looks_add_up(seen: list[tuple[Look, Loading, int]]) -> None:
    tally = LookTally()
    for one, loading, times in seen:
        tally.add(one, loading, times)
    counts = tally.take()
    assert counts.looks == sum(times for _, _, times in seen)
    assert sum(parts(counts).values()) == pytest.approx(counts.looks)
    assert tally.take() == LookCounts()


@given(looks, st.sampled_from(Loading), st.integers(2, 40))
def test_a_look_seen_often_counts_as_often(seen: Look, loading: Loading, times: int) -> None:
    once, often = LookTally(), LookTally()
    often.add(seen, loading, times)
    for _ in range(times):
        once.add(seen, loading)
    one, other = once.take(), often.take()
    assert parts(one) == {name: pytest.approx(value) for name, value in parts(other).items()}
    assert one.looks == other.looks == times
