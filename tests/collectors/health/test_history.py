"""The history of disks: its content, kills and other monitors while it is written, and broken files."""

from __future__ import annotations

import fcntl
import json
import os
import random
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iotop_ai.collectors.health.history import (
    LEAST_INTERVAL_S,
    DiskHistory,
    HealthHistory,
    file_name,
    history_text,
    parse_history,
    thin_out,
    worth_keeping,
)
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.state.folder import open_folder, state_folder
from iotop_ai.model.clean import clean
from iotop_ai.model.health.growth import DAY_S
from iotop_ai.model.health.smart import HealthPoint, SmartState
from tests.examples import quick_or
from tests.rigs.without_flock import WITHOUT_FLOCK

TOP = Path(__file__).resolve().parents[3]
NOW = 1_790_000_000
STATE = SmartState("/dev/sda", "ata", "Model", "SN1", "F", "PASS", "ok", (), temperature_celsius=40, pending=0)
KILLS = 100
WRITER = """
import sys
from pathlib import Path
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.health.history import HealthHistory
from iotop_ai.model.health.smart import SmartState
history = HealthHistory(Path(sys.argv[1]), Clock())
state = SmartState("/dev/sda", "ata", "Model", "SN1", "F", "PASS", "ok", ())
first, step, count = (int(word) for word in sys.argv[2:5])
print("ready", flush=True)
for n in range(count):
    kept = history.with_history(state._replace(pending=first + step * n))
    assert not kept.history_note, kept.history_note
"""


class At(Clock):
    """A clock whose wall time changes only when a test sets it."""

    def __init__(self, wall_s: int = NOW) -> None:
        self.wall_s = wall_s

    def wall_ns(self) -> int:
        return self.wall_s * 1_000_000_000


@pytest.fixture
def clock() -> At:
    return At()


@pytest.fixture
def history(tmp_path: Path, clock: At) -> HealthHistory:
    return HealthHistory(tmp_path / "state", clock)


def writer(folder: Path, first: int, step: int, count: int) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", WRITER, str(folder), str(first), str(step), str(count)]
    return subprocess.Popen(argv, cwd=TOP, stdout=subprocess.PIPE, text=True)


def test_growth_is_known_across_restarts_and_renames(tmp_path: Path, clock: At) -> None:
    first = HealthHistory(tmp_path / "state", clock).with_history(STATE)
    assert (first.earlier, len(first.past), first.read_wall_s, first.history_note) == (None, 1, NOW, "")
    clock.wall_s += DAY_S
    # In another monitor the disk has another name. Of two readings, the one nearer to 24 h ago is the basis of growth.
    second = HealthHistory(tmp_path / "state", clock).with_history(STATE._replace(device="/dev/sdq", pending=2))
    assert second.earlier is not None
    assert (second.earlier.wall_s, second.earlier.pending) == (NOW, 0)
    assert (first.recent, second.recent) == (None, None)
    clock.wall_s += 300
    third = HealthHistory(tmp_path / "state", clock).with_history(STATE._replace(pending=2))
    assert third.earlier == second.earlier
    assert third.recent is not None
    assert (third.recent.wall_s, third.recent.pending) == (NOW + DAY_S, 2)
    assert [point.wall_s for point in third.past] == [NOW, NOW + DAY_S, NOW + DAY_S + 300]


def test_each_serial_number_has_a_private_file(history: HealthHistory) -> None:
    for serial in ("SN1", "SN 2/../x", ".", "SN1\u00e9", "x" * 200):
        history.with_history(STATE._replace(serial=serial))
    files = [path for path in history.folder.iterdir() if path.suffix == ".json"]
    assert len(files) == 5
    assert all(path.parent == history.folder for path in files)
    assert {stat.S_IMODE(path.stat().st_mode) for path in history.folder.iterdir()} == {0o600}
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in (history.folder, history.folder.parent)} == {0o700}
    assert {known.serial for known in history.all_histories()} == {"SN1", "SN 2/../x", ".", "SN1\u00e9", "x" * 200}
    known = history.history_of(STATE._replace(serial="SN 2/../x"))
    assert known is not None
    assert (known.model, len(known.points)) == ("Model", 1)
    assert history.history_of(STATE._replace(serial="never seen")) is None


BRIDGES = {
    "another model": (STATE._replace(serial="123456789012"), STATE._replace(serial="123456789012", model="Other")),
    "another name": (STATE._replace(wwn="5000c500a1"), STATE._replace(wwn="5000c500a2")),
    # A disk without a world-wide name is not taken for the disk of the same serial number that has one.
    "one name": (STATE._replace(wwn="5000c500a1"), STATE),
}


