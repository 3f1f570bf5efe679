"""Full disks, rotation, retention, hooks and the CSV log: ``iotop-ai record`` and the files that it leaves."""

from __future__ import annotations

import csv
import gzip
import json
import os
import resource
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.model.errors import InputError
from iotop_ai.pipeline import frames
from iotop_ai.store.format.codec import Header, SnapLine
from iotop_ai.store.read.file import FileRecording
from iotop_ai.store.write.compress import compress
from iotop_ai.store.write.rotation import Rotator, full_files
from iotop_ai.store.write.sink import FileSink
from tests.cli.commands.record.test_command import FAST, kinds, started, wait_for_snapshots
from tests.cli.forked import Run
from tests.cli.program import PLAIN, TOP, command, iotop


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of 1 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs", folder], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("cannot mount a tmpfs here")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def read_some(stream: IO[str] | None) -> str:
    assert stream is not None
    os.set_blocking(stream.fileno(), False)
    try:
        return os.read(stream.fileno(), 1 << 16).decode()
    except BlockingIOError:
        return ""


def test_on_a_full_disk_no_line_is_cut_and_recording_continues(small_disk: Path) -> None:
    path, ballast = small_disk / "a", small_disk / "ballast"
    running = started("--min-free", "0", "-o", str(path))
    wait_for_snapshots(path, 5)
    stderr = ""
    with ballast.open("wb", buffering=0) as filler:
        for step in (1 << 16, 1 << 12, 1):
            try:
                while True:
                    filler.write(b"\0" * step)
            except OSError:
                continue
        for _ in range(600):
            stderr += read_some(running.stderr)
            if "not recording" in stderr:
                break
            time.sleep(0.05)
    assert "No space left" in stderr or "the disk is full" in stderr
    size = path.stat().st_size
    ballast.unlink()
    for _ in range(600):
        stderr += read_some(running.stderr)
        if "recording again" in stderr:
            break
        time.sleep(0.05)
    assert stderr.count("not recording") == 1
    assert stderr.count("recording again") == 1
    while path.stat().st_size < size + 2000:
        time.sleep(0.05)
    running.terminate()
    assert running.wait(20) == 0
    for line in path.read_bytes().splitlines():
        json.loads(line)
    recording = FileRecording(str(path))
    assert recording.closed()
    assert any(isinstance(item, SnapLine) and item.gap for item in recording.lines())


@pytest.mark.parametrize(("least", "shown", "left"), [("1G", "1 GiB", 1 << 20), ("1.5k", "1.5 KiB", 0)])
def test_too_little_space_is_reported(small_disk: Path, least: str, shown: str, left: int) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"\0" * ((1 << 20) - left))
    done = iotop("record", *FAST, "--min-free", least, "--duration", "0.4", "-o", str(small_disk / "a"))
    ballast.unlink()
    assert f"less than {shown} free" in done.stderr
    assert done.returncode == 2
    assert list(small_disk.iterdir()) == []


def test_a_read_only_disk_is_refused(small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    done = iotop("record", *FAST, "-o", str(small_disk / "a"), "--", "true")
    assert (done.returncode, done.stderr) == (2, f"input: {small_disk / 'a'}: Read-only file system\n")


def test_files_are_rotated_packed_shipped_and_in_the_end_deleted(tmp_path: Path) -> None:
    path, shipped = tmp_path / "run.iotop.jsonl", tmp_path / "shipped"
    hook = f"sh -c 'echo \"$IOTOP_AI_FILE\" >> {shipped}'"
    done = iotop(
        "record", *FAST, "--rotate", "0.7s", "--keep", "2", "--hook", hook, "--duration", "3.6", "-o", str(path)
    )
    assert done.returncode == 0
    parts = full_files(str(path))
    assert len(parts) == 2
    assert all(part.endswith(".iotop.jsonl.gz") for part in parts)
    sent = shipped.read_text().splitlines()
    assert len(sent) >= 4
    assert sent[-3:] == [*parts, str(path)]
    assert {p.name for p in tmp_path.iterdir()} == {"shipped", path.name, *(Path(part).name for part in parts)}
    for part in parts:
        raw = gzip.decompress(Path(part).read_bytes()).splitlines()
        assert json.loads(raw[0])["k"] == "hdr"
        assert json.loads(raw[-1])["k"] == "end"
    headers = [FileRecording(part).header for part in (*parts, str(path))]
    assert all(isinstance(h, Header) and h.continues for h in headers)
    numbers = [
        f.snapshot.seq for part in (*parts, str(path)) for f in frames(FileRecording(part).items())
        if f.snapshot.at_ns >= FileRecording(part).first().at_ns
    ]  # fmt: skip
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))  # no number is missing or repeated


