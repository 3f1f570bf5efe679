"""The real program: exports of a recording, imports of logs, and every refusal."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from iotop_ai.cli.commands import export as export_command
from iotop_ai.cli.main import main
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.export.atomic_file import OutFile
from iotop_ai.export.tables.frames import NAMES
from iotop_ai.pipeline import frames
from iotop_ai.store.format import size_limits
from iotop_ai.store.write.recorder import Recorder
from iotop_ai.store.write.sink import FileSink
from tests.cli.program import PLAIN, TOP, command, iotop
from tests.store.scenario import session

LOGS = TOP / "tests" / "data" / "logs"


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rec") / "a.iotop.jsonl"
    recorder = Recorder(FileSink(str(path)), Clock(), min_free_bytes=0)
    for frame in frames(session(5, 60)):
        recorder.put(frame)
    assert recorder.close()
    return path


def export(recording: Path | str, *arguments: str) -> int:
    return main(["export", "--allow-root", str(recording), *arguments])


def test_csv_goes_to_standard_output(recording: Path) -> None:
    done = iotop("export", "--allow-root", str(recording))
    assert (done.returncode, done.stderr) == (0, "")
    head, *rows = done.stdout.splitlines()
    assert head.startswith("time,interval_s,device,kind,")
    assert "%util" in head
    assert len(rows) > 40
    assert all(row.split(",")[2] == "sda" for row in rows)


def test_begin_and_end_select_rows(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert export(recording, "--table", "system") == 0
    every = capsys.readouterr().out.splitlines()[1:]
    assert export(recording, "--table", "system", "--begin", "50%") == 0
    later = capsys.readouterr().out.splitlines()[1:]
    assert export(recording, "--table", "system", "--end", "-20") == 0
    earlier = capsys.readouterr().out.splitlines()[1:]
    time = every[30].split(",")[0]
    assert export(recording, "--table", "system", "--begin", time, "--end", time) == 0
    one = capsys.readouterr().out.splitlines()[1:]
    assert later == every[-len(later) :], "a row depends on --begin"
    assert earlier == every[: len(earlier)]
    assert 0 < len(later) < len(every) > len(earlier) > 0
    assert one == [every[30]]


def test_every_table_goes_into_one_database(recording: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.sqlite"
    assert export(recording, "-o", str(out)) == 0
    with sqlite3.connect(out) as db:
        count = {name: db.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in ("devices", "processes")}
        assert all(count.values())
        about = dict(db.execute("SELECT name, value FROM recording").fetchall())
    assert (about["host"], about["cmdline"]) == ("h", "names")
    assert list(tmp_path.iterdir()) == [out]


def test_a_database_is_written_to_a_path_with_two_slashes(recording: Path, tmp_path: Path) -> None:
    assert export(recording, "-o", f"/{tmp_path}/a.sqlite") == 0
    with sqlite3.connect(tmp_path / "a.sqlite") as db:
        assert db.execute("SELECT count(*) FROM devices").fetchone()[0]


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.sqlite"])
def test_a_full_disk_is_reported_with_the_name_of_the_file(recording: Path, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4k,mode=700", "tmpfs", folder]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("cannot mount a tmpfs here")
    try:
        done = iotop("export", str(recording), "--table", "processes", "-o", str(folder / name))
        assert done.returncode == 2
        assert f"{folder / name}" in done.stderr
        assert "No space left" in done.stderr or "disk is full" in done.stderr
        assert list(folder.iterdir()) == []
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def test_a_link_in_place_of_the_partial_file_is_not_followed(
    recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner of the folder may put a link there at any time."""
    folder, victim = tmp_path / "out", tmp_path / "victim"
    folder.mkdir()
    original = export_command.SqliteOut

    def swapped(*arguments: Any) -> Any:
        (part,) = folder.iterdir()
        part.unlink()
        part.symlink_to(victim)
        return original(*arguments)

    monkeypatch.setattr(export_command, "SqliteOut", swapped)
    assert export(recording, "-o", str(folder / "a.sqlite")) == 2
    assert not victim.exists()


