"""The counters of a job over made-up ticks: to which share each interval goes, and that no time is lost."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from iotop_ai.collectors.job.time_accountant import (
    ALONE_S,
    HUNG_S,
    STARTUP_MOST_S,
    _State,
)
from iotop_ai.model.job.looks import Loading, LookCounts, Split
from iotop_ai.model.job.records import Job, JobMount, JobPlace, Rank
from iotop_ai.model.job.task_states import TaskCounts
from iotop_ai.model.job.time_shares import TimeCounts
from iotop_ai.model.process.records import ProcessKey
from tests.collectors.job.accounted_machine import (
    ALONE,
    CHILD,
    GPU,
    MB,
    ON_GPU,
    OTHER,
    PEER,
    RESTS,
    RUNS,
    SECOND,
    SECOND_GPU,
    TRAINER,
    WAITS,
    WITH_WORKERS,
    WORKER,
    Machine,
    job_of,
    shares,
)


def test_ranks_that_ended_are_forgotten() -> None:
    state = _State(0, True)
    state.past, state.own_cores = {TRAINER: deque(), PEER: deque()}, {TRAINER: 1.0, PEER: 2.0}
    state.keep(frozenset((PEER,)))
    assert (set(state.ranks), set(state.past), set(state.own_cores)) == ({PEER}, {PEER}, {PEER})


def test_the_counters_grow_by_exactly_the_time_that_passed() -> None:
    machine = Machine()
    begun = machine.at_ns
    machine.busy[GPU] = 33
    assert machine.counts == TimeCounts()
    for n in range(200):
        machine.looks = {TRAINER: LookCounts(looks=20, waits=Split(cpu=n % 7), running=20 - n % 7)}
        machine.next(1.0 + n * 0.000_37)
        assert machine.counts.whole_ms == (machine.at_ns - begun) // 1_000_000
    assert machine.counts.compute == pytest.approx(0.33 * machine.counts.whole_ms, rel=0.01)


def test_time_without_a_sample_is_given_to_the_next_samples() -> None:
    machine = Machine()
    machine.looks = {TRAINER: LookCounts()}
    assert machine.grown() == {}
    machine.looks = {TRAINER: WAITS}
    assert machine.grown() == {"data_disk": 2000}


def test_time_in_which_the_monitor_was_stopped_is_left_out() -> None:
    machine = Machine()
    machine.looks = {TRAINER: LookCounts(looks=1, waits=Split(disk=1.0))}
    before = machine.counts
    assert machine.next(600.0) == before
    machine.looks = {TRAINER: WAITS}
    assert machine.grown() == {"data_disk": 1000}


def test_time_in_which_no_rank_was_watched_is_left_out() -> None:
    machine = Machine()
    machine.looks = {}
    assert machine.grown() == {}
    machine.looks = {TRAINER: WAITS}
    assert machine.grown() == {"data_disk": 1000}


def test_the_rank_that_loses_most_decides() -> None:
    machine = Machine(job_of(Rank(TRAINER, (), (GPU,)), Rank(PEER, (), (SECOND_GPU,))))
    machine.busy = {GPU: 37, SECOND_GPU: 100}  # the other rank spins in a collective
    machine.looks = {TRAINER: WAITS, PEER: RUNS}
    assert machine.grown() == {"compute": 370, "data_disk": 630}
    machine.looks = {PEER: RUNS}
    assert machine.grown() == {"compute": 1000}, "the only sampled rank did not decide"


def test_the_wait_of_each_rank_is_counted_if_the_ranks_step_together() -> None:
    ranks = (Rank(TRAINER, (), (GPU,), number=0), Rank(PEER, (), (SECOND_GPU,), number=1))
    launched = job_of(*ranks)._replace(evidence=("gpu", "launcher"))

    def waits(job: Job, *looks: dict[ProcessKey, LookCounts]) -> dict[ProcessKey, int]:
        machine = Machine(job)
        machine.busy = {GPU: 100, SECOND_GPU: 40}
        for machine.looks in looks:
            machine.next()
        return machine.accountant.rank_waits()

    both = {TRAINER: RUNS, PEER: WAITS}
    assert waits(launched, both, both) == {TRAINER: 0, PEER: 1200}
    assert waits(launched, both, {PEER: WAITS}) == {TRAINER: 0, PEER: 600}  # one rank was not looked at
    unnumbered = launched._replace(ranks=tuple(rank._replace(number=None) for rank in ranks))
    for evidence in (("gpu", "slurm"), ("gpu", "launcher", "ray")):
        assert waits(launched._replace(evidence=evidence), both) == {}
    assert waits(unnumbered, both) == {}


@pytest.mark.parametrize(
    ("numbers", "launcher", "own"),
    [((0, 1), None, False), ((None, None), OTHER, False), ((None, None), None, True), ((0, None), None, True)],
    ids=["numbered", "started together", "independent", "one numbered"],
)
def test_waits_of_ranks_that_take_turns_add_up_if_they_step_together(
    numbers: tuple[int | None, int | None], launcher: ProcessKey | None, own: bool
) -> None:
    ranks = (Rank(TRAINER, (), (GPU,), number=numbers[0]), Rank(PEER, (), (SECOND_GPU,), number=numbers[1]))
    job = job_of(*ranks)
    machine = Machine(job if launcher is None else job._replace(key=launcher))
    machine.busy = {GPU: 70, SECOND_GPU: 70}  # each GPU spins while the other rank waits
    turn = LookCounts(looks=20, waits=Split(disk=6.0), asleep=14, peer_waits=Split(disk=5.0))
    machine.looks = {TRAINER: turn, PEER: turn}
    alone = {"compute": 700, "data_disk": 300}
    assert machine.grown() == (alone if own else {"compute": 450, "data_disk": 550})


@pytest.mark.parametrize("job", [ON_GPU, WITH_WORKERS])
def test_a_job_that_does_not_move_for_a_minute_hangs(job: Job) -> None:
    machine = Machine(job)
    machine.looks = {TRAINER: RESTS}
    machine.busy[GPU] = 90
    machine.next()
    machine.busy[GPU] = 0
    for _ in range(int(HUNG_S) - 1):
        assert machine.grown() == {"unexplained": 1000}
    assert machine.grown() == {"hung": 1000}
    for _ in range(10):
        machine.next(60.0)
    assert machine.counts.hung == 601_000
    machine.moves(cpu=50)
    assert machine.grown() == {"unexplained": 1000}


@pytest.mark.parametrize(
    "moved",
    [
        {"cpu": 3},
        {"read": 40_000},
        {"chars": 40_000},
        {"write": 40_000},
        {"busy": 5},
        {"looks": LookCounts(20, main_disk=1)},
        {"read": 400, "looks": WAITS},
    ],
)
def test_a_job_that_moves_does_not_hang(moved: dict[str, Any]) -> None:
    machine = Machine()
    for _ in range(int(HUNG_S) + 20):
        machine.looks = {TRAINER: moved.get("looks", RESTS)}
        machine.busy[GPU] = moved.get("busy", 0)
        machine.moves(**{name: value for name, value in moved.items() if name not in ("busy", "looks")})
        machine.next()
    assert machine.counts.hung == 0


@pytest.mark.parametrize("looks", [RESTS, LookCounts(looks=20, waits=Split(other=20.0)), WAITS])
def test_an_experiment_tracker_does_not_hide_that_a_job_hangs(looks: LookCounts) -> None:
    machine = Machine(WITH_WORKERS)
    machine.children = {CHILD: "wandb-core"}
    machine.io[CHILD], machine.ticks[CHILD] = [0] * 7, 0
    machine.looks = {TRAINER: looks}
    machine.next()
    hung = []
    for second in range(200):
        if looks is not WAITS:
            machine.moves(CHILD, chars=60 + 37_000 * (second % 15 == 0), cpu=int(second % 5 == 0))
            machine.moves(CHILD, read=139_264 * (second % 60 == 0))
        hung.append("hung" in machine.grown())
    assert hung.index(True) == HUNG_S - 1
    assert all(hung[int(HUNG_S) :])
    machine.moves(cpu=50)
    assert "hung" not in machine.grown(), "a job that goes on was counted as hung"


def test_another_job_that_waits_for_a_disk_does_not_hide_that_a_job_hangs() -> None:
    machine = Machine()
    other = job_of(Rank(OTHER, (), (SECOND_GPU,)))
    machine.jobs[OTHER] = other
    machine.io[OTHER], machine.ticks[OTHER] = [0] * 7, 0
    machine.looks = {TRAINER: RESTS, OTHER: LookCounts(looks=20, main_disk=20)}
    machine.busy[GPU] = 90
    machine.next()
    machine.busy[GPU] = 0
    for _ in range(int(HUNG_S)):
        machine.next()
    assert machine.grown() == {"hung": 1000}


def test_a_job_without_a_gpu_or_loaders_does_not_hang() -> None:
    machine = Machine(ALONE)
    machine.looks = {TRAINER: RESTS}
    for _ in range(2):
        machine.next(HUNG_S)
    assert machine.counts == TimeCounts(unexplained=120_000)


def test_time_with_a_compiler_below_the_job_counts_as_compile() -> None:
    machine = Machine()
    machine.children = {CHILD: "ptxas"}
    assert machine.grown() == {"compile": 1000}
    machine.busy[GPU] = 60
    assert machine.grown() == {"compute": 600, "compile": 400}
    machine.children = {CHILD: "python3"}
    assert machine.grown() == {"compute": 600, "host": 400}


def test_the_first_compile_belongs_to_the_startup() -> None:
    machine = Machine(age_s=2.0)
    machine.children = {CHILD: "ptxas"}
    machine.next(100.0)
    assert machine.counts == TimeCounts(startup=100_000)
    machine.busy[GPU] = 60
    assert machine.grown() == {"compute": 600, "compile": 400}, "the startup did not end with the first step"
    machine.busy[GPU] = 0
    assert machine.grown() == {"compile": 1000}


@pytest.mark.parametrize("job", [ALONE, job_of(Rank(TRAINER, (WORKER,)))])
def test_neither_age_nor_loaders_end_the_first_compile_without_a_gpu(job: Job) -> None:
    machine = Machine(job, age_s=2.0)
    machine.children = {CHILD: "cc1plus"}
    machine.next(ALONE_S + 1)
    assert machine.grown() == {"startup": 1000}
    machine.children = {}
    assert machine.grown() == {"compute": 1000}
    machine.children = {CHILD: "cc1plus"}
    assert machine.grown() == {"compile": 1000}
    late = Machine(job, age_s=STARTUP_MOST_S + 1)
    late.children = {CHILD: "cc1plus"}
    assert late.grown() == {"compile": 1000}


def test_bytes_read_in_the_first_interval_are_counted() -> None:
    machine = Machine()
    machine.busy[GPU] = 30
    machine.moves(chars=10 * MB)
    assert machine.grown() == {"compute": 300, "data_cpu": 700}
    assert machine.grown() == {"compute": 300, "host": 700}
    machine.moves(chars=5 * MB)
    # The limit is a rate: five megabytes in ten seconds are too few.
    assert machine.grown(10.0) == {"compute": 3000, "host": 7000}


def test_the_cpu_time_of_several_ticks_is_not_given_to_the_last_tick() -> None:
    """One thread computes and sometimes reads. Its stat is read when its io changes, else in every fifth tick."""
    machine = Machine(ALONE)
    machine.stat_ns[TRAINER] = machine.at_ns
    totals: dict[str, int] = {}
    for second in range(1, 31):
        if second % 3 == 0:
            machine.moves(chars=30 * MB)
        if second % 3 == 0 or second % 5 == 0:
            machine.ticks[TRAINER] = 100 * second
            machine.stat_ns[TRAINER] = machine.at_ns + SECOND
        for name, ms in machine.grown().items():
            totals[name] = totals.get(name, 0) + ms
    assert totals == {"compute": 20_000, "data_cpu": 10_000}
    # With four threads beside it, the main thread's reads are not a wait.
    machine.ticks[TRAINER] += 500
    machine.stat_ns[TRAINER] = machine.at_ns + SECOND
    machine.moves(chars=30 * MB)
    assert machine.grown() == {"compute": 1000}
    machine.moves(chars=30 * MB)
    assert machine.grown() == {"compute": 1000}, "the figure changed though the stat was not read again"


def test_bytes_that_children_read_are_counted() -> None:
    machine = Machine()
    machine.child("cat")
    machine.next()
    machine.moves(CHILD, chars=10 * MB)
    assert machine.grown() == {"data_cpu": 1000}
    # When the trainer reaps the child, it inherits the child's bytes without reading anything.
    machine.reap()
    assert machine.grown() == {"host": 1000}


COMPUTES = LookCounts(looks=20, futex_computing=Split(cpu=20.0))


def reap_then_compute(machine: Machine) -> None:
    """Let the trainer rest until its earlier bytes are forgotten, reap its child with its bytes, and compute."""
    machine.looks = {TRAINER: RESTS}
    for _ in range(12):
        machine.next()
    machine.reap()
    machine.looks = {TRAINER: COMPUTES}


def test_a_checkpoint_is_found_after_workers_that_read_much_were_reaped() -> None:
    machine = Machine()
    machine.loading = Loading.NAMED
    machine.child("pt_data_worker", chars=50_000 * MB)
    reap_then_compute(machine)
    for _ in range(12):
        machine.moves(write=500 * MB)
        assert machine.grown() == {"checkpoint": 1000}


def test_threads_that_compute_are_found_after_a_child_that_wrote_much_was_reaped() -> None:
    machine = Machine()
    machine.child("cp", write=10_000 * MB)
    reap_then_compute(machine)
    machine.busy[GPU] = 50
    for _ in range(12):
        assert machine.grown() == {"compute": 500, "data_cpu": 500}


def test_threads_that_compute_while_the_gpu_rests_and_nothing_is_read_may_compile() -> None:
    machine = Machine()
    machine.looks = {TRAINER: COMPUTES}
    machine.busy[GPU] = 2
    for _ in range(12):
        assert machine.grown() == {"compute": 20, "data_cpu": 980}, "a starved GPU makes short steps"
    machine.busy[GPU] = 0
    for _ in range(10):  # the GPU may still be between two steps
        assert machine.grown() == {"data_cpu": 1000}
    assert machine.grown() == {"unexplained": 1000}
    machine.moves(chars=20 * MB)
    assert machine.grown() == {"data_cpu": 1000}, "threads that read and compute decode"
    machine.busy[GPU] = 60
    assert machine.grown() == {"compute": 600, "data_cpu": 400}


@pytest.mark.parametrize(("evidence", "share"), [((), "data_cpu"), (("device", "library"), "unexplained")])
def test_a_wait_in_a_futex_beside_an_accelerator_that_is_not_seen_is_unexplained(
    evidence: tuple[str, ...], share: str
) -> None:
    """The main thread may wait for its data or for a TPU."""
    machine = Machine(job_of(Rank(TRAINER))._replace(evidence=evidence))
    machine.loading, machine.looks = Loading.OTHERS, {TRAINER: LookCounts(looks=20, futex=Split(cpu=12.0), running=8)}
    assert machine.grown() == {share: 600, "compute": 400}


def test_what_a_child_writes_is_not_a_checkpoint_of_the_main_thread() -> None:
    machine = Machine(WITH_WORKERS)
    machine.loading, machine.looks, machine.busy[GPU] = Loading.NAMED, {TRAINER: RUNS}, 50
    machine.child("python")
    machine.next()
    machine.moves(CHILD, write=40 * MB)
    assert machine.grown() == {"compute": 500, "host": 500}
    machine.moves(write=40 * MB)
    assert machine.grown() == {"compute": 500, "checkpoint": 500}


def test_writes_reads_and_remote_mounts_decide_what_a_blocked_job_waits_for() -> None:
    machine = Machine()
    machine.looks = {TRAINER: LookCounts(looks=20, main_disk=20)}
    machine.moves(write=60 * MB)
    assert machine.grown() == {"checkpoint": 1000}
    machine.moves(read=60 * MB)
    assert machine.grown() == {"data_disk": 1000}
    machine.place = JobPlace(mounts=(JobMount("/data", "nfs4", "server:/data", ""),))
    assert machine.grown() == {"data_network": 1000}


def test_a_log_file_beside_a_network_filesystem_is_not_a_checkpoint() -> None:
    """NFS and FUSE do not count read_bytes, while a local filesystem counts all bytes that a process waits for."""
    machine = Machine()
    machine.looks = {TRAINER: WAITS}
    for mount, share in (
        (JobMount("/mnt/s3", "fuse.s3fs", "s3fs", "0:60"), "data_network"),
        (JobMount("/mnt/x", "fuse", "x", "0:61"), "data_disk"),
        (JobMount("/data", "ext4", "/dev/sda1", "8:1"), "checkpoint"),
    ):
        machine.place = JobPlace(mounts=(mount,))
        machine.moves(chars=80 * MB, write=2 * MB)
        assert machine.grown() == {share: 1000}


def test_waits_for_files_and_sockets_are_separated_beside_a_network_mount() -> None:
    machine = Machine()
    machine.looks = {TRAINER: LookCounts(looks=20, waits=Split(disk=4.0, network=16.0))}
    machine.next()
    assert machine.accountant.file_waits() == {}
    machine.place = JobPlace(mounts=(JobMount("/data", "nfs4", "server:/data", ""),))
    assert machine.grown() == {"data_network": 1000}
    assert machine.accountant.file_waits() == {TRAINER: 200}
    machine.looks = {TRAINER: LookCounts(looks=20, main_net=20)}
    assert machine.grown() == {"data_network": 1000}
    assert machine.accountant.file_waits() == {TRAINER: 200}


def test_another_users_job_is_counted_without_rates() -> None:
    machine = Machine(WITH_WORKERS)
    machine.io = {}
    machine.busy[GPU] = 30
    for _ in range(5):
        assert machine.grown() == {"compute": 300, "host": 700}
    machine.looks = {TRAINER: WAITS}
    assert machine.grown() == {"compute": 300, "data_disk": 700}
    machine.looks = {TRAINER: RESTS}
    machine.busy[GPU] = 0
    for _ in range(int(HUNG_S) - 1):
        assert "hung" not in machine.grown()
    assert machine.grown() == {"hung": 1000}


def test_a_gpu_without_any_figure_is_left_out() -> None:
    machine = Machine()
    machine.busy = {GPU: None}
    assert machine.grown() == {"compute": 1000}


def test_a_gpu_without_a_utilisation_is_as_busy_as_its_busiest_engine() -> None:
    machine = Machine()
    machine.busy = {GPU: None}
    for second in range(3):
        machine.gpu = {
            "graphics_ns": second * SECOND // 10,
            "compute_ns": second * SECOND // 2,
            "engines_at_ns": machine.at_ns + SECOND,
        }
        before = machine.counts
        after = machine.next()
    assert shares(before, after) == {"compute": 500, "host": 500}


def test_a_job_that_has_ended_is_forgotten() -> None:
    machine = Machine()
    machine.next()
    tick = machine.tick()
    assert machine.accountant.update({}, tick) == {}
    again = machine.accountant.update(machine.jobs, tick._replace(at_ns=tick.at_ns + SECOND))
    assert again == {TRAINER: TimeCounts()}


def test_gpus_that_are_busy_at_low_power_wait_for_each_other() -> None:
    machine = Machine(job_of(Rank(TRAINER, (), (GPU,)), Rank(PEER, (), (SECOND_GPU,))))
    machine.busy = {GPU: 100, SECOND_GPU: 100}
    machine.looks = {TRAINER: RUNS, PEER: RUNS}
    machine.gpu = {"power_mw": 98_000, "power_limit_mw": 700_000}
    assert shares(machine.next(), machine.next()) == {"collective": 1000}
    machine.gpu = {"power_mw": 600_000, "power_limit_mw": 700_000}
    assert shares(machine.next(), machine.next()) == {"compute": 1000}


def test_a_gpu_whose_link_is_full_waits_for_transfers() -> None:
    machine = Machine()
    machine.busy = {GPU: 30}
    machine.gpu = {"pcie_generation": 5, "pcie_width": 16, "pcie_rx_bytes": 0}
    machine.next()
    machine.gpu = {**machine.gpu, "pcie_rx_bytes": 45 * 10**9}
    before = machine.counts
    after = machine.next()
    assert after.transfer - before.transfer == 700


def test_a_main_threads_wait_for_a_core_counts_as_a_wait_for_its_loaders() -> None:
    machine = Machine(WITH_WORKERS)
    machine.loading = Loading.NAMED
    machine.looks = {TRAINER: LookCounts(looks=20, running=10, crowded=5, waits=Split(cpu=10.0))}
    machine.tasks = {TRAINER: TaskCounts(run_ns=100, wait_ns=100)}
    assert machine.grown() == {"data_cpu": 500, "host": 500}, "earlier waits were counted in this interval"
    machine.tasks = {TRAINER: TaskCounts(run_ns=300, wait_ns=900)}
    assert machine.grown() == {"data_cpu": 667, "host": 333}
    machine.tasks = {}
    assert machine.grown() == {"data_cpu": 500, "host": 500}


def test_a_main_thread_that_has_not_run_for_a_minute_takes_no_batches() -> None:
    machine = Machine()
    machine.busy = {GPU: 50}
    machine.looks = {TRAINER: LookCounts(looks=20, futex_computing=Split(cpu=20.0))}
    ran = 5000

    def after(seconds: int) -> dict[str, int]:
        for _ in range(seconds):
            machine.moves(cpu=100)
            machine.tasks = {TRAINER: TaskCounts(run_ns=ran)}
            machine.next()
        machine.moves(cpu=100)
        return machine.grown()

    assert after(50) == {"compute": 500, "data_cpu": 500}
    assert after(20) == {"compute": 500, "unexplained": 500}
    ran += 1
    assert after(1) == {"compute": 500, "data_cpu": 500}
    machine.loading = Loading.NAMED
    assert after(1) == {"compute": 500, "host": 500}
    assert after(70) == {"compute": 500, "unexplained": 500}, "another thread takes the batches of the loaders"