def test_a_hook_that_fails_or_hangs_is_reported(tmp_path: Path) -> None:
    done = iotop("record", *FAST, "--hook", "false", "--duration", "0.2", "-o", str(tmp_path / "a"))
    assert "the hook ended with status 1 for a" in done.stderr
    running = started("--hook", "sleep 60", "--duration", "0.2", "-o", str(tmp_path / "b"))
    for _ in range(3000):
        if (tmp_path / "b").exists() and kinds(tmp_path / "b")[-1:] == ["end"]:
            break
        time.sleep(0.02)
    time.sleep(0.3)
    running.terminate()
    assert running.wait(10) == 0


def test_the_csv_log_is_written_without_a_recording(tmp_path: Path) -> None:
    path = tmp_path / "disk_io_log.csv"
    done = iotop("record", "--csv", str(path), *FAST, "--duration", "2", "--device", "vda")
    if done.returncode:
        pytest.skip("no disk vda here")
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0])[:6] == ["timestamp", "device", "util%", "rkB/s", "wkB/s", "await"]
    assert len(rows) >= 4
    assert {row["device"] for row in rows} == {"vda"}
    assert all(0 <= float(row["util%"]) <= 110 for row in rows)
    assert sorted(row["timestamp"] for row in rows) == [row["timestamp"] for row in rows]
    assert list(tmp_path.iterdir()) == [path]
    again = iotop("record", "--csv", str(path), *FAST, "--duration", "0.3")
    assert again.returncode == 2
    assert iotop("record", "--append", "--csv", str(path), *FAST, "--duration", "0.3").returncode == 0
    assert path.read_text().count("timestamp") == 1


@pytest.mark.parametrize("more", [("-o", "old.iotop.jsonl"), ("-o", "new.iotop.jsonl", "--", "/no/such/program")])
def test_a_recording_that_cannot_start_leaves_no_csv_log(tmp_path: Path, more: tuple[str, ...]) -> None:
    (tmp_path / "old.iotop.jsonl").touch()
    path = tmp_path / "log.csv"
    done = iotop("record", *FAST, "--csv", str(path), "-o", str(tmp_path / more[1]), *more[2:])
    assert done.returncode != 0
    assert [file.name for file in tmp_path.iterdir()] == ["old.iotop.jsonl"]


def test_the_csv_log_is_written_line_by_line() -> None:
    running = started("--csv", "-")
    assert running.stdout.readline().startswith("timestamp,device,util%,rkB/s,wkB/s,await,")
    assert running.stdout.readline().startswith("20")
    running.stdout.close()
    assert running.wait(20) == 0


