from __future__ import annotations

from dataclasses import replace

import pytest

from iotop_ai.model.block.counters import Mount
from iotop_ai.model.finding import Severity
from iotop_ai.model.machine.filesystem import FilesystemUsage
from iotop_ai.model.verdict_class import State
from tests.diagnosis.build import (
    COMPUTING,
    GIB,
    JOB_HEALTHY,
    JOB_STARVED,
    MB,
    TRAINER_OLD,
    Machine,
    Training,
    classes,
    play,
    verdict_of,
)
from tests.diagnosis.job_scenes import NO_READINGS, STATE_SCENES

CLASSES = {"mem_pressure": State.SLOWED, "shm_full": State.BLOCKED, "fs_full": State.BLOCKED}
SCENES = {name: machine for name, machine in STATE_SCENES.items() if name.split()[0] in CLASSES}
NEAR_MISSES = {
    "mem_pressure": replace(JOB_HEALTHY, memory_pressure=0.06),
    "mem_pressure cache": replace(JOB_HEALTHY, memory_pressure=0.13, refault=200 * MB),
    "mem_pressure zram": replace(JOB_HEALTHY, memory_pressure=0.03, swap_in=50 * MB),
    "shm_full": replace(JOB_HEALTHY, job=replace(COMPUTING, stall=0.01, shm=0.85)),
    "fs_full": replace(JOB_HEALTHY, usage={"/data": FilesystemUsage(1000 * GIB, 5 * GIB, 5 * GIB, 0, 0)}),
}


@pytest.mark.parametrize("name", SCENES)
def test_the_cause_of_each_scene_is_named(name: str) -> None:
    verdict = verdict_of(SCENES[name])
    assert verdict.primary.class_id == name.split()[0]
    assert verdict.state is CLASSES[name.split()[0]]
    assert verdict.primary.evidence


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_a_figure_just_below_its_threshold_is_not_enough(name: str) -> None:
    assert name.split()[0] not in classes(verdict_of(NEAR_MISSES[name]))


@pytest.mark.parametrize("machine", [NO_READINGS, JOB_HEALTHY], ids=["no readings", "healthy"])
def test_nothing_is_called_full_without_a_known_figure(machine: Machine) -> None:
    assert not CLASSES.keys() & set(classes(verdict_of(machine)))


def test_shared_memory_that_is_freed_a_little_still_counts_as_full() -> None:
    filled, less, empty = (
        replace(JOB_HEALTHY, job=replace(COMPUTING, stall=0.01, shm=shm)) for shm in (0.95, 0.85, 0.5)
    )
    frames = play((filled, 11), (less, 20), (empty, 20))
    assert frames[10].verdict.primary.class_id == "shm_full"
    assert frames[30].verdict.primary.class_id == "shm_full"
    assert frames[-1].verdict.primary.class_id == "healthy"


FULL = FilesystemUsage(100 * GIB, GIB // 2, GIB // 2, 0, 0)


def test_a_full_filesystem_that_no_job_reads_comes_after_the_loss_of_a_job() -> None:
    assert classes(verdict_of(replace(JOB_STARVED, usage={"/scratch": FULL})))[:2] == ["storage_read", "fs_full"]
    assert classes(verdict_of(replace(JOB_STARVED, usage={"/data": FULL})))[0] == "fs_full"
    assert classes(verdict_of(replace(JOB_HEALTHY, usage={"/scratch": FULL}))) == ["fs_full"]


@pytest.mark.parametrize("path", ["/boot", "/boot/efi", "/efi"])
def test_a_full_boot_filesystem_is_shown_beside_the_verdict(path: str) -> None:
    verdict = verdict_of(replace(JOB_HEALTHY, usage={path: FULL}))
    assert classes(verdict) == ["healthy", "fs_full"]
    assert verdict.findings[1].severity is Severity.INFO
    assert classes(verdict_of(replace(JOB_HEALTHY, usage={"/bootstrap": FULL}))) == ["fs_full"]


@pytest.mark.parametrize(
    ("mount", "counts"),
    [
        (Mount("/nfs", "nfs4", "srv:/x", True), False),
        (Mount("/nfs", "nfs4", "srv:/x"), True),
        (Mount("/tmp/.mount_editor", "fuse.editor.AppImage", "editor.AppImage", True), False),
        (Mount("/snap/core", "squashfs", "core.snap"), False),
        (Mount("/tmp", "tmpfs", "tmpfs"), True),
    ],
)
def test_a_full_mount_counts_only_if_it_can_be_written_to(mount: Mount, counts: bool) -> None:
    verdict = verdict_of(replace(JOB_HEALTHY, mounts=(mount,), usage={mount.path: FULL}))
    assert ("fs_full" in classes(verdict)) is counts


def test_pressure_by_file_pages_has_the_threshold_that_it_must_reach() -> None:
    found = verdict_of(replace(JOB_HEALTHY, memory_pressure=0.25, refault=200 * MB)).primary
    (pressure,) = [one for one in found.evidence if one.metric == "pressure.memory.some_ratio"]
    assert (found.class_id, pressure.threshold) == ("mem_pressure", 0.2)


def test_swapping_alone_counts_without_psi() -> None:
    swapping = replace(JOB_HEALTHY, swap_in=4 * MB, memory_pressure=None)
    assert verdict_of(swapping).primary.class_id == "mem_pressure"


def test_advice_about_workers_needs_a_job() -> None:
    found = verdict_of(Machine(cpu=0.3, memory_pressure=0.2)).primary
    assert (found.class_id, found.advice) == ("mem_pressure", ())


def test_a_full_shared_memory_is_a_finding_about_the_job_that_uses_it() -> None:
    other = replace(TRAINER_OLD, pid=40)
    full = Training(other, main_running=0.9, shm=0.95, time=(("compute", 1.0),))
    both = replace(JOB_HEALTHY, second_job=full, tasks=(*JOB_HEALTHY.tasks, other))
    verdict = verdict_of(both)
    assert (verdict.primary.class_id, verdict.primary.subject, verdict.job_pid) == ("shm_full", "40", 40)
    frames = play((both, 15), (JOB_HEALTHY, 1))
    assert "shm_full" not in classes(frames[-1].verdict)
