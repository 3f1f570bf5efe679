"""``iotop-ai stage`` as its users run it."""

from __future__ import annotations

import errno
import json
import os
import subprocess
from pathlib import Path

import pytest

from iotop_ai.cli.config.common import READ_ONLY
from tests.cli.program import PLAIN, TOP, command, iotop, iotop_here, iotop_started

MIB = 1 << 20
SOCKET = {"IOTOP_AI_SOCKET": "/nonexistent/socket"}


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    top = tmp_path / "data set"
    top.mkdir()
    for i in range(5):
        (top / f"{i}.bin").write_bytes(os.urandom(MIB))
    return top


@pytest.fixture
def fast(tmp_path: Path) -> Path:
    folder = tmp_path / "fast"
    folder.mkdir()
    return folder


def test_only_the_new_path_is_printed_and_a_second_run_copies_nothing(
    dataset: Path, fast: Path, tmp_path: Path
) -> None:
    environment = {"XDG_STATE_HOME": str(tmp_path / "state"), **SOCKET}
    done = iotop_started("stage", str(dataset), str(fast), "--yes", "--no-measure", **environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{fast}/data set\n"
    assert "verified: the size of 5 files, the content of 5 files, 5 MB" in done.stderr
    assert [path.read_bytes() for path in sorted(Path(done.stdout.strip()).iterdir())] == [
        path.read_bytes() for path in sorted(dataset.iterdir())
    ]
    log = [json.loads(line) for line in (tmp_path / "state/iotop-ai/audit.jsonl").read_text().splitlines()]
    assert [(line["action"], line["result"]) for line in log] == [
        ("stage", "asked"),
        ("stage", f"copied: 5 files, {5 * MIB} B"),
    ]
    # the first run left nothing to copy, so there is nothing to confirm
    again = iotop("stage", str(dataset), str(fast), "--quick", "--json", **environment)
    assert again.returncode == 0, again.stderr
    printed = json.loads(again.stdout)
    assert printed["path"] == f"{fast}/data set"
    assert printed["plan"]["there_files"] == 5
    assert printed["verified"]["wrong"] == 0


def test_a_name_with_odd_bytes_is_printed_as_it_is(fast: Path, tmp_path: Path) -> None:
    source = os.fsdecode(os.fsencode(tmp_path) + b"/odd\xff\x1b[31m")
    Path(source).mkdir()
    line = command("stage", source, str(fast), "--yes", "--no-measure")
    environment = {**PLAIN, **SOCKET, "XDG_STATE_HOME": str(tmp_path / "state")}
    done = subprocess.run(line, cwd=TOP, env=environment, stdout=subprocess.PIPE, check=True)
    assert done.stdout == os.fsencode(fast) + b"/odd\xff\x1b[31m\n"
    printed = subprocess.run([*line, "--json"], cwd=TOP, env=environment, stdout=subprocess.PIPE, check=True).stdout
    assert os.fsencode(json.loads(printed)["path"]) + b"\n" == done.stdout


def test_a_source_or_target_that_disappears_after_the_copy_gives_one_line_with_the_next_step(
    dataset: Path, fast: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), ".")

    monkeypatch.setattr("iotop_ai.cli.commands.dataset.stage.verify", fail)
    done = iotop_here("stage", str(dataset), str(fast), "--yes", "--no-measure")
    assert (done.returncode, done.stdout) == (2, "")
    why = "not verified: Stale file handle; run the same command again to verify it"
    assert done.stderr.splitlines()[-1] == f"unknown: {fast}/data set: {why}"


def test_a_dry_run_measures_but_copies_nothing(dataset: Path, fast: Path) -> None:
    done = iotop("stage", str(dataset), str(fast), "--dry-run", "--json", "--anyway")
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    assert printed["speed"]["source_read"] > 0
    assert printed["path"] is None
    assert "source reads " in done.stderr
    assert not list(fast.iterdir())


def test_a_target_on_the_same_disk_is_not_worth_a_copy(dataset: Path, fast: Path) -> None:
    done = iotop("stage", str(dataset), str(fast), "--yes", **SOCKET)
    assert (done.returncode, done.stdout) == (1, "")
    assert "not copied: same disk, no gain: both are on the same filesystem; use --anyway to copy" in done.stderr
    assert not list(fast.iterdir())


def test_nothing_is_copied_in_read_only_mode_or_without_confirmation(dataset: Path, fast: Path) -> None:
    done = iotop("stage", str(dataset), str(fast), "--no-measure")
    assert done.returncode == 2
    assert "usage: cannot ask for confirmation: stdin is not a terminal" in done.stderr
    done = iotop("--readonly", "stage", str(dataset), str(fast), "--yes")
    assert (done.returncode, done.stderr) == (2, f"usage: {READ_ONLY} does not allow staging\n")
    assert not list(fast.iterdir())


