"""How one sample of a training process is counted, by its main thread and by the tasks that prepare its data."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotop_ai.model.job.looks import Loading, Look, LookCounts, LookTally, Split, count_peers, field_of, split_look
from iotop_ai.model.job.task_states import CHILD, DISK, FUTEX, HIDDEN, NET, OTHER, QUEUE, RUNNING, STOPPED, WRITING

NAMED, OTHERS, ITSELF = Loading.NAMED, Loading.OTHERS, Loading.ITSELF
WAIT_STATES = (DISK, RUNNING, QUEUE, NET, OTHER, HIDDEN, FUTEX, STOPPED, WRITING, CHILD)
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
        # The main thread itself is busy, so it does not matter what the loaders do.
        (look(STOPPED, READER, DECODER), NAMED, "stopped", None),
        (look(DISK, DECODER), NAMED, "main_disk", None),
        (look(WRITING, READER), ITSELF, "main_write", None),
        (look(NET, DECODER), ITSELF, "main_net", None),
        (look(RUNNING, READER, threads=(DISK,)), ITSELF, "running", None),
        (look(OTHER, READER), NAMED, "asleep", None),
        # The main thread waits for a child, which may upload a checkpoint; in that time nothing trains.
        (look(CHILD, IDLE), NAMED, "resting", None),
        (look(QUEUE, ((CHILD,), False), IDLE), NAMED, "waits", OTHER_WAIT),
        # The main thread waits at the result queue of its workers.
        (look(QUEUE, READER, IDLE), NAMED, "waits", DISKS),
        (look(QUEUE, DECODER, DECODER), NAMED, "waits", CPU),
        (look(QUEUE, READER, DECODER, DECODER, DECODER), NAMED, "waits", Split(disk=0.25, cpu=0.75)),
        (look(QUEUE, IDLE, IDLE), NAMED, "resting", None),
        (look(QUEUE, ((OTHER,), False), IDLE), NAMED, "waits", OTHER_WAIT),
        (look(QUEUE, ((OTHER,), False), READER), NAMED, "waits", DISKS),
        # Threads of the trainer do not prepare the data if there are named workers.
        (look(QUEUE, IDLE, threads=(RUNNING, RUNNING)), NAMED, "resting", None),
        (look(QUEUE, READER, threads=(RUNNING, RUNNING)), NAMED, "waits", DISKS),
        (look(QUEUE, threads=(RUNNING, DISK)), ITSELF, "waits", Split(disk=0.5, cpu=0.5)),
        # A process and its threads count as one: a thread in state D decides before a thread that runs.
        (look(QUEUE, ((QUEUE, DISK, RUNNING), False)), NAMED, "waits", DISKS),
        (look(QUEUE, ((QUEUE, RUNNING, NET), False)), NAMED, "waits", CPU),
        # An idle worker and one whose HTTP client polls differ only in whether bytes arrive.
        (look(QUEUE, ((QUEUE,), True)), NAMED, "waits", NETWORK),
        (look(QUEUE, ((NET,), False)), OTHERS, "waits", NETWORK),
        (look(QUEUE, ((FUTEX, QUEUE), True), DECODER), NAMED, "waits", Split(network=0.5, cpu=0.5)),
        # Bytes at a socket do not prove that the worker waits for them, so a running thread decides first.
        (look(QUEUE, ((RUNNING,), True)), NAMED, "waits", CPU),
        (look(QUEUE, receives=True), ITSELF, "main_net", None),
        (look(QUEUE, threads=(QUEUE,), receives=True), ITSELF, "waits", NETWORK),
        (look(QUEUE, threads=(QUEUE, RUNNING), receives=True), ITSELF, "waits", CPU),
        (look(QUEUE, threads=(FUTEX,)), ITSELF, "resting", None),
        # The main thread sleeps where the kernel does not name the place.
        (look(HIDDEN, IDLE), NAMED, "hidden", None),
        (look(HIDDEN, READER), NAMED, "waits", DISKS),
        (look(HIDDEN, IDLE, threads=(RUNNING,)), NAMED, "hidden", None),
        (look(HIDDEN, threads=(RUNNING,)), ITSELF, "waits", CPU),
        (look(HIDDEN, IDLE, autograd=True), NAMED, "backward", None),
        (look(HIDDEN, READER, autograd=True), NAMED, "backward", None),
        # A futex in PyTorch means a synchronisation that blocks, unless the pin thread sleeps at an empty result queue.
        (look(FUTEX, READER, DECODER), NAMED, "resting", None),
        (look(FUTEX, READER, DECODER, pin=FUTEX), NAMED, "resting", None),
        (look(FUTEX, READER, DECODER, pin=QUEUE), NAMED, "waits", Split(disk=0.5, cpu=0.5)),
        (look(FUTEX, READER, pin=NET), NAMED, "waits", DISKS),
        (look(FUTEX, IDLE, pin=QUEUE), NAMED, "resting", None),
        (look(FUTEX, ((OTHER,), False), pin=QUEUE), NAMED, "waits", OTHER_WAIT),
        (look(FUTEX, DECODER, threads=(DISK,)), NAMED, "futex", DISKS),
        # The process's own threads compute: without a GPU, that is the training.
        (look(FUTEX, READER, threads=(RUNNING, RUNNING)), NAMED, "futex_computing", CPU),
        # The backward pass runs in a separate thread while the main thread sleeps.
        (look(FUTEX, READER, DECODER, autograd=True), NAMED, "backward", None),
        (look(FUTEX, READER, pin=QUEUE, autograd=True), NAMED, "backward", None),
        (look(FUTEX, threads=(RUNNING,), autograd=True), ITSELF, "backward", None),
        (look(RUNNING, autograd=True), NAMED, "running", None),
        # The queue of a thread loader is a futex.
        (look(FUTEX, threads=(DISK, DISK, FUTEX)), ITSELF, "futex", DISKS),
        (look(FUTEX, threads=(DISK, RUNNING)), ITSELF, "futex_computing", Split(disk=0.5, cpu=0.5)),
        (look(FUTEX, threads=(QUEUE,), receives=True), ITSELF, "futex", NETWORK),
        (look(FUTEX, threads=(FUTEX, QUEUE)), ITSELF, "resting", None),
        (look(FUTEX), ITSELF, "resting", None),
        # A child that a reader thread started counts for that thread.
        (look(FUTEX, ((QUEUE,), True)), OTHERS, "futex", NETWORK),
        (look(FUTEX, READER), OTHERS, "futex", DISKS),
    ],
)
def test_each_sample_counts_in_the_expected_part(seen: Look, loading: Loading, part: str, split: Split | None) -> None:
    assert field_of(seen, loading) == (part, split)


def test_resting_loaders_give_no_split() -> None:
    assert split_look(look(QUEUE, IDLE, IDLE, threads=(FUTEX, OTHER, HIDDEN))) is None


def test_threads_count_only_where_they_may_prepare_data() -> None:
    seen = look(QUEUE, READER, threads=(RUNNING,))
    assert split_look(seen) == Split(disk=0.5, cpu=0.5)
    assert split_look(seen, threads=False) == DISKS


wait_states = st.sampled_from(WAIT_STATES)
makers = st.lists(st.tuples(st.lists(wait_states, min_size=1, max_size=4).map(tuple), st.booleans()), max_size=5)
looks = st.builds(
    Look, wait_states, st.none() | wait_states, st.lists(wait_states, max_size=5), st.booleans(), makers, st.booleans()
)
SPLITS = ("waits", "futex", "futex_computing")


def parts(counts: LookCounts) -> dict[str, float]:
    """The number of samples in each part; the causes of a part are added up."""
    values: dict[str, Any] = counts._asdict()
    assert values.pop("crowded") <= values["running"]
    return {
        name: value.whole if isinstance(value, Split) else value for name, value in values.items() if name != "looks"
    }


@given(looks, st.sampled_from(Loading))
def test_each_sample_is_in_exactly_one_part(seen: Look, loading: Loading) -> None:
    part, split = field_of(seen, loading)
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
def test_the_parts_of_many_samples_add_up(seen: list[tuple[Look, Loading, int]]) -> None:
    tally = LookTally()
    for one, loading, times in seen:
        tally.add(one, loading, times)
    counts = tally.take()
    assert counts.looks == sum(times for _, _, times in seen)
    assert sum(parts(counts).values()) == pytest.approx(counts.looks)
    assert tally.take() == LookCounts()


@given(looks, st.sampled_from(Loading), st.integers(2, 40))
def test_a_sample_that_repeats_counts_each_time(seen: Look, loading: Loading, times: int) -> None:
    one_by_one, at_once = LookTally(), LookTally()
    at_once.add(seen, loading, times)
    for _ in range(times):
        one_by_one.add(seen, loading)
    one, other = one_by_one.take(), at_once.take()
    assert parts(one) == {name: pytest.approx(value) for name, value in parts(other).items()}
    assert one.looks == other.looks == times


def test_the_wait_of_another_rank_counts_unless_the_rank_waits_itself() -> None:
    first, second, third = ranks = [LookTally(), LookTally(), LookTally()]
    sweeps = (
        (3, (look(OTHER, READER), look(QUEUE, READER), look(QUEUE, DECODER))),
        (2, (look(QUEUE, READER), look(OTHER, READER), look(RUNNING, READER))),
        (4, (look(OTHER), look(RUNNING), look(OTHER))),
    )
    for times, seen in sweeps:
        for tally, one in zip(ranks, seen, strict=True):
            tally.add(one, NAMED, times)
        count_peers(ranks, times)
    counts = first.take()
    assert (counts.looks, counts.asleep, counts.waits) == (9, 7, Split(disk=2.0))
    assert counts.peer_waits == Split(disk=1.5, cpu=1.5)
    assert second.take().peer_waits == third.take().peer_waits == Split(disk=2.0)
    assert first.take() == LookCounts()


@pytest.mark.parametrize(
    ("seen", "loading", "wait"),
    [
        (look(QUEUE, READER), NAMED, DISKS),
        (look(DISK), ITSELF, DISKS),
        (look(NET), ITSELF, NETWORK),
        (look(WRITING), ITSELF, None),
        (look(FUTEX, threads=(DISK,)), ITSELF, None),
        (look(OTHER, READER), NAMED, None),
    ],
)
def test_only_a_proven_wait_counts_for_other_ranks(seen: Look, loading: Loading, wait: Split | None) -> None:
    tally = LookTally()
    tally.add(seen, loading)
    assert tally.newest_wait == wait
