"""The remains of a killed run are found and removed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rigs.slowdisk.loop import attach, run
from tests.scenarios.needs import why_no_losetup, why_no_zram
from tests.scenarios.place import PREFIX, SWAPS, alone, at_most, clear, dead_folders, group_name, run_folder
from tests.scenarios.scenes import EXT4

UNUSED_PID = 4_194_305
"""A pid above the largest possible pid."""


def test_only_folders_of_dead_processes_are_removed(tmp_path: Path) -> None:
    for name in (f"{PREFIX}{UNUSED_PID}-a", f"{PREFIX}{os.getpid()}-b", f"{PREFIX}lock", "other"):
        (tmp_path / name).mkdir()
    assert [folder.name for folder in dead_folders(tmp_path)] == [f"{PREFIX}{UNUSED_PID}-a"]


def test_a_run_has_a_folder_named_after_its_process_and_runs_alone(tmp_path: Path) -> None:
    with run_folder() as folder:
        assert folder.name.startswith(f"{PREFIX}{os.getpid()}-")
        assert group_name(folder) == folder.name
    assert not folder.exists()
    code = (
        "import fcntl, sys\n"
        "try: fcntl.flock(open(sys.argv[1], 'w'), fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "except BlockingIOError: sys.exit(7)\n"
    )
    with alone(tmp_path):
        lock = tmp_path / f"{PREFIX}lock"
        assert subprocess.run([sys.executable, "-c", code, str(lock)]).returncode == 7


def test_a_cleanup_that_hangs_is_abandoned() -> None:
    with pytest.raises(TimeoutError, match="1 s"), at_most(1):
        subprocess.run(["sleep", "60"])


@pytest.mark.skipif(bool(why_no_losetup()), reason=why_no_losetup())
def test_mounts_loop_devices_and_cgroups_are_removed_with_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / f"{PREFIX}{UNUSED_PID}-left"
    (folder / "data").mkdir(parents=True)
    run("truncate", "-s", "16M", str(folder / "disk.img"))
    lower = attach(folder / "disk.img")
    upper = attach(Path(lower))
    run(*EXT4, upper)
    run("mount", upper, str(folder / "data"))
    group = Path("/sys/fs/cgroup/blkio") / folder.name
    group.mkdir()
    with subprocess.Popen(["sleep", "1000"]) as sleeper:
        (group / "cgroup.procs").write_text(str(sleeper.pid))
        clear(folder)
        assert sleeper.wait(20) < 0
    assert not folder.exists()
    assert not group.exists()
    assert str(folder) not in Path("/proc/self/mounts").read_text()
    assert str(folder) not in run("losetup", "-a")
    assert upper not in [line.split(":")[0] for line in run("losetup", "-a").splitlines()]


@pytest.mark.skipif(bool(why_no_zram()), reason=why_no_zram())
def test_swap_on_compressed_memory_is_released(tmp_path: Path) -> None:
    number = int(Path("/sys/class/zram-control/hot_add").read_text())
    (tmp_path / SWAPS).write_text(json.dumps([number]))
    Path(f"/sys/block/zram{number}/disksize").write_text("4M")
    run("mkswap", f"/dev/zram{number}")
    clear(tmp_path)
    assert not Path(f"/sys/block/zram{number}").exists()
