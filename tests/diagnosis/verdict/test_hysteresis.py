"""The verdict does not flap when a figure hovers around a threshold, or a cause comes and goes or is replaced."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotop_ai.diagnosis.engine import fold
from iotop_ai.diagnosis.facts.gather import claim, gather, may_count
from iotop_ai.diagnosis.rules_version import stamp
from iotop_ai.diagnosis.thresholds import LIMITS, RULES_VERSION
from iotop_ai.diagnosis.verdict.hysteresis import decide_active
from iotop_ai.model.finding import Evidence, Finding, Severity
from iotop_ai.model.fold_state import ActiveFinding
from iotop_ai.model.job.records import JobTable
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.verdict_class import CLASS_SPECS, State
from iotop_ai.store.format.size_limits import MOST_ENTRIES_OF
from tests.diagnosis.build import (
    COMPUTING,
    JOB_ALONE,
    JOB_HEALTHY,
    JOB_PREPARING,
    LOADERS,
    TRAINER_OLD,
    Disk,
    Machine,
    S,
    classes,
    last,
    play,
)
from tests.diagnosis.host_scenes import epochs
from tests.diagnosis.job_scenes import DATA_SCENES, SAVING, with_job

KIB = 1024
SETTLED = 25


def primary_classes(*scenes: tuple[Machine, int]) -> list[str]:
    """The class of each tick's primary finding, from tick ``SETTLED`` on."""
    return [f.verdict.primary.class_id for f in play(*scenes)][SETTLED:]


def flaps(class_ids: list[str]) -> int:
    return sum(a != b for a, b in pairwise(class_ids))


def test_as_many_findings_as_a_recording_may_have_are_decided_quickly() -> None:
    """The crafted findings are about disks that are gone, each of which is looked up in all tables."""
    frame = last(Machine(disks=tuple(Disk(f"sd{i}") for i in range(1000)), cpu=0.5))
    now, smart = frame.snapshot.at_ns, (Evidence("smart.x.critical", 1.0, ""),)
    findings = tuple(
        Finding("failing_disk", Severity.CRITICAL, 0.9, f"x{i}", evidence=smart)
        for i in range(MOST_ENTRIES_OF["Finding"])
    )
    held = {(f.class_id, f.subject): ActiveFinding(f, now, now) for f in findings}
    verdict = frame.verdict._replace(findings=findings[::-1])
    began = time.process_time()
    carry, _ = fold(
        frame.carry._replace(held=held, verdict=verdict), frame.snapshot._replace(at_ns=now + 2 * S), frame.history
    )
    assert time.process_time() - began < 5
    assert carry.held.keys() >= held.keys()


def disk(**of: object) -> Machine:
    return replace(JOB_ALONE, disks=(replace(JOB_ALONE.disks[0], **of),))


HOVERING = {
    "small and not so small": (disk(size_bytes=40.0 * KIB, await_ms=3.0), disk(size_bytes=58.0 * KIB, await_ms=3.0)),
    "slow and not so slow": (disk(await_ms=1.6), disk(await_ms=2.2)),
    "queued and not so queued": (disk(await_ms=1.2, queue=1.5), disk(await_ms=1.2, queue=4.0)),
    "blocked or computing": (
        with_job(JOB_ALONE, disk=0.56, running=0.44),
        with_job(JOB_ALONE, disk=0.44, running=0.56),
    ),
    "over its gate and below it": (with_job(JOB_ALONE, stall=0.10), with_job(JOB_ALONE, stall=0.05)),
    "starved and fed": (JOB_ALONE, replace(JOB_ALONE, job=replace(COMPUTING, stall=0.0))),
}


