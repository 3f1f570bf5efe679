"""The /proc and /sys of a machine mounted at other places: --procfs and --sysfs of the installed program."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from iotop_ai.cli.config.common import READ_ONLY
from iotop_ai.collectors.io.root import Root, root_from_options
from iotop_ai.model.errors import UsageError
from tests.cli.program import PLAIN, TOP, command, iotop
from tests.machines import machine

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount")
BOUND = 'mount --make-rprivate / && mkdir -p "$1/proc" && mount --rbind /proc "$1/proc" && shift && '
INSIDE = 'exec unshare --pid --fork --mount-proc "$@"'
"""Runs a command in a pid namespace with a new /proc. The host's /proc is mounted beside it, as by docker -v."""


def snapshot_of(*flags: str, **environment: str) -> dict[str, object]:
    """The result of one ``snapshot --json``."""
    done = iotop(*flags, "snapshot", "--json", "-d", "0.2", "--no-smart", **environment)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def flags_of(folder: Path) -> tuple[str, ...]:
    """The flags that select the trees in this folder."""
    return ("--procfs", str(folder / "proc"), "--sysfs", str(folder / "sys"))


@pytest.mark.parametrize("name", ["made-gpu-server", "made-container", "vm-6.18"])
def test_another_machines_trees_are_shown_without_data_of_ours(name: str, tmp_path: Path) -> None:
    machine(name, tmp_path)
    shown = snapshot_of(*flags_of(tmp_path))
    devices = {line["name"] for line in shown["devices"]}  # type: ignore[attr-defined]
    listed = {line.split()[2] for line in (tmp_path / "proc/diskstats").read_text().splitlines()}
    assert devices
    assert devices <= listed
    assert shown["gpus"] == []
    assert (
        snapshot_of(IOTOP_AI_PROCFS=flags_of(tmp_path)[1], IOTOP_AI_SYSFS=flags_of(tmp_path)[3])["devices"]
        == shown["devices"]
    )


@pytest.mark.parametrize("word", ["--once", "snapshot", "status"])
def test_garbage_in_a_tree_gives_a_reason_and_not_a_traceback(word: str, tmp_path: Path) -> None:
    """The trees have names that control a terminal, numbers that are too large, cut lines, pipes and endless files."""
    machine("vm-6.18", tmp_path)
    proc = tmp_path / "proc"
    (proc / "meminfo").write_bytes(b"MemTotal: " + b"9" * 5000 + b" kB\n")
    disks = b"   8 0 s\x1b]0;owned\x07da 1 2 3 4 5 6 7 8 9 10 11\n   8 16 sdb" + b" 9" * 5 + b" -1 x\n"
    (proc / "diskstats").write_bytes(disks + b"   8 32 sdc" + b" 18446744073709551616" * 17 + b"\n")
    (proc / "77").mkdir(exist_ok=True)
    (proc / "77" / "stat").write_bytes(b"77 (x) y) \x1b[2J) S " + b" ".join([b"9" * 30] * 60))
    for name in ("vmstat", "net/dev"):
        (proc / name).parent.mkdir(exist_ok=True)
        (proc / name).unlink(missing_ok=True)
        os.mkfifo(proc / name)
    (proc / "mdstat").unlink(missing_ok=True)
    (proc / "mdstat").symlink_to("/dev/zero")
    done = iotop(word, *flags_of(tmp_path), "--no-smart")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout
    assert "\x1b" not in done.stdout
    assert "\x07" not in done.stdout


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (("--procfs", "/nowhere"), "--procfs /nowhere: no such directory; mount the host's /proc there"),
        (("--procfs", "/usr"), "--procfs /usr: it contains neither stat nor diskstats; give a mounted /proc"),
        (("--sysfs", "/proc"), "--sysfs /proc: it contains neither block nor class; give a mounted /sys"),
    ],
)
def test_an_invalid_directory_gives_a_one_line_error(flags: tuple[str, ...], why: str) -> None:
    done = iotop(*flags, "snapshot")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"usage: {why}\n")


def test_paths_of_our_own_trees_are_recognised() -> None:
    assert root_from_options("/proc", "/sys").live
    assert root_from_options("", "").live
    with pytest.raises(UsageError, match="no such directory"):
        root_from_options("/proc/stat", "")


def test_nothing_is_changed_through_another_machines_trees(tmp_path: Path) -> None:
    machine("vm-6.18", tmp_path)
    for arguments in (("cache", "drop"), ("stage", str(tmp_path), str(tmp_path / "there"))):
        done = iotop(*flags_of(tmp_path), *arguments)
        assert done.returncode == 2
        assert done.stderr.startswith(f"usage: {READ_ONLY} does not allow ")
    done = iotop(*flags_of(tmp_path), "--path", str(tmp_path), "snapshot")
    assert done.returncode == 2
    assert "use --device sda" in done.stderr


def test_a_pid_of_a_captured_tree_is_never_taken_for_ours(tmp_path: Path) -> None:
    machine("vm-6.18", tmp_path)
    root = root_from_options(str(tmp_path / "proc"), str(tmp_path / "sys"))
    assert (root.live, root.foreign, root.own_pid) == (False, True, -1)
    assert root.join("dev/kmsg") == f"{tmp_path}/dev/kmsg"
    assert Root().own_pid == os.getpid()


def test_a_pipe_in_a_tree_does_not_block(tmp_path: Path) -> None:
    machine("vm-6.18", tmp_path)
    for name in ("diskstats", "meminfo", "stat", "loadavg"):
        (tmp_path / "proc" / name).unlink()
        os.mkfifo(tmp_path / "proc" / name)
    shown = snapshot_of(*flags_of(tmp_path))
    readings = shown["system"]["readings"]  # type: ignore[index]
    assert {readings[name]["status"] for name in ("block", "cpu", "memory")} == {"failed"}


@needs_root
def test_a_container_shows_the_hosts_processes_and_mounts(tmp_path: Path) -> None:
    words = command("--procfs", f"{tmp_path}/proc", "snapshot", "--json", "-d", "0.5", "--no-smart")
    with subprocess.Popen(["sh", "-c", "while :; do :; done"]) as busy:
        try:
            done = subprocess.run(
                ["unshare", "-m", "sh", "-c", BOUND + INSIDE, "sh", str(tmp_path), *words],
                cwd=TOP,
                env=PLAIN,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
        finally:
            busy.kill()
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert busy.pid in {line["pid"] for line in shown["processes"]}
    assert shown["system"]["host"]["container"] == ""
    mounts = {mount["mount"]: mount for mount in shown["system"]["filesystems"]}
    if os.path.exists("/proc/1/root/."):  # in a VM even root may be refused access to the root folder of init
        assert mounts["/"]["total_bytes"] == os.statvfs("/").f_blocks * os.statvfs("/").f_frsize
    else:
        assert mounts["/"]["status"] == "denied"
    assert shown["system"]["self"]["pid"] > busy.pid


def test_the_reason_for_read_only_is_shown() -> None:
    shown = iotop("config", "print", IOTOP_AI_PROCFS="/host/proc").stdout
    assert re.search(r"^readonly = true +# environment IOTOP_AI_PROCFS$", shown, re.MULTILINE)
    assert "readonly = false" in iotop("config", "print", IOTOP_AI_PROCFS="/proc/", IOTOP_AI_SYSFS="/sys").stdout
