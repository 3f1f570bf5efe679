"""Ranks that wait for their own data while the other ranks wait for them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iotop_ai.diagnosis.facts.late_ranks import LateRanks, late_ranks
from iotop_ai.diagnosis.facts.window import Window
from iotop_ai.diagnosis.thresholds import LIMITS
from iotop_ai.diagnosis.verdict.totals import finding_over_time
from iotop_ai.model.finding import Finding
from iotop_ai.model.job.records import Job, Rank
from iotop_ai.model.job.task_states import JobSample, TaskRates
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.reading import Rated
from iotop_ai.model.sample import OwnRates, Sample
from iotop_ai.model.verdict_totals import FindingTotal
from iotop_ai.present.verdict.headline import headline_naming_job, headline_of, text_of
from iotop_ai.present.verdict.plain_text import ruled_out_text, verdict_block
from tests.diagnosis.build import JOB_PREPARING, Machine, S, Task, classes, play, verdict_of
from tests.diagnosis.host_scenes import SHARED
from tests.diagnosis.job_scenes import with_job


def late(own: float, *others: float, machine: Machine = JOB_PREPARING, workers: bool = True) -> Machine:
    """A machine whose job has a rank that waits ``own`` of the time for its data, and others that wait less.

    workers: whether each of the others has a loader too
    """
    peers = tuple(
        (Rank(Task(900 + i, "python").key, (Task(950 + i, "pt_data").key,) * workers, number=i + 1), wait)
        for i, wait in enumerate(others)
    )
    return with_job(machine, own_wait=own, peers=peers, number=0)


def lines(machine: Machine) -> list[str]:
    return verdict_block(play((machine, 15))[-1])


def first_line(machine: Machine) -> str:
    return lines(machine)[0]


def test_the_verdict_names_the_late_rank_and_its_loaders() -> None:
    machine = late(0.8, 0.02, 0.1, 0.0)
    assert classes(verdict_of(machine))[0] == "cpu_prep"
    assert "rank 0 waits for data 80 % of the time, the other 3 ranks for it" in first_line(machine)
    assert "because   its 8 workers compute at 97 % CPU" in lines(machine)[1]
    assert "their 9 workers" in lines(late(0.8, 0.8, 0.0, 0.0))[1]
    assert "because   8 workers" in lines(JOB_PREPARING)[1]
    evidence = {one.metric.split(".")[-1]: one.value for one in verdict_of(machine).primary.evidence}
    assert (evidence["late_ranks_wait_ratio"], evidence["other_ranks_wait_ratio"]) == pytest.approx((0.8, 0.04))


def test_workers_of_the_others_are_not_called_those_of_a_late_rank_without_workers() -> None:
    machine = late(0.01, 0.8)
    lone = replace(machine, job=replace(machine.job, peers=((machine.job.peers[0][0]._replace(workers=()), 0.8),)))
    assert "rank 1 waits for data 80 %" in first_line(lone)
    assert "because   the others' 8 workers" in lines(lone)[1]


def replace_lost(finding: Finding, of: float) -> Finding:
    """The finding over a run in which it lost this part of what it loses now."""
    assert finding.lost_ratio is not None
    lost_ns = int(of * finding.lost_ratio * 60 * S)
    return finding_over_time(FindingTotal(finding, 60 * S, lost_ns, 60 * S, lost_ns))


def test_the_ranks_are_compared_if_others_load_data_too() -> None:
    def cures(machine: Machine) -> list[str]:
        return [advice.template for advice in verdict_of(machine).primary.advice]

    assert cures(late(0.8, 0.0))[0] == "compare_ranks"
    assert "compare_ranks" not in cures(late(0.8, 0.0, workers=False))


def test_ranks_on_other_machines_are_not_meant() -> None:
    peers = tuple((rank._replace(number=9), wait) for rank, wait in late(0.8, 0.0).job.peers)
    assert "rank 8 waits for data 80 % of the time, the other rank here for it" in first_line(
        with_job(late(0.8, 0.0), number=8, peers=peers)
    )


def test_over_a_whole_run_the_sentence_has_the_share_of_the_run() -> None:
    frame = play((late(0.8, 0.0), 20))[-1]
    found = replace_lost(frame.verdict.primary, of=0.5)
    assert text_of(headline_of(found)).startswith("rank 0 waits for data 40 % of the time")


def test_a_neighbours_finding_does_not_name_ranks() -> None:
    verdict = verdict_of(late(0.8, 0.0, machine=SHARED))
    assert classes(verdict)[0] == "noisy_neighbour"
    assert "late" not in dict(verdict.primary.args)


def test_with_several_jobs_the_job_is_named_before_the_rank() -> None:
    finding = verdict_of(replace(late(0.8, 0.0), gpus=(), gpu_pids=())).primary
    assert text_of(headline_naming_job(finding, with_pid=True)).startswith("train.py 50: rank 0 waits for data")


def test_another_rank_is_not_ruled_out_as_the_cause_of_a_late_rank() -> None:
    def ruled_out(machine: Machine) -> str:
        return ruled_out_text(play((machine, 15))[-1].verdict)

    busy = replace(with_job(JOB_PREPARING, stall=0.12), gpus=(0.92, 0.92), power=600.0)
    assert "another rank" in ruled_out(late(0.1, 0.1, machine=busy))
    assert "another rank" not in ruled_out(late(0.1, 0.0, machine=busy))


def test_several_late_ranks_are_named() -> None:
    several = first_line(late(0.8, 0.6, 0.0, 0.0))
    assert "ranks 0-1 wait for data 70 % of the time, the other 2 ranks for them" in several
    assert ", the other rank for it" in first_line(late(0.8, 0.0))


@pytest.mark.parametrize(
    "waits",
    [
        pytest.param((0.8, 0.4), id="the other waits half as long"),
        pytest.param((0.04, 0.0), id="it hardly waits"),
        pytest.param((0.8, 0.8, 0.0), id="most ranks wait"),
        pytest.param((0.8, 0.3, 0.0), id="one of the others waits a while"),
        pytest.param((0.4, 0.0), id="the job waits much longer than the rank"),
    ],
)
def test_no_rank_is_late_if_others_wait_too(waits: tuple[float, ...]) -> None:
    assert "rank" not in first_line(late(*waits))


def test_a_healthy_job_has_no_late_rank() -> None:
    machine = with_job(late(0.2, 0.0), stall=0.0)
    assert not any("rank" in line for line in verdict_block(play((machine, 15))[-1]))


FIRST, SECOND, LOADER = (ProcessKey(pid, 1) for pid in (1, 2, 3))
JOB = Job(FIRST, "train.py", "alice", 1000, (Rank(FIRST, number=0), Rank(SECOND, (LOADER,), number=1)))


def window(*waits: dict[ProcessKey, float], needed: int = 1) -> Window:
    """A window with a sample of these waits a second. Its loader computes 90 % of the time."""
    task = TaskRates(0.05, 0.9, 0.0, 0.9, 0.03)
    samples = [
        Sample(i, i, 1.0, False, OwnRates(0.01, None, 0.0, 0.0))._replace(
            jobs=Rated(JobSample({}, {LOADER: task}, rank_waits=one), i, 1.0, renewed=True)
        )
        for i, one in enumerate(waits)
    ]
    return Window(tuple(samples), float(len(samples)), needed)


def find(short: Window, long: Window | None = None) -> LateRanks | None:
    return late_ranks(short, long or short, JOB, 0.2, LIMITS)


def test_the_waits_are_means_and_the_loaders_those_of_the_late_rank() -> None:
    found = find(window({FIRST: 0.0, SECOND: 0.1}, {FIRST: 0.02, SECOND: 0.3}))
    assert found is not None
    assert [rank.number for rank in found.ranks] == [1]
    assert [rank.number for rank in found.others] == [0]
    assert (found.workers, found.wait, found.others_wait) == pytest.approx((1, 0.2, 0.01))
    assert (found.cpu, found.cpu_wait, found.disk, found.idle) == pytest.approx((0.9, 0.03, 0.05, 0.02))


def test_the_long_window_shows_who_is_late_and_the_short_one_how_long_it_waits() -> None:
    now, before = {FIRST: 0.01, SECOND: 0.3}, {FIRST: 0.0, SECOND: 0.1}
    found = find(window(now), window(before, now))
    assert found is not None
    assert found.wait == 0.3
    assert find(window({FIRST: 0.3, SECOND: 0.01}), window(before, before, before)) is None


def test_nothing_is_known_without_the_wait_of_each_rank() -> None:
    assert find(window({SECOND: 0.3})) is None
    assert find(window({})) is None
    assert find(window()) is None
    assert find(window({FIRST: 0.0, SECOND: 0.2}, needed=3)) is None