@pytest.mark.parametrize("name", HOVERING)
@pytest.mark.parametrize("ticks", [2, 4, 7])
def test_a_figure_that_hovers_around_a_threshold_does_not_flap(name: str, ticks: int) -> None:
    a, b = HOVERING[name]
    class_ids = primary_classes(*((machine, ticks) for _ in range(60 // ticks) for machine in (a, b)))
    assert flaps(class_ids) * 60 / len(class_ids) <= 1


def test_checkpoints_every_twelve_seconds_are_one_finding() -> None:
    assert SAVING.job is not None
    saving = {second for start in range(8, 120, 12) for second in range(start, start + 4)}
    class_ids = primary_classes((replace(SAVING, job=replace(SAVING.job, saving=frozenset(saving))), 120))
    assert set(class_ids) == {"checkpoint_write"}


def test_another_cause_must_last_before_it_replaces_the_first() -> None:
    fetching, computing = JOB_ALONE, JOB_PREPARING
    assert set(primary_classes((fetching, 40), (computing, 6), (fetching, 20))) == {"storage_read"}
    class_ids = primary_classes((fetching, 40), (computing, 30))
    assert class_ids[-1] == "cpu_prep"
    assert flaps(class_ids) == 1
    assert class_ids.index("cpu_prep") + SETTLED - 40 <= LIMITS.window_s + LIMITS.confirm_s


def test_the_cause_that_was_replaced_ends_at_once() -> None:
    frames = play((JOB_ALONE, 40), (DATA_SCENES["network_fs"], 30))
    entered = next(i for i, f in enumerate(frames) if f.verdict.primary.class_id == "network_fs")
    assert "storage_read" in classes(frames[entered - 1].verdict)
    assert "storage_read" not in classes(frames[entered].verdict)


def test_a_class_that_needs_confirmation_waits_only_after_the_first_window() -> None:
    limited = DATA_SCENES["io_limit"]
    assert play((limited, 11))[-1].verdict.primary.class_id == "io_limit"
    later = play((JOB_HEALTHY, 30), (limited, 30))
    at = next(i for i, f in enumerate(later) if f.verdict.primary.class_id == "io_limit")
    assert at >= 30 + CLASS_SPECS["io_limit"].confirm_s
    assert all(f.verdict.state is not State.UNSURE for f in later[at:])


def two_jobs() -> tuple[list[tuple[Machine, int]], Machine]:
    """Two jobs, one of which starts new workers for each epoch, and then the other job alone."""
    trainer = replace(TRAINER_OLD, pid=900, start=90)
    workers = tuple(replace(w, pid=910 + i, ppid=900, cpu=0.5, blocked=0.0) for i, w in enumerate(LOADERS[:2]))
    other = replace(COMPUTING, task=trainer, workers=workers, stall=0.01)
    both = [(replace(m, second_job=other, tasks=(*m.tasks, trainer, *workers)), n) for m, n in epochs(20, 4, 4)]
    return both, replace(JOB_HEALTHY, job=other, tasks=(trainer, *workers))


def test_the_finding_of_a_job_that_ended_does_not_apply_to_another_job() -> None:
    both, other = two_jobs()
    frames = play(*both, (other, 5))
    assert frames[-6].verdict.primary.class_id == "worker_respawn"
    for frame in frames[-5:]:
        assert (classes(frame.verdict), frame.verdict.job_pid) == (["healthy"], 900)


def test_without_any_job_nothing_is_starved() -> None:
    frames = play(*epochs(20, 4, 4))
    starved = frames[-1]
    assert starved.verdict.state is State.STARVED
    later = starved.snapshot._replace(at_ns=starved.snapshot.at_ns + S)
    unread = later._replace(jobs=Reading(None, Status.FAILED))
    verdict = fold(starved.carry, unread, starved.history)[1]
    assert verdict.state is State.STARVED, "the finding ended without a reading"
    ended = later._replace(jobs=Reading(JobTable(), Status.OK, at_ns=later.at_ns))
    assert "worker_respawn" not in classes(fold(starved.carry, ended, starved.history)[1])


@given(active=st.booleans(), flags=st.lists(st.booleans(), min_size=1, max_size=10), level=st.floats(0, 2))
def test_a_claim_changes_nothing_if_may_count_is_false(active: bool, flags: list[bool], level: float) -> None:
    frame = last(JOB_HEALTHY)
    finding = Finding("gpu_bound", Severity.INFO, 0.8, "")
    now = frame.snapshot.at_ns
    held = {("gpu_bound", ""): ActiveFinding(finding, now - 60 * S, now - S)} if active else {}
    facts = gather(frame.snapshot, frame.history, LIMITS, frame.carry._replace(held=held))
    claimed = claim(facts, finding, tuple(flags), level)._replace(needed=0)
    without = decide_active(facts.carry, [], facts, 60.0)
    if not may_count(facts, "gpu_bound", "", tuple(flags), level):
        assert decide_active(facts.carry, [claimed], facts, 60.0) == without
    else:
        assert decide_active(facts.carry, [claimed], facts, 60.0) != without


def test_the_stamp_begins_with_the_version_of_the_rules() -> None:
    assert stamp().startswith(f"{RULES_VERSION}-")
