"""Whose processes on AMD's and Intel's cards are seen."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from iotop_ai.collectors.gpu.drm import OTHERS_HIDDEN, DrmSweep
from iotop_ai.collectors.gpu.pid_mapping import FIRST_NAMESPACE
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.machine.host import INITIAL_USER_NAMESPACE
from iotop_ai.model.gpu.state import GpuState, gpu_rates
from iotop_ai.model.reading import Reading
from tests.clocks import SetClock
from tests.collectors.gpu.test_drm_clients import write_client
from tests.collectors.gpu.test_intel import CARD, SLOT, machine
from tests.machines import build

SECOND = 1_000_000_000
OTHER_PIDS, OTHER_USERS = "pid:[4026532999]", "user:[4026532888]"


class LiveRoot(Root):
    """A made tree that stands for this process's own /proc and /sys."""

    @property
    def live(self) -> bool:
        return True


def place(folder: Path, pids: str, users: str) -> None:
    build(machine("xe"), folder)
    (folder / "proc/self/ns").mkdir(parents=True)
    (folder / "proc/self/ns/pid").symlink_to(pids)
    (folder / "proc/self/ns/user").symlink_to(users)


def client(busy: int, cycles: int) -> str:
    return f"drm-pdev: {SLOT}\ndrm-client-id: 9\ndrm-cycles-ccs: {busy}\ndrm-total-cycles-ccs: {cycles}"


@pytest.mark.parametrize(
    ("pids", "users", "remedy"),
    [
        (FIRST_NAMESPACE, INITIAL_USER_NAMESPACE, "run as root"),
        (OTHER_PIDS, INITIAL_USER_NAMESPACE, "run as root on the host"),
        (FIRST_NAMESPACE, OTHER_USERS, "run as root on the host"),
        (OTHER_PIDS, OTHER_USERS, "run as root on the host"),
    ],
)
def test_only_root_of_the_machine_sees_all_users(tmp_path: Path, pids: str, users: str, remedy: str) -> None:
    place(tmp_path, pids, users)
    reading = DrmSweep(LiveRoot(str(tmp_path)), SetClock(SECOND)).read()[CARD]
    sees_all = remedy == "run as root" and os.geteuid() == 0
    assert (reading.reason, reading.remedy) == (("", "") if sees_all else (OTHERS_HIDDEN, remedy))
    assert reading.value is not None
    assert reading.value.processes == (() if sees_all else None)


def busy_ratio(folder: Path, root: Root) -> float | None:
    """The utilisation in the second in which a process used a quarter of all cycles."""
    clock = SetClock(SECOND)
    sweep = DrmSweep(root, clock)
    tables: list[dict[str, Reading[GpuState]]] = []
    for cycles in (0, 1_000_000):
        write_client(folder, 7, client(cycles // 4, cycles))
        tables.append(sweep.read())
        clock.now_ns += SECOND
    return gpu_rates(*tables, 1.0)[CARD].busy_ratio


def test_the_work_of_a_container_is_not_the_work_of_the_gpu(tmp_path: Path) -> None:
    place(tmp_path, OTHER_PIDS, OTHER_USERS)
    for root in (Root(str(tmp_path)), LiveRoot(str(tmp_path))):
        assert busy_ratio(tmp_path, root) is None


def test_the_work_of_all_processes_is_the_work_of_the_gpu(tmp_path: Path) -> None:
    place(tmp_path, FIRST_NAMESPACE, OTHER_USERS)
    assert busy_ratio(tmp_path, Root(str(tmp_path))) == 0.25
