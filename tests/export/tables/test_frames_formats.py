"""The four formats have the same content: unknown values stay unknown, times are in UTC, no cell is a formula."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import sqlite3
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotop_ai.export.atomic_file import OutFile
from iotop_ai.export.tables.columns import Column, Row, Table
from iotop_ai.export.tables.csv import CsvOut, guarded
from iotop_ai.export.tables.data_frames import pandas_frame
from iotop_ai.export.tables.frames import tables
from iotop_ai.export.tables.jsonl import JsonlOut
from iotop_ai.export.tables.parquet import ParquetOut
from iotop_ai.export.tables.sqlite import SqliteOut
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import InputError, UsageError
from tests.export.make import WALL_NS, frame

COLUMNS = (
    Column("time", "time"),
    Column("name", "text"),
    Column("%util", "real", "%", "Busy.", "util"),
    Column("pid", "int"),
    Column("gap", "bool"),
)
TABLE = Table("things", COLUMNS, lambda _: ())
ROWS: list[Row] = [
    (WALL_NS, "=cmd|' /C calc'!A0", 12.5, 7, True),
    (WALL_NS + 1_000_000, 'a "quoted", name', None, None, False),
    (WALL_NS + 2_000_000, None, -0.25, 2**64 - 1, None),
]
TIME = "2026-11-21T08:46:02.117Z"


def as_csv(rows: list[Row], raw: bool = False) -> str:
    file = io.StringIO()
    out = CsvOut(file, TABLE, raw=raw)
    out.add(TABLE, rows)
    out.finish({})
    return file.getvalue()


def test_csv_has_a_line_for_each_row() -> None:
    head, first, second, third = csv.reader(io.StringIO(as_csv(ROWS)))
    assert head == ["time", "name", "%util", "pid", "gap"]
    assert first == [TIME, "'=cmd|' /C calc'!A0", "12.5", "7", "1"]
    assert second == ["2026-11-21T08:46:02.118Z", 'a "quoted", name', "", "", "0"]
    assert third[1:] == ["", "-0.25", "18446744073709551615", ""]
    assert next(csv.reader(io.StringIO(as_csv(ROWS, raw=True).split("\n", 1)[1])))[1] == ROWS[0][1]
    assert as_csv([]) == "time,name,%util,pid,gap\n"


@given(st.text(max_size=12))
def test_no_text_becomes_a_formula(text: str) -> None:
    assert not guarded(text).startswith(("=", "+", "-", "@", "\t", "\r"))
    assert guarded(text).removeprefix("'") == text.removeprefix("'")
    (_, row) = csv.reader(io.StringIO(as_csv([(WALL_NS, text, None, None, None)]), newline=""))
    assert row[1] == guarded(clean(text))


def test_jsonl_has_an_object_for_each_row() -> None:
    file = io.StringIO()
    out = JsonlOut(file, with_table=True)
    out.add(TABLE, ROWS)
    out.finish({})
    first, second, _ = (json.loads(line) for line in file.getvalue().splitlines())
    assert first == {"table": "things", "time": TIME, "name": ROWS[0][1], "util": 12.5, "pid": 7, "gap": True}
    assert (second["util"], second["pid"], second["gap"]) == (None, None, False)


def test_sqlite_has_typed_columns(tmp_path: Path) -> None:
    path = str(tmp_path / "a.sqlite")
    with open(path, "wb") as stream, contextlib.closing(SqliteOut(stream, [TABLE, *tables()])) as out:
        out.add(TABLE, [*ROWS, (WALL_NS, "x'); DROP TABLE things; --", 1.0, 1, None)])
        out.finish({"host": "n'; --", "origin": ""})
    with sqlite3.connect(path) as db:
        assert db.execute('SELECT time, name, "%util", pid, gap FROM things').fetchall()[:3] == [
            (TIME, ROWS[0][1], 12.5, 7, 1),
            ("2026-11-21T08:46:02.118Z", ROWS[1][1], None, None, 0),
            ("2026-11-21T08:46:02.119Z", None, -0.25, float(2**64), None),
        ]
        assert db.execute("SELECT count(*) FROM things").fetchone() == (4,)
        assert db.execute("SELECT value FROM recording WHERE name = 'host'").fetchone() == ("n'; --",)
        row = db.execute("SELECT unit, meaning FROM columns WHERE \"table\" = 'things' AND name = '%util'").fetchone()
        assert row == ("%", "Busy.")
        assert db.execute("SELECT julianday(time) FROM things LIMIT 1").fetchone()[0] == pytest.approx(
            2461365.865, abs=0.01
        )
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_parquet_has_typed_columns(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra [parquet] is not installed")
    path = str(tmp_path / "a.parquet")
    with open(path, "wb") as stream:
        out = ParquetOut(stream, TABLE)
        out.add(TABLE, ROWS)
        out.finish({"host": "n"})
    found: Any = parquet.read_table(path)
    rows = found.to_pylist()
    assert [row["name"] for row in rows] == [row[1] for row in ROWS]
    assert [row["%util"] for row in rows] == [12.5, None, -0.25]
    assert [row["pid"] for row in rows] == [7, None, None]
    assert found.column("time").cast("int64").to_pylist() == [row[0] for row in ROWS]
    assert found.schema.field("%util").metadata == {b"unit": b"%", b"meaning": b"Busy."}
    assert parquet.read_metadata(path).metadata[b"host"] == b"n"
    with open(tmp_path / "b.parquet", "wb") as stream:
        ParquetOut(stream, TABLE).finish({})
    assert parquet.read_table(str(tmp_path / "b.parquet")).num_rows == 0


def test_an_integer_of_more_than_64_bits_is_unknown_to_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = SimpleNamespace(DataFrame=dict, array=lambda cells, dtype: (dtype, cells))
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    found = pandas_frame([Column("pid", "int"), Column("x", "real")], [(7, 0.5), (2**63, 1.5), (None, None)])
    assert found == {"pid": ("Int64", [7, None, None]), "x": ("Float64", [0.5, 1.5, None])}


def test_without_pyarrow_the_error_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match=r"iotop-ai\[parquet\]"):
        ParquetOut(io.BytesIO(), TABLE)


def test_all_formats_have_the_same_devices(tmp_path: Path) -> None:
    devices = tables()[0]
    rows = list(devices.rows(frame()))
    text, lines = io.StringIO(), io.StringIO()
    for out in (CsvOut(text, devices), JsonlOut(lines, with_table=False)):
        out.add(devices, rows)
        out.finish({})
    by_csv = dict(zip(*csv.reader(io.StringIO(text.getvalue())), strict=True))
    by_json = json.loads(lines.getvalue())
    for column in devices.columns:
        from_csv, from_json = by_csv[column.name], by_json[column.json_key]
        assert (
            from_csv == ""
            if from_json is None
            else from_csv == from_json
            if isinstance(from_json, str)
            else float(from_csv) == from_json
        )


def write(file: OutFile, text: str) -> None:
    with file.stream() as stream:
        stream.write(text.encode())


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    with OutFile(str(path)) as file:
        write(file, "half")
    assert list(tmp_path.iterdir()) == []
    with OutFile(str(path)) as file:
        write(file, "whole")
        assert not path.exists()
        file.commit()
    assert path.read_text() == "whole"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_part_file_that_is_gone_does_not_hide_the_error(tmp_path: Path) -> None:
    def fail() -> None:
        with OutFile(str(tmp_path / "out.csv")) as file:
            os.unlink(file.part_path())
            raise ValueError("the reason")

    before = os.listdir("/proc/self/fd")
    with pytest.raises(ValueError, match="the reason"):
        fail()
    assert os.listdir("/proc/self/fd") == before


def test_no_file_is_replaced_without_a_flag(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_text("mine")
    with pytest.raises(UsageError, match="--force"):
        OutFile(str(path))
    late = tmp_path / "late.csv"
    with OutFile(str(late)) as file:
        late.write_text("another's")
        with pytest.raises(UsageError, match="--force"):
            file.commit()
    assert late.read_text() == "another's"
    with OutFile(str(path), force=True) as file:
        write(file, "new")
        file.commit()
    assert path.read_text() == "new"
    (tmp_path / "link.csv").symlink_to("nowhere")
    with pytest.raises(UsageError, match="--force"):
        OutFile(str(tmp_path / "link.csv"))
    with pytest.raises(InputError, match="No such file"):
        OutFile(str(tmp_path / "none" / "out.csv"))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["late.csv", "link.csv", "out.csv"]