@pytest.mark.parametrize("disks", BRIDGES.values(), ids=BRIDGES)
def test_disks_with_the_same_serial_number_have_separate_histories(
    history: HealthHistory, clock: At, disks: tuple[SmartState, SmartState]
) -> None:
    first, second = disks
    history.with_history(first._replace(pending=0))
    history.with_history(second._replace(pending=900))
    clock.wall_s += DAY_S
    again = [history.with_history(first._replace(pending=1)), history.with_history(second._replace(pending=901))]
    assert [one.earlier and one.earlier.pending for one in again] == [0, 900]
    every = history.all_histories()
    assert [len(known.points) for known in every] == [2, 2]
    assert {(known.serial, known.model, known.wwn) for known in every} == {(d.serial, d.model, d.wwn) for d in disks}


def test_a_file_of_an_earlier_version_is_used_for_the_disk_of_its_model(history: HealthHistory, clock: At) -> None:
    history.with_history(STATE._replace(serial="another"))
    old = history.folder / file_name("SN1")
    old.write_bytes(history_text(DiskHistory("SN1", "Model", (HealthPoint(NOW - DAY_S, pending=4),))))
    stranger = STATE._replace(model="Other")
    assert history.history_of(stranger) is None
    assert history.with_history(stranger).earlier is None
    assert old.exists()
    known = history.history_of(STATE)
    assert known is not None
    assert [point.pending for point in known.points] == [4]
    state = history.with_history(STATE)
    assert state.earlier is not None
    assert state.earlier.pending == 4
    assert not old.exists()
    # The world-wide name becomes known only later.
    named = history.with_history(STATE._replace(wwn="5000c500a1", pending=5))
    assert named.earlier is not None
    assert named.earlier.pending == 4
    assert [(known.serial, known.model, known.wwn) for known in history.all_histories()] == [
        ("SN1", "Model", "5000c500a1"), ("SN1", "Other", ""), ("another", "Model", ""),
    ]  # fmt: skip


def test_a_disk_without_a_serial_number_has_no_history(history: HealthHistory) -> None:
    state = history.with_history(STATE._replace(serial=""))
    assert state.history_note == "no history: the disk reports no serial number"
    assert not history.folder.exists()


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\x00" * 300,
        b"[" * 100_000,
        b"{}",
        b'{"format": 2, "fields": [], "points": []}',
        b'{"format": 1, "serial": "SN1", "model": "M", "fields": ["wall_s"], "points": [["x"]]}',
        b'{"format": 1, "serial": "SN1", "model": "M", "fields": ["wall_s"], "points": [[1, 2]]}',
        b'{"format": 1, "serial": "SN1", "model": "M", "fields": ["wall_s", "pending"], "points": [[1, 2.5]]}',
        b'{"format": 1, "serial": "SN1", "model": "M", "fields": ["pending"], "points": [[1]]}',
    ],
)
def test_a_corrupt_file_is_set_aside_and_reported(history: HealthHistory, clock: At, text: bytes) -> None:
    history.with_history(STATE)
    file = history.folder / file_name("SN1", "Model")
    file.write_bytes(text)
    state = history.with_history(STATE._replace(pending=4))
    aside = history.folder / f"SN1+Model.json.unreadable-{NOW}"
    assert f"set aside as {aside}" in state.history_note
    assert aside.read_bytes() == text
    assert state.earlier is None
    clock.wall_s += 60
    again = history.with_history(STATE._replace(pending=5))
    assert (again.history_note, again.earlier and again.earlier.pending) == ("", 4)


def test_another_users_folder_and_a_link_are_not_used(tmp_path: Path, clock: At) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "state").symlink_to(real)
    state = HealthHistory(tmp_path / "state", clock).with_history(STATE)
    assert state.history_note.startswith(f"no history: {tmp_path}/state/health: ")
    assert list(real.iterdir()) == []
    if os.geteuid() == 0:
        other = tmp_path / "other"
        other.mkdir()
        os.chown(other, 12345, 12345)
        assert "another user" in HealthHistory(other, clock).with_history(STATE).history_note


def test_a_folder_that_others_can_read_is_made_private(tmp_path: Path) -> None:
    folder = tmp_path / "wide"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    os.close(open_folder(folder))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_the_state_folder_has_the_documented_path() -> None:
    assert state_folder({"XDG_STATE_HOME": "/var/x"}) == Path("/var/x/iotop-ai")
    assert state_folder({"XDG_STATE_HOME": "relative", "HOME": "/nowhere"}).parts[-3:] == (
        ".local",
        "state",
        "iotop-ai",
    )