def limit_file_size() -> None:
    """Limit files to 300 bytes, so that a log is cut within its second line, as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))


def test_a_full_disk_ends_only_the_csv_log(tmp_path: Path) -> None:
    path, go_on = tmp_path / "log.csv", tmp_path / "go-on"
    end = f"the CSV log ends: {path}: File too large"

    def run(*more: str) -> tuple[int, str]:
        argv = command("record", *FAST, "--csv", str(path), *more)
        with subprocess.Popen(
            argv, cwd=TOP, env=PLAIN, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=limit_file_size
        ) as running:
            assert running.stderr is not None
            stderr = b""
            while line := running.stderr.readline():
                stderr += line
                if end in line.decode():
                    go_on.touch()
        return running.returncode, stderr.decode()

    code, stderr = run("--", "sh", "-c", f"until [ -e {go_on} ]; do sleep 0.1; done; exit 7")
    assert code == 7, stderr
    assert stderr.count(end) == 1
    assert path.read_text().startswith("timestamp,")
    assert path.read_text().endswith("\n")
    path.unlink()
    code, stderr = run()
    assert code == 2
    assert f"input: {end}" in stderr


def test_the_recording_goes_on_after_the_csv_log_has_ended(tmp_path: Path) -> None:
    path = tmp_path / "a.iotop.jsonl"
    argv = ("record", "--csv", "-", "-o", str(path), *FAST, "--duration", "1")
    with open("/dev/full", "w") as full:
        run = Run(argv, PLAIN, full)
    _, stderr = run.communicate(30)
    assert "the CSV log ends: standard output: No space left on device" in stderr
    assert run.returncode == 2
    assert kinds(path)[-1] == "end"
    assert kinds(path).count("snap") >= 2, "the first row ends the CSV log"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_another_users_folder_is_refused(tmp_path: Path) -> None:
    pid = os.fork()
    if not pid:
        status = 1
        try:
            os.setresuid(65534, 65534, 65534)
            try:
                FileSink("/root/a")
            except InputError as error:
                status = 0 if "Permission denied" in str(error) else 2
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make another user's file")
def test_a_file_of_another_user_is_not_appended_to(tmp_path: Path) -> None:
    path, log = tmp_path / "a.iotop.jsonl", tmp_path / "log.csv"
    assert iotop("record", *FAST, "--duration", "0.2", "-o", str(path)).returncode == 0
    log.write_text("timestamp\n")
    for one in (path, log):
        before = one.read_bytes()
        for owner, mode, why in ((65534, 0o600, "user 65534"), (0, 0o660, "can write"), (0, 0o602, "can write")):
            os.chown(one, owner, owner)
            one.chmod(mode)
            flag = "-o" if one == path else "--csv"
            done = iotop("record", *FAST, "--append", flag, str(one), "--", "true")
            assert (done.returncode, done.stderr.count("\n")) == (2, 1)
            assert why in done.stderr
        assert one.read_bytes() == before


def test_a_log_is_not_written_into_a_fifo_or_through_a_link(tmp_path: Path) -> None:
    fifo, link = tmp_path / "fifo", tmp_path / "link"
    os.mkfifo(fifo)
    link.symlink_to(tmp_path / "made")
    for one in (fifo, link):
        done = iotop("record", *FAST, "--append", "--csv", str(one), "--duration", "0.2", timeout=20)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        done = iotop("record", *FAST, "--duration", "0.2", "-o", str(tmp_path / "a"), IOTOP_AI_LOG=str(one), timeout=20)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert done.stderr.startswith("input: ")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["fifo", "link"]


@pytest.mark.parametrize("kind", ["left over", "link"])
def test_packing_writes_to_no_other_file(tmp_path: Path, kind: str) -> None:
    path, part = tmp_path / "a.iotop.jsonl", tmp_path / "a.iotop.jsonl.gz.part"
    assert iotop("record", *FAST, "--duration", "0.2", "-o", str(path)).returncode == 0
    whole = path.read_bytes()
    mine = tmp_path / "mine"
    mine.write_text("mine")
    if kind == "link":
        part.symlink_to(mine)
        with pytest.raises(FileExistsError):
            compress(str(path))
        assert path.read_bytes() == whole
    else:
        part.write_text("half a file of a process that was killed")
        assert gzip.decompress(Path(compress(str(path))).read_bytes()) == whole
        assert sorted(p.name for p in tmp_path.iterdir()) == ["a.iotop.jsonl.gz", "mine"]
    assert mine.read_text() == "mine"


def test_a_file_that_replaced_the_current_one_is_not_packed(tmp_path: Path) -> None:
    path = tmp_path / "a.iotop.jsonl"
    sink = FileSink(str(path))
    rotator = Rotator(Clock(), print)
    path.rename(tmp_path / "moved")
    path.write_text('{"k":"hdr"}')
    with pytest.raises(InputError, match="is another file now"):
        rotator.next_file(sink)
    sink.close()
    assert rotator.finish(None, 20)
    assert path.read_text() == '{"k":"hdr"}'