def test_a_source_of_folders_alone_is_not_copied_without_confirmation(tmp_path: Path, fast: Path) -> None:
    (tmp_path / "empty/sub").mkdir(parents=True)
    stage = ("stage", str(tmp_path / "empty"), str(fast), "--no-measure")
    done = iotop(*stage, **SOCKET)
    assert (done.returncode, done.stdout) == (2, "")
    assert "usage: cannot ask for confirmation: stdin is not a terminal" in done.stderr
    assert not list(fast.iterdir())
    assert iotop(*stage, "--yes", **SOCKET).returncode == 0
    assert (fast / "empty/sub").is_dir()
    assert iotop(*stage, **SOCKET).returncode == 0  # nothing is left, so there is nothing to confirm


def test_differing_files_are_not_replaced_without_a_flag(dataset: Path, fast: Path) -> None:
    (fast / "data set").mkdir()
    (fast / "data set" / "3.bin").write_bytes(b"mine")
    done = iotop("stage", str(dataset), str(fast), "--yes", "--no-measure", **SOCKET)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "not copied: 3.bin differs; --update replaces it" in done.stderr
    assert (fast / "data set" / "3.bin").read_bytes() == b"mine"
    assert iotop("stage", str(dataset), str(fast), "--yes", "--no-measure", "--update", **SOCKET).returncode == 0


def test_a_copy_with_different_content_is_copied_again_with_a_flag(dataset: Path, fast: Path) -> None:
    copy = fast / "data set/3.bin"
    copy.parent.mkdir()
    copy.write_bytes(bytes(MIB))
    original = (dataset / "3.bin").stat()
    os.utime(copy, ns=(original.st_atime_ns, original.st_mtime_ns))
    stage = ("stage", str(dataset), str(fast), "--yes", "--no-measure")
    done = iotop(*stage, **SOCKET)
    assert done.returncode == 1
    assert "differ, the first: 3.bin: different content; --update copies it again" in done.stderr
    done = iotop(*stage, **SOCKET)
    assert (done.returncode, copy.read_bytes()) == (1, bytes(MIB))
    assert "not copied: 3.bin differs; --update replaces it" in done.stderr
    assert iotop(*stage, "--update", **SOCKET).returncode == 0
    assert copy.read_bytes() == (dataset / "3.bin").read_bytes()


def test_a_changed_link_is_replaced_with_a_flag_and_a_confirmation(dataset: Path, fast: Path) -> None:
    (dataset / "latest").symlink_to("1.bin")
    stage = ("stage", str(dataset), str(fast), "--no-measure")
    assert iotop(*stage, "--yes", **SOCKET).returncode == 0
    (dataset / "latest").unlink()
    (dataset / "latest").symlink_to("2.bin")
    done = iotop(*stage, "--yes", **SOCKET)
    assert (done.returncode, done.stdout) == (1, "")
    assert "not copied: latest differs; --update replaces it" in done.stderr
    done = iotop(*stage, "--update", **SOCKET)
    assert done.returncode == 2
    assert "usage: cannot ask for confirmation" in done.stderr
    assert os.readlink(fast / "data set" / "latest") == "1.bin"
    done = iotop(*stage, "--update", "--yes", **SOCKET)
    assert done.returncode == 0, done.stderr
    assert os.readlink(fast / "data set" / "latest") == "2.bin"
    assert iotop(*stage, **SOCKET).returncode == 0  # nothing is left, so there is nothing to confirm


@pytest.mark.parametrize("arguments", [(), ("/tmp",), ("/nowhere", "/tmp"), ("/etc/hostname", "/nowhere")])
def test_invalid_usage_gives_a_one_line_error(arguments: tuple[str, ...]) -> None:
    done = iotop("stage", *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount")
def test_a_copy_into_memory_needs_enough_space_there(dataset: Path, fast: Path) -> None:
    for size, code in (("64m", 0), ("2m", 1)):
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(fast)]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            pytest.skip("mounting is not allowed here")
        try:
            done = iotop("stage", str(dataset), str(fast), "--yes", "--anyway", **SOCKET)
            assert done.returncode == code, done.stderr
            assert "in memory" in done.stderr
            assert ("not copied: it does not fit" in done.stderr) == bool(code)
            assert bool(list(fast.iterdir())) == (not code)
        finally:
            subprocess.run(["umount", str(fast)], check=True)