def test_a_stopped_monitor_that_has_the_lock_does_not_block_others(history: HealthHistory) -> None:
    history.with_history(STATE)
    lock = os.open(history.folder / ".lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    began = time.monotonic()
    state = history.with_history(STATE._replace(pending=7))
    assert time.monotonic() - began < 4
    assert "another monitor has locked the history" in state.history_note
    assert state.earlier is None or state.earlier.pending == 0
    file = history.folder / file_name("SN1", "Model")
    raw = file.read_bytes()
    file.write_bytes(b"{}")
    assert history.with_history(STATE).history_note == "the history could not be read (another format)"
    file.write_bytes(raw)
    os.close(lock)
    assert history.with_history(STATE._replace(pending=8)).history_note == ""


def test_a_clock_that_is_set_back_is_neither_an_error_nor_growth(history: HealthHistory, clock: At) -> None:
    history.with_history(STATE._replace(pending=3))
    clock.wall_s -= 10 * DAY_S
    state = history.with_history(STATE._replace(pending=9))
    assert state.earlier is None
    assert [point.wall_s for point in state.past] == [clock.wall_s]


def test_only_some_readings_are_worth_keeping() -> None:
    last = HealthPoint(NOW, 100, 40, pending=1)
    assert worth_keeping((), last)
    assert not worth_keeping((last,), last._replace(wall_s=NOW + 60, temperature_celsius=45, power_on_hours=101))
    assert worth_keeping((last,), last._replace(wall_s=NOW + 60, pending=2))
    assert worth_keeping((last,), last._replace(wall_s=NOW + LEAST_INTERVAL_S))


def test_a_history_of_years_stays_small() -> None:
    points: tuple[HealthPoint, ...] = ()
    times = range(NOW - 3 * 365 * DAY_S, NOW, 6 * 3600)
    for wall_s in times:
        points = thin_out((*points, HealthPoint(wall_s, 1, 40)), wall_s)
    assert points[-1].wall_s == times[-1]
    assert points[0].wall_s < NOW - 1000 * DAY_S
    assert len(points) < 900
    assert len(history_text(DiskHistory("S", "M", points))) < 100_000
    # There is always a reading from about a day ago.
    assert any(abs(times[-1] - DAY_S - point.wall_s) <= 6 * 3600 for point in points)


figures = st.none() | st.integers(-(2**63), 2**63)
point_lists = st.lists(
    st.builds(HealthPoint, st.integers(0, 2**40), *[figures] * (len(HealthPoint._fields) - 1)), max_size=5
)


@settings(max_examples=quick_or(12))
@given(st.text(max_size=20).filter(lambda text: clean(text) == text), point_lists)
def test_a_history_survives_writing_and_reading(serial: str, points: list[HealthPoint]) -> None:
    known = DiskHistory(serial, "M", tuple(sorted(points, key=lambda point: point.wall_s)))
    assert parse_history(history_text(known)) == known


@given(st.binary(max_size=200))
def test_a_file_of_any_content_raises_only_value_error(raw: bytes) -> None:
    try:
        parse_history(raw)
    except ValueError:
        return


def test_two_monitors_lose_no_reading(tmp_path: Path) -> None:
    """Each monitor writes different counts, so every reading is worth keeping."""
    count = 40
    both = [writer(tmp_path, first, 2, count) for first in (1, 2)]
    assert [one.wait(60) for one in both] == [0, 0]
    known = HealthHistory(tmp_path, Clock()).history_of(STATE)
    assert known is not None
    assert sorted(point.pending or 0 for point in known.points) == list(range(1, 2 * count + 1))
    assert not [path for path in (tmp_path / "health").iterdir() if path.name.endswith(".new")]


@pytest.mark.parametrize("kills", [10, pytest.param(KILLS, marks=pytest.mark.slow)])
def test_a_kill_in_the_middle_of_a_write_loses_at_most_that_write(tmp_path: Path, kills: int) -> None:
    rng = random.Random(7)
    history = HealthHistory(tmp_path, Clock())
    history.with_history(STATE._replace(pending=0))
    file = history.folder / file_name("SN1", "Model")
    first = 1

    def until(seen: Callable[[], bool]) -> None:
        end = time.monotonic() + 60
        while not seen():
            assert time.monotonic() < end
            time.sleep(0.002)

    for number in range(kills):
        child = writer(tmp_path, first, 1, 1_000_000)
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        if number % 2:  # so that some kills hit after a write, and some maybe before the first
            until(lambda first=first: (parse_history(file.read_bytes()).points[-1].pending or 0) >= first)  # type: ignore[misc]
        time.sleep(rng.uniform(0.0, 0.02))
        child.send_signal(signal.SIGKILL)
        assert child.wait(10) == -signal.SIGKILL
        child.stdout.close()
        known = parse_history(file.read_bytes())  # the file is whole, whenever the kill came
        assert known.serial == "SN1"
        assert known.points
        assert known.points[-1].pending is not None
        first = known.points[-1].pending + 1
    assert first > 1
    assert history.with_history(STATE._replace(pending=first)).history_note == ""
    left = sorted(path.name for path in history.folder.iterdir())
    assert left == [".lock", "SN1+Model.json"]
    assert json.loads(file.read_text())["serial"] == "SN1"


def test_a_filesystem_without_locks_keeps_a_history(tmp_path: Path) -> None:
    writer = [sys.executable, "-c", WRITER, str(tmp_path), "1", "1", "1"]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_FLOCK, *writer], cwd=TOP, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("**/SN1*.json"))) == 1