def test_the_temporary_database_is_beside_its_target(
    recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small TMPDIR would be full before the target's filesystem is."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    out = tmp_path / "out" / "100 %?a#b.sqlite"
    out.parent.mkdir()
    assert export(recording, "-o", str(out)) == 0
    with sqlite3.connect(out) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert db.execute("SELECT count(*) FROM devices").fetchone()[0]
    assert list(out.parent.iterdir()) == [out]


def test_the_temporary_database_is_in_another_folder_if_others_can_rename_it(recording: Path, tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o775)
    with OutFile(str(folder / "a.sqlite")) as out:
        assert out.part_path() == ""
    assert export(recording, "-o", str(folder / "a.sqlite")) == 0
    with sqlite3.connect(folder / "a.sqlite") as db:
        assert db.execute("SELECT count(*) FROM devices").fetchone()[0]
    folder.chmod(0o1775)
    with OutFile(str(folder / "b.sqlite")) as out:
        assert out.part_path() == f"{folder}/b.sqlite.{os.getpid()}.part"
    assert [one.name for one in folder.iterdir()] == ["a.sqlite"]


def test_a_folder_gets_one_file_for_each_table(recording: Path, tmp_path: Path) -> None:
    assert export(recording, "-o", f"{tmp_path}/out/") == 0
    assert {p.name for p in (tmp_path / "out").iterdir()} >= {"devices.csv", "gpus.csv", "findings.csv"}


@pytest.mark.parametrize("what", ["missing", "not a recording", "no data"])
def test_an_export_without_data_leaves_no_empty_folder(recording: Path, tmp_path: Path, what: str) -> None:
    text = tmp_path / "text"
    text.write_text("hello\n")
    file = {"missing": tmp_path / "absent", "not a recording": text, "no data": recording}[what]
    more = ("--begin", "2199-01-01") if what == "no data" else ()
    assert export(file, "-o", f"{tmp_path}/out/", *more) == 2
    assert not (tmp_path / "out").exists()
    (tmp_path / "of the user").mkdir()
    assert export(file, "-o", f"{tmp_path}/of the user/a/b//c/", *more) == 2
    assert not list((tmp_path / "of the user").iterdir())


def test_pandas_reads_the_csv(recording: Path, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    out = tmp_path / "d.csv"
    assert export(recording, "-o", str(out)) == 0
    table = pandas.read_csv(out, parse_dates=["time"])
    assert str(table["time"].dt.tz) == "UTC"
    assert table["%util"].dtype == "float64"
    assert table["r/s"].notna().any()
    assert table["d/s"].min() >= 0


def test_jsonl_names_the_table_when_there_are_several(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert export(recording, "--format", "jsonl", "--table", "devices,events") == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["table"] for row in rows} == {"devices", "events"}
    assert all("util" in row for row in rows if row["table"] == "devices")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--table", "disks"), "no table 'disks'"),
        (("--table", ""), "--table is empty"),
        (("--table", "devices,gpus"), "csv holds one table"),
        (("--format", "sqlite"), "sqlite needs a file: -o OUT.sqlite"),
        (("--begin", "x"), "'x' is not a time"),
        (("--begin", "90%", "--end", "10%"), "is before --begin"),
        (("--format", "xml"), "invalid choice"),
    ],
)
def test_invalid_usage_is_refused(
    recording: Path, arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export(recording, *arguments) == 2
    out, err = capsys.readouterr()
    assert err.startswith("usage: ")
    assert message in err
    assert err.count("\n") == 1
    assert out == ""


def test_a_time_range_outside_the_recording_is_refused(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert export(recording, "--begin", "2199-01-01") == 2
    assert capsys.readouterr().err.startswith("unknown: ")


def test_an_existing_file_is_kept(recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "a.csv"
    out.write_text("mine")
    assert export(recording, "-o", str(out)) == 2
    assert "--force" in capsys.readouterr().err
    assert out.read_text() == "mine"
    assert export(recording, "-o", str(out), "--force") == 0
    assert out.read_text().startswith("time,")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_leaves_no_database_in_the_temporary_folder(
    recording: Path, tmp_path: Path, number: signal.Signals
) -> None:
    temporary, out = tmp_path / "tmp", tmp_path / "shared" / "a.sqlite"
    temporary.mkdir()
    out.parent.mkdir()
    out.parent.chmod(0o775)
    line = command("export", "-", "-o", str(out))
    with subprocess.Popen(line, cwd=TOP, env={**PLAIN, "TMPDIR": str(temporary)}, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(recording.read_bytes())
        process.stdin.flush()
        end_s = time.monotonic() + 20
        while not any(file.name.endswith("tables.sqlite (deleted)") for file in open_files(process.pid)):
            assert time.monotonic() < end_s
            time.sleep(0.05)
        process.send_signal(number)
        assert process.wait(20) == -number
    assert not list(temporary.iterdir())


def open_files(pid: int) -> list[Path]:
    return [Path(os.readlink(link)) for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_no_part_of_a_file(recording: Path, tmp_path: Path, number: signal.Signals) -> None:
    process = subprocess.Popen(
        command("export", "-", "-o", f"{tmp_path}/"), cwd=TOP, env=PLAIN, stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with process:
        assert process.stdin is not None
        process.stdin.write(recording.read_bytes())
        process.stdin.flush()
        end_s = time.monotonic() + 20
        while len(list(tmp_path.glob("*.part"))) != len(NAMES) and time.monotonic() < end_s:
            time.sleep(0.05)
        assert len(list(tmp_path.iterdir())) == len(NAMES)
        process.send_signal(number)
        assert process.wait(20) == -number
    assert not list(tmp_path.iterdir())


def test_force_does_not_put_a_file_in_place_of_a_pipe(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe, link = tmp_path / "pipe.csv", tmp_path / "link.csv"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for path in (pipe, link):
        assert export(recording, "-o", str(path), "--force") == 2
        assert "not a file" in capsys.readouterr().err
    assert pipe.is_fifo()
    assert link.is_symlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is refused")
def test_root_is_refused_a_file_that_others_can_write(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mode = recording.stat().st_mode
    recording.chmod(0o666)
    try:
        assert main(["export", str(recording)]) == 2
    finally:
        recording.chmod(mode)
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "--allow-root" in err


def test_a_log_from_a_pipe_becomes_a_table() -> None:
    log = str(LOGS / "iostat-12.6-t.txt")
    first = subprocess.Popen(
        command("import", "--allow-root", "--iostat", log, "-o", "-"), cwd=TOP, env=PLAIN, stdout=subprocess.PIPE
    )
    done = subprocess.run(
        command("export", "--allow-root", "-", "--table", "system", "--format", "jsonl"),
        cwd=TOP, env=PLAIN, stdin=first.stdout, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert first.wait(10) == 0
    assert (done.returncode, done.stderr) == (0, "")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) == 4
    assert {(row["host"], row["origin"]) for row in rows} == {("vm", "iostat")}
    assert rows[0]["total_write_bytes_per_s"] == 307_200 * 1024
    assert {row["cpu_busy_ratio"] for row in rows} == {None}


def test_logs_of_both_kinds_are_imported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "a.iotop.jsonl"
    smi, iostat = str(LOGS / "made-nvidia-smi.csv"), str(LOGS / "iostat-12.6.json")
    import_ = ["import", "--allow-root", "-o", str(out)]
    assert main([*import_, "--nvidia-smi", smi, "--host-name", "box"]) == 0
    assert "2 snapshots imported from nvidia-smi" in capsys.readouterr().err
    header = json.loads(out.read_text().split("\n", 1)[0])
    assert (header["origin"], header["host"]) == ("nvidia-smi", "box")
    assert export(out, "--table", "gpus") == 0
    assert capsys.readouterr().out.count("\n") == 5
    assert main([*import_, "--iostat", iostat]) == 2
    assert "--force" in capsys.readouterr().err
    assert main([*import_, "--iostat", iostat, "--force"]) == 0
    assert json.loads(out.read_text().split("\n", 1)[0])["origin"] == "iostat"


def test_a_log_that_no_reader_would_accept_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log, out = tmp_path / "smi.csv", tmp_path / "a.iotop.jsonl"
    rows = "".join(f"2026/11/21 09:00:00.{n:02}0, GPU-1, {n} W\n" for n in range(50))
    log.write_text("timestamp, uuid, power.draw [W]\n" + rows)
    arguments = ["import", "--nvidia-smi", str(log), "-o", str(out)]
    monkeypatch.setattr(size_limits, "MOST_SNAPSHOTS", 49)
    assert main(arguments) == 2
    assert "more than 49 Snapshots in 60 s" in capsys.readouterr().err
    assert not out.exists()
    monkeypatch.setattr(size_limits, "MOST_SNAPSHOTS", 50)
    assert main(arguments) == 0
    assert export(out, "--table", "gpus") == 0


def test_the_mean_since_boot_alone_is_not_an_interval(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "one.txt"
    log.write_text((LOGS / "iostat-12.6-t.txt").read_text().split("\n\n\n")[0] + "\n\n")
    arguments = ["import", "--iostat", str(log), "-o", str(tmp_path / "o"), "--interval", "1"]
    assert main(arguments) == 2
    assert "--keep-first" in capsys.readouterr().err
    assert not (tmp_path / "o").exists()
    assert main([*arguments, "--keep-first"]) == 0


def test_an_unknown_suffix_is_refused(recording: Path, tmp_path: Path) -> None:
    done = iotop("export", "--allow-root", str(recording), "-o", str(tmp_path / "x.xls"))
    assert done.returncode == 2
    assert ".xls; use .csv, .jsonl, .sqlite, .db, .parquet, or --format" in done.stderr
    assert list(tmp_path.iterdir()) == []
    assert export(recording, "-o", str(tmp_path / "x.txt"), "--format", "csv") == 0
    (tmp_path / "v1.2").mkdir()
    assert export(recording, "-o", str(tmp_path / "v1.2"), "--table", "system") == 0
    assert [path.name for path in (tmp_path / "v1.2").iterdir()] == ["system.csv"]
