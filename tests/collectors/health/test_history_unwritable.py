"""A history that can be read but not written: it is still used, and the note says why the reading is not stored."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotop_ai.collectors.health.history import DiskHistory, HealthHistory, file_name, history_text
from iotop_ai.model.health.growth import DAY_S
from iotop_ai.model.health.rules import with_verdict
from iotop_ai.model.health.smart import HealthPoint, SmartState
from tests.collectors.health.test_history import NOW, STATE, At

NVME = SmartState("/dev/nvme0", "nvme", "Model", "SN1", "F", "PASS", "ok", (), media_errors=40)
FILE = file_name("SN1", "Model")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A state folder with a history of one day."""
    folder = tmp_path / "state"
    HealthHistory(folder, At(NOW - DAY_S)).with_history(NVME._replace(media_errors=1))
    return folder


def read_again(folder: Path) -> SmartState:
    return with_verdict(HealthHistory(folder, At()).with_history(NVME))


def assert_is_judged_but_not_stored(folder: Path, why: str) -> None:
    state = read_again(folder)
    assert state.history_note == f"this reading is not stored: {folder}/health: {why}"
    assert state.earlier is not None
    assert state.earlier.media_errors == 1
    assert len(state.past) == 2
    assert (state.severity, state.judgements[0].rule) == ("critical", "media-grows")


def test_growth_is_known_without_the_lock(folder: Path) -> None:
    lock = folder / "health/.lock"
    lock.unlink()
    lock.mkdir()
    assert_is_judged_but_not_stored(folder, "Is a directory")


def test_growth_is_known_if_the_file_cannot_be_written(folder: Path) -> None:
    (folder / f"health/.{FILE}.{os.getpid()}.new").mkdir()
    assert_is_judged_but_not_stored(folder, f".{FILE}.{os.getpid()}.new is in the way")


def test_a_file_with_an_older_name_is_used_even_if_it_cannot_be_renamed(folder: Path) -> None:
    (folder / "health" / FILE).rename(folder / "health" / file_name("SN1"))
    lock = folder / "health/.lock"
    lock.unlink()
    lock.mkdir()
    assert_is_judged_but_not_stored(folder, "Is a directory")
    assert (folder / "health" / file_name("SN1")).exists()


def test_a_corrupt_file_that_cannot_be_set_aside_is_not_overwritten(folder: Path) -> None:
    (folder / "health" / FILE).write_bytes(b"{}")
    aside = folder / f"health/{FILE}.unreadable-{NOW}"
    aside.mkdir()
    state = read_again(folder)
    assert state.history_note == "the history could not be read (another format)"
    assert (folder / "health" / FILE).read_bytes() == b"{}"


@contextlib.contextmanager
def small_filesystem(folder: Path) -> Iterator[Path]:
    """A mounted filesystem of 64 KiB with a history of one day."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(folder)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        state = folder / "state"
        point = HealthPoint(NOW - DAY_S, media_errors=1)
        HealthHistory(state, At(NOW - DAY_S)).with_history(STATE._replace(serial="another"))
        (state / "health" / FILE).write_bytes(history_text(DiskHistory("SN1", "Model", (point,))))
        yield state
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_growth_is_known_on_a_full_disk(tmp_path: Path) -> None:
    with small_filesystem(tmp_path / "small") as folder:
        with (tmp_path / "small/filler").open("wb", buffering=0) as filler, contextlib.suppress(OSError):
            while True:
                filler.write(b"x" * 4096)
        assert_is_judged_but_not_stored(folder, "No space left on device")
        assert len(list((folder / "health").iterdir())) == 3


@pytest.mark.parametrize("mode", [0o700, 0o755])
def test_growth_is_known_on_a_read_only_disk(tmp_path: Path, mode: int) -> None:
    with small_filesystem(tmp_path / "small") as folder:
        folder.chmod(mode)
        subprocess.run(["mount", "-o", "remount,ro", str(tmp_path / "small")], check=True)
        assert_is_judged_but_not_stored(folder, "Read-only file system")
