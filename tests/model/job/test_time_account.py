"""How the samples of an interval and the utilisation of its GPU determine where the time went."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotop_ai.model.job.looks import Loading, LookCounts, Split
from iotop_ai.model.job.time_account import (
    Interval,
    Phase,
    account,
    account_with_peers,
    loads,
    ranks_wait_in_turns,
    saves,
)
from iotop_ai.model.job.time_shares import LOST, SHARES

NAMED, OTHERS, ITSELF = Loading.NAMED, Loading.OTHERS, Loading.ITSELF
MB = 1e6

RUNS = LookCounts(looks=20, running=20)
AT_DISK = LookCounts(looks=20, main_disk=20)
QUEUE_DISK = LookCounts(looks=20, waits=Split(disk=20.0))
FUTEX_DISK = LookCounts(looks=20, futex=Split(disk=20.0))

SAVING = Interval(
    LookCounts(looks=20, futex_computing=Split(disk=5.0, cpu=15.0)), ITSELF, 0.8,
    own_lately_written_bytes_per_s=8 * MB, own_lately_read_bytes_per_s=0.2 * MB,
)  # fmt: skip
"""A GPU that is idle for a fifth of the time, while a thread of the trainer computes and writes."""


def nonzero_shares(interval: Interval) -> dict[str, float]:
    """The shares that are not 0, rounded to a thousandth."""
    return {name: round(share, 3) for name, share in zip(SHARES, account(interval), strict=True) if share > 1e-9}


@pytest.mark.parametrize(
    ("interval", "shares"),
    [
        # A main thread that runs is not loading data, unless something shows that it reads.
        (Interval(RUNS, ITSELF, 0.3), {"compute": 0.3, "host": 0.7}),
        (Interval(RUNS, ITSELF, 0.3, 0.0, 10 * MB), {"compute": 0.3, "data_cpu": 0.7}),
        (Interval(RUNS, ITSELF, 0.3, 10 * MB, 0.0), {"compute": 0.3, "data_cpu": 0.7}),
        (Interval(RUNS, ITSELF, 0.3, 0.0, 0.5 * MB), {"compute": 0.3, "host": 0.7}),
        (Interval(RUNS, NAMED, 0.3, 10 * MB, 10 * MB), {"compute": 0.3, "host": 0.7}),
        (
            Interval(LookCounts(looks=20, running=18, main_disk=2), ITSELF, 0.0),
            {"data_disk": 0.1, "data_cpu": 0.9},
        ),
        # The main thread is ready to run but has no core, beside tasks that prepare its data: there is too little CPU.
        (
            Interval(LookCounts(looks=20, running=10, crowded=5, waits=Split(cpu=10.0)), NAMED, 0.0, core_wait=0.8),
            {"data_cpu": 0.667, "host": 0.333},
        ),
        (
            Interval(LookCounts(looks=20, running=10, crowded=5, waits=Split(cpu=10.0)), NAMED, 0.0),
            {"data_cpu": 0.5, "host": 0.5},
        ),
        # Without a GPU, the other time of a running main thread is computing: the job takes turns with its simulators.
        (
            Interval(LookCounts(looks=20, running=4, crowded=4, waits=Split(cpu=16.0)), OTHERS, None, core_wait=0.75),
            {"compute": 0.059, "data_cpu": 0.941},
        ),
        # The job is healthy, but other programs crowd it out while it computes.
        (
            Interval(LookCounts(looks=20, running=19, crowded=19, waits=Split(cpu=1.0)), NAMED, None, core_wait=0.5),
            {"compute": 0.905, "data_cpu": 0.095},
        ),
        # A launch-bound main thread that other programs crowd out does not lack data.
        (
            Interval(LookCounts(looks=20, running=20, crowded=20), NAMED, 0.3, core_wait=0.8),
            {"compute": 0.3, "host": 0.7},
        ),
        (
            Interval(LookCounts(looks=20, running=18, crowded=18, waits=Split(cpu=2.0)), NAMED, 0.0, core_wait=0.5),
            {"data_cpu": 0.182, "host": 0.818},
        ),
        (Interval(RUNS, NAMED, 0.3, core_wait=0.8), {"compute": 0.3, "host": 0.7}),
        # A main thread in a call that writes is saving, whatever is read meanwhile and whenever it wrote the data.
        (
            Interval(LookCounts(looks=20, main_write=15, main_disk=5), ITSELF, 0.2, 10 * MB, 10 * MB),
            {"compute": 0.2, "data_disk": 0.2, "checkpoint": 0.6},
        ),
        (
            Interval(LookCounts(looks=20, main_write=10, running=10), NAMED, None, 10 * MB, 10 * MB),
            {"compute": 0.5, "checkpoint": 0.5},
        ),
        # A main thread in a futex beside busy workers, while its GPU works, waits for a synchronisation.
        (
            Interval(LookCounts(looks=20, futex=Split(disk=10.0, cpu=10.0)), NAMED, 0.95),
            {"compute": 0.95, "data_disk": 0.025, "data_cpu": 0.025},
        ),
        (Interval(LookCounts(looks=20, resting=20), NAMED, 0.95), {"compute": 0.95, "unexplained": 0.05}),
        # The queue of a thread loader is a futex, too, but then the GPU is idle.
        (Interval(FUTEX_DISK, ITSELF, 0.36), {"compute": 0.36, "data_disk": 0.64}),
        (Interval(FUTEX_DISK, ITSELF, 0.36, reads_network_fs=True), {"compute": 0.36, "data_network": 0.64}),
        (
            Interval(LookCounts(looks=20, futex=Split(disk=4.0), futex_computing=Split(disk=4.0, cpu=12.0)), ITSELF, 0),
            {"data_disk": 0.4, "data_cpu": 0.6},
        ),
        # A proven wait is counted first; at most the time in which the GPU is idle can be lost.
        (
            Interval(LookCounts(looks=20, waits=Split(disk=10.0), futex=Split(cpu=10.0)), ITSELF, 0.3),
            {"compute": 0.3, "data_disk": 0.5, "data_cpu": 0.2},
        ),
        (Interval(LookCounts(looks=20, waits=Split(disk=4.0)), NAMED, 1.0), {"compute": 1.0}),
        (
            Interval(LookCounts(looks=20, waits=Split(1.0, 2.0, 4.0, 3.0), running=10), NAMED, 0.2),
            {
                "compute": 0.2,
                "data_disk": 0.05,
                "data_network": 0.1,
                "data_cpu": 0.2,
                "data_other": 0.15,
                "host": 0.3,
            },
        ),
        (Interval(LookCounts(looks=20, main_net=20), ITSELF, 0.1), {"compute": 0.1, "data_network": 0.9}),
        (Interval(QUEUE_DISK, NAMED, 0.1, reads_network_fs=True), {"compute": 0.1, "data_network": 0.9}),
        # The GPU is idle for longer than the samples explain.
        (
            Interval(LookCounts(looks=20, running=2, resting=18), NAMED, 0.2),
            {"compute": 0.2, "host": 0.1, "unexplained": 0.7},
        ),
        (Interval(LookCounts(looks=20, backward=20), NAMED, 0.6), {"compute": 0.6, "host": 0.4}),
        # Busy GPUs that only spin are waiting for a peer. If loaders work, the kernels are merely small.
        (
            Interval(LookCounts(looks=20, resting=20), NAMED, 0.95, gpus_spin=True),
            {"collective": 0.95, "unexplained": 0.05},
        ),
        (
            Interval(LookCounts(looks=20, futex=Split(cpu=10.0), resting=10), NAMED, 0.95, gpus_spin=True),
            {"compute": 0.95, "data_cpu": 0.05},
        ),
        # A GPU is idle because of copies at the limit of its link if nothing waits for data.
        (Interval(RUNS, NAMED, 0.4, gpu_receives=True), {"compute": 0.4, "transfer": 0.6}),
        (
            Interval(LookCounts(looks=20, waits=Split(disk=10.0), running=10), NAMED, 0.2, gpu_receives=True),
            {"compute": 0.2, "data_disk": 0.5, "transfer": 0.3},
        ),
        (Interval(LookCounts(looks=20, asleep=20), NAMED, 0.6), {"compute": 0.6, "unexplained": 0.4}),
        # Bytes written do not count as bytes read.
        (Interval(AT_DISK, NAMED, 0.0, 0.0, 0.0, 60 * MB), {"checkpoint": 1.0}),
        (Interval(AT_DISK, NAMED, 0.0, 0.0, 0.0, 60 * MB, reads_network_fs=True), {"checkpoint": 1.0}),
        (Interval(AT_DISK, NAMED, None, 0.0, 0.0, 60 * MB), {"checkpoint": 1.0}),
        (Interval(AT_DISK, NAMED, 0.0, 60 * MB, 60 * MB, 60 * MB), {"data_disk": 1.0}),
        (Interval(AT_DISK, NAMED, 0.0, 0.0, 0.0, 0.2 * MB), {"data_disk": 1.0}),
        # A file that fits into memory is written by a main thread that runs. A log file is too small to count.
        (Interval(RUNS, NAMED, 0.0, 0.0, 0.0, 300 * MB), {"checkpoint": 1.0}),
        (Interval(RUNS, ITSELF, 0.4, 0.0, 10 * MB, 300 * MB), {"compute": 0.4, "checkpoint": 0.6}),
        (Interval(RUNS, NAMED, 0.0, 0.0, 0.0, 2 * MB), {"host": 1.0}),
        (Interval(RUNS, ITSELF, 0.0, 300 * MB, 300 * MB, 300 * MB), {"data_cpu": 1.0}),
        (Interval(RUNS, NAMED, None, 0.0, 0.0, 300 * MB), {"compute": 1.0}),
        # What children write is not what the main thread saves.
        (Interval(RUNS, NAMED, 0.5, 0.0, 0.0, 40 * MB, own_write_bytes_per_s=0.0), {"compute": 0.5, "host": 0.5}),
        (Interval(RUNS, ITSELF, 0.5, 0.0, 0.0, 40 * MB, own_write_bytes_per_s=2 * MB), {"compute": 0.5, "host": 0.5}),
        (
            Interval(RUNS, OTHERS, 0.5, 0.0, 0.0, 90 * MB, own_write_bytes_per_s=60 * MB),
            {"compute": 0.5, "checkpoint": 0.5},
        ),
        (Interval(AT_DISK, NAMED, 0.0, 0.0, 0.0, 60 * MB, own_write_bytes_per_s=0.0), {"data_disk": 1.0}),
        (
            Interval(
                AT_DISK,
                NAMED,
                0.0,
                0.0,
                0.0,
                60 * MB,
                lately_written_bytes_per_s=60 * MB,
                own_write_bytes_per_s=0.0,
                own_lately_written_bytes_per_s=8 * MB,
            ),
            {"checkpoint": 1.0},
        ),
        # A thread that saves does not load data if the process reads little. Beside named loaders, no thread loads.
        (SAVING, {"compute": 0.8, "checkpoint": 0.2}),
        (SAVING._replace(own_lately_read_bytes_per_s=2 * MB), {"compute": 0.8, "data_cpu": 0.15, "data_disk": 0.05}),
        (
            SAVING._replace(own_lately_written_bytes_per_s=0.5 * MB),
            {"compute": 0.8, "data_cpu": 0.15, "data_disk": 0.05},
        ),
        (SAVING._replace(own_lately_read_bytes_per_s=None), {"compute": 0.8, "data_cpu": 0.15, "data_disk": 0.05}),
        (SAVING._replace(loading=OTHERS), {"compute": 0.8, "data_cpu": 0.15, "data_disk": 0.05}),
        (SAVING._replace(loading=NAMED), {"compute": 0.8, "checkpoint": 0.2}),
        (
            SAVING._replace(loading=NAMED, own_lately_written_bytes_per_s=0.0),
            {"compute": 0.8, "host": 0.15, "data_disk": 0.05},
        ),
        (SAVING._replace(looks=LookCounts(looks=20, waits=Split(cpu=20.0))), {"compute": 0.8, "checkpoint": 0.2}),
        (
            SAVING._replace(looks=LookCounts(looks=20, waits=Split(cpu=20.0)), loading=NAMED),
            {"compute": 0.8, "data_cpu": 0.2},
        ),
        # The job is stopped, hangs, or has not begun yet.
        (Interval(LookCounts(looks=20, stopped=20), NAMED, 0.0), {"stopped": 1.0}),
        (Interval(LookCounts(looks=20, stopped=20), NAMED, None), {"stopped": 1.0}),
        (
            Interval(LookCounts(looks=20, stopped=5, waits=Split(cpu=15.0)), NAMED, 0.25),
            {"compute": 0.25, "stopped": 0.25, "data_cpu": 0.5},
        ),
        (Interval(LookCounts(looks=20, resting=20), NAMED, 0.0, phase=Phase.HUNG), {"hung": 1.0}),
        (Interval(LookCounts(), NAMED, 0.0, phase=Phase.HUNG), {"hung": 1.0}),
        (Interval(RUNS, ITSELF, 0.0, 50 * MB, phase=Phase.STARTUP), {"startup": 1.0}),
        (Interval(RUNS, ITSELF, None, phase=Phase.STARTUP), {"startup": 1.0}),
        (Interval(RUNS, ITSELF, 0.0, phase=Phase.COMPILE), {"compile": 1.0}),
        (
            Interval(LookCounts(looks=20, running=10, stopped=10), ITSELF, 0.0, phase=Phase.COMPILE),
            {"compile": 0.5, "stopped": 0.5},
        ),
        # Time in which the GPU works is not lost, whatever the host does meanwhile.
        (Interval(RUNS, ITSELF, 0.9, phase=Phase.COMPILE), {"compute": 0.9, "compile": 0.1}),
        (Interval(RUNS, ITSELF, 0.04, phase=Phase.STARTUP), {"compute": 0.04, "startup": 0.96}),
        # The job has no GPU.
        (Interval(RUNS, NAMED, None), {"compute": 1.0}),
        (Interval(RUNS, ITSELF, None, 0.0, 10 * MB, own_cores=1.0), {"data_cpu": 1.0}),
        (Interval(RUNS, ITSELF, None, 0.0, 10 * MB, own_cores=4.0), {"compute": 1.0}),
        (Interval(LookCounts(looks=20, asleep=20), NAMED, None), {"compute": 1.0}),
        (Interval(LookCounts(looks=20, asleep=20), ITSELF, None), {"unexplained": 1.0}),
        (Interval(LookCounts(looks=20, futex_computing=Split(cpu=20.0)), NAMED, None), {"compute": 1.0}),
        (Interval(LookCounts(looks=20, backward=20), ITSELF, None), {"compute": 1.0}),
        (Interval(FUTEX_DISK, ITSELF, None), {"data_disk": 1.0}),
        (
            Interval(LookCounts(looks=20, waits=Split(cpu=5.0), running=15), NAMED, None),
            {"compute": 0.75, "data_cpu": 0.25},
        ),
        # There are no samples, or they explain nothing.
        (Interval(LookCounts(), NAMED, None), {"unexplained": 1.0}),
        (Interval(LookCounts(), NAMED, 0.5), {"unexplained": 1.0}),
        (Interval(LookCounts(looks=20, hidden=20), NAMED, None), {"unexplained": 1.0}),
        (Interval(LookCounts(looks=20, hidden=20), NAMED, 0.4), {"compute": 0.4, "unexplained": 0.6}),
        (Interval(LookCounts(looks=20, resting=20), ITSELF, None), {"unexplained": 1.0}),
    ],
)
def test_the_time_of_an_interval_goes_to_these_shares(interval: Interval, shares: dict[str, float]) -> None:
    assert nonzero_shares(interval) == shares


def test_reads_show_loading_and_writes_show_saving() -> None:
    quiet = Interval(RUNS, ITSELF, 0.3)
    assert not loads(quiet)
    assert not saves(quiet)
    assert loads(quiet._replace(read_chars_per_s=2 * MB))
    assert loads(quiet._replace(looks=LookCounts(looks=20, running=19, main_net=1)))
    assert saves(quiet._replace(write_bytes_per_s=2 * MB))
    assert not saves(quiet._replace(write_bytes_per_s=2 * MB, read_bytes_per_s=1 * MB))


ON_NETWORK_FS = Interval(QUEUE_DISK, NAMED, 0.1, 0.0, 80 * MB, 1.2 * MB, reads_network_fs=True)
"""Loaders are blocked in a network filesystem, which does not count read_bytes, while the trainer writes its log."""


@pytest.mark.parametrize(
    ("looks", "shares"),
    [
        # A proven wait for data is the loss of this job, whichever job computes on its GPU.
        (QUEUE_DISK, {"compute": 0.05, "data_disk": 0.95}),
        (
            LookCounts(looks=20, waits=Split(disk=10.0), running=10),
            {"compute": 0.05, "data_disk": 0.5, "unexplained": 0.45},
        ),
        # A main thread that runs or sleeps in a futex may wait for the kernels of the other job.
        (RUNS, {"compute": 0.05, "unexplained": 0.9, "host": 0.05}),
        (FUTEX_DISK, {"compute": 0.05, "unexplained": 0.9, "data_disk": 0.05}),
    ],
)
def test_on_a_gpu_with_another_job_only_proven_waits_count(looks: LookCounts, shares: dict[str, float]) -> None:
    assert nonzero_shares(Interval(looks, NAMED, 0.05, others_busy=0.9)) == shares


@pytest.mark.parametrize(
    ("interval", "shares"),
    [
        (ON_NETWORK_FS, {"compute": 0.1, "data_network": 0.9}),
        (ON_NETWORK_FS._replace(loading=OTHERS), {"compute": 0.1, "data_network": 0.9}),
        (ON_NETWORK_FS._replace(gpu_busy=None), {"data_network": 1.0}),
        (ON_NETWORK_FS._replace(looks=FUTEX_DISK, loading=ITSELF), {"compute": 0.1, "data_network": 0.9}),
        (
            ON_NETWORK_FS._replace(looks=AT_DISK, loading=ITSELF, lately_written_bytes_per_s=1 * MB),
            {"compute": 0.1, "data_network": 0.9},
        ),
        # PyTorch's workers never save, whatever the trainer writes meanwhile.
        (
            ON_NETWORK_FS._replace(read_chars_per_s=0.0, write_bytes_per_s=80 * MB),
            {"compute": 0.1, "data_network": 0.9},
        ),
        (
            ON_NETWORK_FS._replace(read_chars_per_s=0.0, write_bytes_per_s=80 * MB, loading=OTHERS),
            {"compute": 0.1, "checkpoint": 0.9},
        ),
        # With a local disk, reads from the page cache are not waited for.
        (
            ON_NETWORK_FS._replace(looks=AT_DISK, loading=ITSELF, reads_network_fs=False, reads_local_fs=True),
            {"compute": 0.1, "checkpoint": 0.9},
        ),
    ],
)
def test_reads_of_a_network_filesystem_do_not_count_as_saving(interval: Interval, shares: dict[str, float]) -> None:
    assert nonzero_shares(interval) == shares


@pytest.mark.parametrize(
    ("interval", "shares"),
    [
        # The GPU is busy in 60 % of the time; in half of the time another rank waits for its batch.
        (
            Interval(LookCounts(looks=20, waits=Split(disk=8.0), asleep=12, peer_waits=Split(disk=10.0)), NAMED, 0.6),
            {"compute": 0.1, "data_disk": 0.9},
        ),
        (
            Interval(LookCounts(looks=20, waits=Split(cpu=8.0), asleep=12, peer_waits=Split(2.0, cpu=4.0)), NAMED, 0.6),
            {"compute": 0.3, "data_disk": 0.1, "data_cpu": 0.6},
        ),
        (
            Interval(
                LookCounts(looks=20, waits=Split(disk=8.0), asleep=12, peer_waits=Split(disk=10.0)), NAMED, 0.6,
                reads_network_fs=True,
            ),
            {"compute": 0.1, "data_network": 0.9},
        ),
        # The main threads run ahead of their GPUs: only a part of their waits costs the GPUs time.
        (
            Interval(LookCounts(looks=20, waits=Split(disk=10.0), asleep=10, peer_waits=Split(disk=8.0)), NAMED, 0.8),
            {"compute": 0.64, "data_disk": 0.36},
        ),
        # If the rank itself never waits, that part is unknown.
        (
            Interval(LookCounts(looks=20, asleep=20, peer_waits=Split(disk=8.0)), NAMED, 0.8),
            {"compute": 0.8, "unexplained": 0.2},
        ),
    ],
)  # fmt: skip
def test_the_wait_of_another_rank_is_lost_time_too(interval: Interval, shares: dict[str, float]) -> None:
    found = account_with_peers(interval)
    assert {name: round(share, 3) for name, share in zip(SHARES, found, strict=True) if share > 1e-9} == shares


WAITING = Interval(LookCounts(looks=20, waits=Split(disk=6.0), asleep=14), NAMED, 0.7)
FED = Interval(LookCounts(looks=20, waits=Split(disk=1.0), asleep=19), NAMED, 0.95)


@pytest.mark.parametrize(
    ("ranks", "add_up"),
    [
        ((WAITING, WAITING), True),
        ((WAITING, FED), True),
        ((WAITING, FED, FED), True),
        # Ranks that hardly wait may be independent of each other.
        ((WAITING, *(FED,) * 5), False),
        ((WAITING,), False),
        ((WAITING, WAITING._replace(phase=Phase.STARTUP)), False),
        ((WAITING, WAITING._replace(write_bytes_per_s=60 * MB)), False),
    ],
)
def test_waits_add_up_if_all_ranks_wait_for_data(ranks: tuple[Interval, ...], add_up: bool) -> None:
    assert ranks_wait_in_turns([(account(rank), rank) for rank in ranks]) is add_up


SPLITS = ("waits", "futex", "futex_computing")
NUMBERS = tuple(name for name in LookCounts._fields if name not in (*SPLITS, "looks", "crowded", "peer_waits"))
PARTS = len(Split._fields)


def added_up(looks: list[int]) -> LookCounts:
    """Counts that add up like those of a LookTally."""
    rest = looks[len(NUMBERS) :]
    numbers: dict[str, Any] = dict(zip(NUMBERS, looks, strict=False))
    splits: dict[str, Any] = {name: Split(*rest[i * PARTS : (i + 1) * PARTS]) for i, name in enumerate(SPLITS)}
    return LookCounts(sum(looks), **splits, **numbers, crowded=numbers["running"] // 2, peer_waits=splits["futex"])


SIZE = len(NUMBERS) + PARTS * len(SPLITS)
LOOKS = st.lists(st.sampled_from((0, 0, 1, 7, 20)), min_size=SIZE, max_size=SIZE).map(added_up)
RATES = st.none() | st.sampled_from((0.0, 0.5e6, 1e6, 60e6)) | st.floats(0, 1e11)
INTERVALS = st.builds(
    Interval,
    LOOKS,
    st.sampled_from(Loading),
    st.none() | st.floats(0, 1),
    RATES,
    RATES,
    RATES,
    st.booleans(),
    st.none() | st.floats(0, 256),
    st.sampled_from(Phase),
    others_busy=st.floats(0, 1),
    core_wait=st.none() | st.floats(0, 1),
)


@given(INTERVALS)
def test_the_shares_add_up_to_one(interval: Interval) -> None:
    for shares in (account(interval), account_with_peers(interval)):
        assert len(shares) == len(SHARES)
        assert min(shares) >= 0.0
        assert sum(shares) == pytest.approx(1.0)


@given(INTERVALS)
def test_time_in_which_the_gpu_works_is_not_lost(interval: Interval) -> None:
    if interval.gpu_busy is None or not interval.looks.looks:
        return
    # The GPU of a stopped job works for another job, or on kernels that were queued before the stop.
    stopped = interval.looks.stopped / interval.looks.looks
    shares = dict(zip(SHARES, account(interval), strict=True))
    # GPUs that spin are busy, but wait for each other.
    busy = shares["compute"] + shares["collective"]
    assert sum(shares[name] for name in LOST if name != "collective") <= max(stopped, 1 - interval.gpu_busy) + 1e-9
    assert busy == pytest.approx(min(interval.gpu_busy, 1 - stopped))
    assert interval.gpus_spin or not shares["collective"]


@given(INTERVALS)
def test_all_time_of_a_phase_except_compute_and_stopped_goes_to_its_share(interval: Interval) -> None:
    shares = dict(zip(SHARES, account(interval), strict=True))
    if interval.phase is Phase.TRAINING:
        assert shares["startup"] == shares["compile"] == shares["hung"] == 0.0
    elif interval.looks.looks:
        parts = shares["compute"] + shares["stopped"] + shares[interval.phase.value]
        assert parts == pytest.approx(1.0)


def test_a_main_thread_that_flushes_earlier_writes_is_saving() -> None:
    looks = LookCounts(looks=20, main_disk=20)
    lately = Interval(looks, Loading.NAMED, 0.0, read_bytes_per_s=20e6, write_bytes_per_s=0.0)
    assert dict(zip(SHARES, account(lately), strict=True))["data_disk"] == 1.0
    saving = lately._replace(lately_written_bytes_per_s=30e6)
    assert dict(zip(SHARES, account(saving), strict=True))["checkpoint"] == 1.0
    # Without loaders the main thread reads its data itself, so the bytes read decide.
    itself = saving._replace(loading=Loading.ITSELF)
    assert dict(zip(SHARES, account(itself), strict=True))["data_disk"] == 1.0


IN_A_THREAD = Interval(
    LookCounts(looks=20, futex_computing=Split(cpu=20.0)), ITSELF, 0.5, own_cores=1.0, main_sleeps=True
)
"""A training loop in a thread: the main thread only waits for its end."""


def test_one_busy_thread_beside_a_main_thread_that_never_runs_may_be_the_training_loop() -> None:
    in_poll = IN_A_THREAD._replace(looks=LookCounts(looks=20, waits=Split(cpu=20.0)))
    for interval in (IN_A_THREAD, in_poll):
        assert nonzero_shares(interval) == {"compute": 0.5, "unexplained": 0.5}


@pytest.mark.parametrize(
    "sign",
    [
        {"main_sleeps": False},
        {"read_chars_per_s": 10 * MB},
        {"own_cores": 4.0},
        {"own_cores": None},
        {"gpu_busy": 0.0},
        {"loading": OTHERS},
    ],
    ids=lambda sign: next(iter(sign)),
)
def test_threads_that_may_load_data_count_as_loading(sign: dict[str, Any]) -> None:
    found = nonzero_shares(IN_A_THREAD._replace(**sign))
    assert found["data_cpu"] == 1 - found.get("compute", 0.0)


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (0.3e6, {"compute": 0.35, "host": 0.65}),
        (1.3e6, {"compute": 0.35, "data_cpu": 0.26, "unexplained": 0.39}),
        (3.25e6, {"compute": 0.35, "data_cpu": 0.65}),
        (20e6, {"compute": 0.35, "data_cpu": 0.65}),
    ],
)
def test_a_main_thread_that_reads_little_surely_loads_only_a_part_of_its_time(
    read: float, expected: dict[str, float]
) -> None:
    """It may be bound by Python or by launches of small kernels. A core that decodes reads 5 MB/s or more."""
    looks = LookCounts(looks=20, running=13, resting=7)
    assert nonzero_shares(Interval(looks, ITSELF, 0.35, 0.0, read)) == pytest.approx(expected)


def test_a_batch_that_was_read_earlier_is_still_being_decoded() -> None:
    looks = LookCounts(looks=20, running=13, resting=7)
    interval = Interval(looks, ITSELF, 0.35, 0.0, 1.1e6, own_lately_read_bytes_per_s=8e6)
    assert nonzero_shares(interval) == pytest.approx({"compute": 0.35, "data_cpu": 0.65})
