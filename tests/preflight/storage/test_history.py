from __future__ import annotations

import os
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from iotop_ai.collectors.io.root import Root
from iotop_ai.model.preflight.history import Compared, Kept
from iotop_ai.model.preflight.place import Place
from iotop_ai.model.preflight.report import Report
from iotop_ai.model.preflight.storage import MIB, SEQUENTIAL, Measured, Target
from iotop_ai.preflight.storage import other_reads
from iotop_ai.preflight.storage.gather import compare_and_keep
from iotop_ai.preflight.storage.history import (
    FILE,
    MOST_CHECKS,
    MOST_STORAGES,
    OLDEST_S,
    keep_check,
    parse_history,
    read_history,
)
from iotop_ai.preflight.storage.other_reads import OtherReads
from iotop_ai.present.preflight.storage import earlier_text


def test_checks_are_kept_for_each_storage(tmp_path: Path) -> None:
    folder = str(tmp_path / "state")
    assert read_history(folder, "S1") == ()
    first, second = Kept(100, "fio", 1e9, None, 2000.0, 3e8), Kept(200, "own", 9e8)
    keep_check(folder, "S1", first)
    keep_check(folder, "S1", second)
    keep_check(folder, "S2", second)
    assert read_history(folder, "S1") == (first, second)
    assert read_history(folder, "S2") == (second,)
    assert stat.S_IMODE(os.stat(f"{folder}/{FILE}").st_mode) == 0o600


def test_storage_on_several_disks_is_named_by_all_their_serial_numbers(tmp_path: Path) -> None:
    key = "+".join(f"S5XANA0W{number:06}" for number in range(32))
    keep_check(str(tmp_path), key, Kept(100, "fio", 1e9))
    assert read_history(str(tmp_path), key) == (Kept(100, "fio", 1e9),)


def test_the_file_stays_small(tmp_path: Path) -> None:
    folder = str(tmp_path)
    for number in range(MOST_CHECKS + 3):
        keep_check(folder, "S", Kept(number, "fio", 1.0))
    assert [one.wall_s for one in read_history(folder, "S")] == list(range(3, MOST_CHECKS + 3))
    keep_check(folder, "S", Kept(OLDEST_S + 10, "fio", 1.0))
    assert read_history(folder, "S")[0].wall_s == 10
    for number in range(MOST_STORAGES):
        keep_check(folder, f"T{number}", Kept(1, "fio", 1.0))
    assert read_history(folder, "S") == ()


@pytest.mark.parametrize(
    "raw",
    [
        b"[]",
        b'{"format": 1, "storages": {}}',
        b'{"format": 2, "storages": {"S": [[1, "dd", 1, 1, 1, 1]]}}',
        b'{"format": 2, "storages": {"S": [[1, "fio", 1, 1, 1]]}}',
        b'{"format": 2, "storages": {"S": [[1, "fio", NaN, 1, 1, 1]]}}',
        pytest.param(b"[" * 100_000, id="nested"),
    ],
)
def test_a_file_of_another_kind_is_refused_and_replaced(tmp_path: Path, raw: bytes) -> None:
    with pytest.raises(ValueError, match="not a file of this program"):
        parse_history(raw)
    (tmp_path / FILE).write_bytes(raw)
    keep_check(str(tmp_path), "S", Kept(1, "own", 5.0))
    assert read_history(str(tmp_path), "S") == (Kept(1, "own", 5.0),)


def test_a_link_in_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("kept")
    (tmp_path / FILE).symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="symbolic links"):
        read_history(str(tmp_path), "S")
    assert (tmp_path / "other").read_text() == "kept"


def checked(engine: str, megabytes: int, wall_s: int, kind: str = "own") -> Report:
    read = Measured(SEQUENTIAL, MIB, 8, megabytes, megabytes * MIB, 1.0)
    return Report(Place("/d", key="S1"), wall_s, Target(kind, 512 * MIB, True), engine, (read,))


def test_only_checks_by_the_same_engine_are_compared_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for number in range(3):
        assert compare_and_keep(checked("fio-3.33", 3000, number), 10.0).earlier == number
    own = compare_and_keep(checked("own", 30, 4), 10.0)
    assert (own.changes, own.earlier, earlier_text(own)) == ((), 0, "")
    slower = compare_and_keep(checked("fio-3.33", 30, 5), 10.0)
    assert slower.changes[0].name == "read"
    assert slower.compared == (Compared("read", 30.0 * MIB, 3000.0 * MIB, 3000.0 * MIB),)


def test_a_check_beside_other_reads_is_neither_compared_nor_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    compare_and_keep(checked("own", 195, 1)._replace(other_ratio=0.05), 10.0)
    busy = compare_and_keep(checked("own", 117, 2)._replace(other_ratio=0.26), 10.0)
    note = "other programs made 26 % of the disk's reads meanwhile: not compared with other checks, and not kept"
    assert (busy.changes, busy.earlier, busy.notes) == ((), 0, (note,))
    assert compare_and_keep(checked("own", 190, 3)._replace(other_ratio=None), 10.0).earlier == 1


def test_reads_of_other_programs_are_those_that_no_child_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def set_counters(sectors: int, own: int) -> None:
        (tmp_path / "sys/class/block/sda/stat").write_text(f"  9 0 {sectors} 0 0 0 0 0 0 0 0\n")
        monkeypatch.setattr(other_reads, "getrusage", lambda _: SimpleNamespace(ru_inblock=own))

    (tmp_path / "sys/class/block/sda").mkdir(parents=True)
    root = Root(str(tmp_path))
    set_counters(1000, 50)
    others = OtherReads(Place("/d", disks=("sda",)), root)
    assert others.ratio() is None
    set_counters(21_000, 15_050)
    assert others.ratio() == pytest.approx(0.25)
    assert OtherReads(Place("/d", disks=("sdb",)), root).ratio() is None
    assert OtherReads(Place("/d"), root).ratio() is None


def test_figures_of_a_file_that_another_program_wrote_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    compare_and_keep(checked("own", 34_000, 1, "file"), 10.0)
    assert compare_and_keep(checked("own", 900, 2), 10.0).earlier == 0
    found = compare_and_keep(checked("own", 9, 3, "file"), 10.0)
    assert (found.changes, found.earlier) == ((), 0)
    assert compare_and_keep(checked("own", 900, 4, "device"), 10.0).earlier == 1
