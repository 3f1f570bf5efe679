"""``iotop-ai cache`` as its users run it."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from pathlib import Path

import pytest

from iotop_ai.cli.commands.dataset import cache
from iotop_ai.cli.config.common import READ_ONLY
from iotop_ai.collectors.machine.page_cache import PageCache, Resident
from tests.cli.program import PLAIN, TOP, command, iotop, iotop_started
from tests.rigs.nobody import as_nobody, why_not_nobody

MIB = 1 << 20
needs_nobody = pytest.mark.skipif(bool(why_not_nobody()), reason=why_not_nobody() or "there")
SOCKET = {"IOTOP_AI_SOCKET": "/nonexistent/socket"}


def test_an_evicted_dataset_is_no_longer_in_memory(disk_folder: Path, tmp_path: Path) -> None:
    data = disk_folder / "data set"
    data.mkdir()
    (data / "a").write_bytes(os.urandom(4 * MIB))
    before = iotop_started("cache", "status", str(data), "--json")
    assert before.returncode == 0, before.stderr
    printed = json.loads(before.stdout)
    assert (printed["files"], printed["resident_ratio"], printed["fits"]) == (1, 1.0, True)
    out = iotop("cache", "evict", str(data), **SOCKET)
    assert out.returncode == 0
    assert out.stdout == f"evicted 1 file of {data}: 4 MB -> 0 B in memory\n"
    after = iotop("cache", "status", str(data))
    assert "in memory: 0 % (0 B)" in after.stdout
    assert "fits: " in after.stdout


def test_an_eviction_of_unknown_effect_gives_exit_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a").write_bytes(b"x")
    monkeypatch.setattr(PageCache, "resident", lambda *_: None)
    monkeypatch.setattr(cache, "mark_everywhere", lambda _: None)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    args = argparse.Namespace(cache="evict", path=str(tmp_path / "a"), json=False)
    assert cache.run(args) == 2
    assert "visible only to their owner" in capsys.readouterr().out


def test_files_of_unknown_state_are_not_counted_as_evicted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for name in ("a", "b"):
        (data / name).write_bytes(b"x")
    original = PageCache.resident

    def resident_only_of_a(self: PageCache, handle: int) -> Resident | None:
        return original(self, handle) if os.readlink(f"/proc/self/fd/{handle}").endswith("/a") else None

    monkeypatch.setattr(PageCache, "resident", resident_only_of_a)
    monkeypatch.setattr(cache, "mark_everywhere", lambda _: None)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert cache.run(argparse.Namespace(cache="evict", path=str(data), json=False)) == 2
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith("in memory; unknown for 1 of them")
    assert second.startswith("? 1 file: cached part visible only to its owner")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount")
def test_a_mounted_folder_of_a_dataset_is_counted_as_left_out(disk_folder: Path) -> None:
    data = disk_folder / "data"
    (data / "sub").mkdir(parents=True)
    (data / "a").write_bytes(b"x")
    script = 'mount -t tmpfs none "$0/sub" && echo x > "$0/sub/b" && exec "$@"'
    line = ["unshare", "-m", "sh", "-c", script, str(data), *command("cache", "evict", str(data))]
    environment = {**PLAIN, **SOCKET, "XDG_STATE_HOME": str(disk_folder / "state")}
    done = subprocess.run(line, cwd=TOP, env=environment, capture_output=True, text=True, check=False)
    if "mount" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 1
    assert done.stdout.splitlines()[1:] == ["1 folder on other filesystems left out"]


def test_a_dataset_larger_than_memory_does_not_fit(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(4 << 40)
    done = iotop("cache", "status", str(tmp_path))
    assert done.returncode == 1
    assert "does not fit" in done.stdout


@pytest.mark.parametrize("what", ["status", "evict"])
def test_a_missing_path_is_an_error(what: str) -> None:
    done = iotop("cache", what, "/nowhere/at all\x1b[31m")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "No such file" in done.stderr
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize("what", ["status", "evict"])
def test_the_error_for_a_device_says_what_to_give_instead(what: str) -> None:
    done = iotop("cache", what, "/dev/null")
    assert (done.returncode, done.stdout) == (2, "")
    assert "/dev/null: it is a device, pipe or socket; give a folder or a regular file" in done.stderr
    assert done.stderr.count("\n") == 1


def test_without_confirmation_nothing_is_dropped() -> None:
    done = iotop("cache", "drop")
    assert done.returncode == 2
    # The message for a user who is not root begins with "not done".
    assert done.stderr.splitlines()[-1].split(":")[0] in ("usage", "not done")
    assert "--yes" in done.stderr or "needs root" in done.stderr


@pytest.mark.parametrize("what", [("drop", "--yes"), ("evict", "/etc/hostname")])
def test_readonly_changes_nothing(what: tuple[str, ...]) -> None:
    assert iotop("cache", *what, IOTOP_AI_READONLY="1").returncode == 2
    done = iotop("--readonly", "cache", *what)
    assert done.returncode == 2
    assert done.stderr == f"usage: {READ_ONLY} does not allow cache {what[0]}\n"


@pytest.mark.parametrize("arguments", [("drop", "--level", "4"), ("drop", "--level", "x"), ("flush",), ()])
def test_bad_arguments_give_a_one_line_error(arguments: tuple[str, ...]) -> None:
    done = iotop("cache", *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: ")
    assert done.stderr.count("\n") == 1


@needs_nobody
def test_an_ordinary_user_gets_the_remedy_and_a_way_that_needs_no_root(tmp_path: Path) -> None:
    done = subprocess.run(
        as_nobody(*command("cache", "drop", "--yes")),
        cwd=TOP,
        env={**PLAIN, "XDG_STATE_HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("not done: needs root")
    assert "sysctl -w vm.drop_caches" in line
    assert "iotop-ai cache evict PATH" in line


@pytest.mark.alone
@pytest.mark.skipif(
    os.geteuid() != 0 or not os.access("/proc/sys/vm/drop_caches", os.W_OK), reason="needs root on a host of its own"
)
def test_root_can_drop_caches_only_once_a_minute(tmp_path: Path) -> None:
    environment = {"XDG_STATE_HOME": str(tmp_path), **SOCKET}
    done = iotop("cache", "drop", "--level", "2", "--yes", "--json", **environment)
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    assert printed["level"] == 2
    assert printed["before"]["cached_bytes"] > 0
    again = iotop("cache", "drop", "--level", "2", "--yes", **environment)
    assert again.returncode == 2
    assert "less than a minute ago" in again.stderr
    log = (tmp_path / "iotop-ai" / "audit.jsonl").read_text().splitlines()
    assert [json.loads(line)["action"] for line in log] == ["drop-caches", "drop-caches"]
