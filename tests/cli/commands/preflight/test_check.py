"""``iotop-ai check`` as the real program runs it."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from iotop_ai.cli.commands.preflight.check import _thresholds
from iotop_ai.model.preflight.dataset import Dataset, Decoding, Demand, Forecast
from iotop_ai.model.preflight.place import Place
from iotop_ai.model.preflight.report import Report
from iotop_ai.preflight.storage import gather
from iotop_ai.preflight.storage.own_file import own_name
from iotop_ai.present.preflight.storage import missing_text
from tests.cli.program import PLAIN, TOP, command, iotop, iotop_here
from tests.preflight.storage.places import ext4, needs_root
from tests.rigs.nobody import UID, as_nobody, why_not_nobody
from tests.rigs.pty_pair import PtyPair

QUICK = ("--seconds", "2", "--engine", "own")


def test_a_check_of_a_folder_with_a_given_sample_size_is_printed_as_text(tmp_path: Path) -> None:
    flags = ("--sample-size", "64k", "--samples-per-s", "1/s", "--workers", "0")
    done = iotop("check", str(tmp_path), *QUICK, *flags, "--ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "removed again; by iotop-ai's own reader" in done.stdout
    assert "forecast: the training process itself at 1 samples/s needs" in done.stdout
    for title in ("sequential read 1 MB", "random read 4 KB", "small files 64 KB", "write + fsync", "cached read"):
        assert title in done.stdout
    assert "random 4 KB reads per second, by reads in flight" in done.stdout
    assert done.stdout.isascii()
    assert not list(tmp_path.iterdir())


def test_without_a_demand_the_last_lines_show_how_many_samples_the_storage_feeds(tmp_path: Path) -> None:
    done = iotop("check", str(tmp_path), *QUICK)
    gives, feeds, compare = done.stdout.splitlines()[-3:]
    assert gives.startswith("this storage gives at most ")
    assert feeds.startswith("samples/s that it feeds, before decoding: ")
    assert compare.startswith("to compare it with a training run: --samples-per-s RATE")


def test_the_help_mentions_the_test_file() -> None:
    words = " ".join(iotop("check", "--help").stdout.split())
    assert "a folder, in which a test file of at most 512 MB is written and removed again" in words


def test_thresholds_are_judged_in_text_and_json(tmp_path: Path) -> None:
    flags = ("--min-read", "1kB/s", "--min-files", "900000000/s", "--max-await", "10s")
    done = iotop("check", str(tmp_path), *QUICK, *flags, "--json")
    found = json.loads(done.stdout)
    assert done.returncode == found["exit_code"] == 1
    assert [(one["flag"], one["met"]) for one in found["thresholds"]] == [
        ("--min-read", True),
        ("--min-files", False),
        ("--max-await", True),
    ]
    read = next(one for one in found["results"] if one["name"] == "random" and one["depth"] == 1)
    assert read["bytes_per_s"] == pytest.approx(read["ops_per_s"] * read["block_bytes"])
    assert 0 < read["latency"]["p50_ms"] <= read["latency"]["p99_ms"] <= read["latency"]["most_ms"]
    assert found["place"]["path"] == str(tmp_path)
    assert found["target"]["kind"] == "own"


def test_a_threshold_that_cannot_be_checked_gives_exit_code_2(tmp_path: Path) -> None:
    path = tmp_path / "shard"
    path.write_bytes(os.urandom(9 << 20))
    done = iotop("check", str(path), *QUICK, "--min-files", "10/s")
    assert done.returncode == 2
    assert done.stderr == "unknown: --min-files: not measured here\n"


def test_a_dataset_gets_a_forecast(tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / f"{number}.bin").write_bytes(os.urandom(30_000))
    flags = ("--dataset", "--workers", "2", "--step-time", "1ms", "--batch", "1000", "--min-gpu", "90%")
    done = iotop("cache", "evict", str(tmp_path))
    assert done.returncode == 0
    done = iotop("check", str(tmp_path), *QUICK, *flags, "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 1
    assert found["dataset"]["files"] == 50
    assert found["dataset"]["fits"] is True
    assert found["dataset"]["decoding"]["files"] == 0
    assert found["demand"]["samples_per_s"] == 1_000_000
    rates = {one["depth"]: one["ops_per_s"] for one in found["results"] if one["name"] == "dataset"}
    assert found["forecast"]["first"] == pytest.approx(min(rates[2], 2 * rates[1]) / 1e6, rel=0.01)
    assert found["forecast"]["bound"] == "storage"
    assert any(text.startswith("forecast: 2 workers at 1.0M samples/s need 27.9 GB/s;") for text in found["findings"])
    assert len(list(tmp_path.iterdir())) == 50


def test_a_dataset_of_one_small_file_gets_a_forecast(tmp_path: Path) -> None:
    path = tmp_path / "train.bin"
    path.write_bytes(os.urandom(300_000))
    done = iotop("check", str(path), *QUICK, "--dataset", "--samples-per-s", "1", "--min-gpu", "1%", "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, done.stderr, found["failed"]) == (0, "", None)
    assert [one["met"] for one in found["thresholds"]] == [True]
    note = "only the dataset's files are read: the file holds less than 8 MB: too little to show a disk's speed"
    assert found["findings"][-1] == note


@pytest.mark.parametrize(("rate", "code", "is_unknown"), [("1", 2, True), ("100M", 1, False)])
def test_min_gpu_is_never_met_if_images_cannot_be_decoded(
    tmp_path: Path, rate: str, code: int, is_unknown: bool
) -> None:
    for number in range(8):
        (tmp_path / f"{number}.jpg").write_bytes(os.urandom(300_000))
    words = ("--dataset", "--samples-per-s", rate.replace("M", "000000"), "--min-gpu", "50%")
    done = iotop("check", str(tmp_path), *QUICK, *words, "--python", "/bin/true")
    assert done.returncode == code, done.stdout
    assert done.stderr == ("unknown: --min-gpu: the time to decode the images is unknown\n" if is_unknown else "")


@pytest.mark.parametrize(("min_gpu", "met"), [(0.4, True), (0.7, None), (0.9, False)])
def test_the_bounds_of_a_forecast_decide_a_threshold_outside_them(min_gpu: float, met: bool | None) -> None:
    report = Report(Place("/data"), 0, forecast=Forecast(200, 0.5, None, "storage", at_least=True, most=0.8))
    args = argparse.Namespace(min_read=None, min_files=None, max_await=None, min_gpu=min_gpu)
    report = report._replace(thresholds=_thresholds(args, report))
    assert [one.met for one in report.thresholds] == [met]
    if met is None:
        assert missing_text(report).startswith("--min-gpu: the dataset does not fit into memory, ")


def test_each_threshold_without_an_answer_has_its_own_reason() -> None:
    report = Report(
        Place("/data"),
        0,
        demand=Demand(100, 2, 1000, 2.0),
        forecast=Forecast(200, 1.0, None, "storage"),
        decoding=Decoding(failed=3),
    )
    args = argparse.Namespace(min_read=1e6, min_files=10.0, max_await=None, min_gpu=0.5)
    report = report._replace(thresholds=_thresholds(args, report))
    unmeasured = "--min-read, --min-files: not measured here"
    assert missing_text(report) == f"{unmeasured}; --min-gpu: the time to decode the images is unknown"
    report = report._replace(forecast=None, dataset=Dataset(5, 5000, complete=True))
    report = report._replace(thresholds=_thresholds(args, report))
    assert missing_text(report) == f"{unmeasured}; --min-gpu: no forecast: what the storage gives was not measured"


@needs_root
def test_an_earlier_check_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test has a disk of its own, because a check beside other reads is not kept."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(gather, "LEAST_KEPT_S", 2.0)
    with ext4(tmp_path, 300) as place:
        flags = ("check", str(place), *QUICK)
        first = json.loads(iotop_here(*flags, "--json").stdout)
        assert first["earlier_checks"] == 0
        file = tmp_path / "state/iotop-ai/checks.json"
        kept = json.loads(file.read_text())
        entry = kept["storages"][first["place"]["key"]][0]
        kept["storages"][first["place"]["key"]] = [[entry[0] - 86_400, "own", *[100 * value for value in entry[2:]]]]
        file.write_text(json.dumps(kept))
        second = iotop_here(*flags)
    assert second.returncode == 0
    assert "% slower than on" in second.stdout


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("/nonexistent/folder",), "input: /nonexistent/folder: No such file or directory"),
        (("/etc/hostname/x",), "input: /etc/hostname/x: Not a directory"),
        (("/proc/self",), "unknown: /proc/self holds no data: proc belongs to the kernel"),
        (("/dev/null",), "unknown: /dev/null: not a folder, a file or a disk"),
        (("", "--seconds", "2"), "usage: PATH is empty"),
        (("/tmp", "--seconds", "1"), "usage: argument --seconds: 1 is outside 2 to 600 seconds"),
        (("/tmp", "--max-await", "20"), "usage: argument --max-await: '20' has no unit; write 20ms"),
        (("/tmp", "--min-read", "fast"), "usage: argument --min-read: 'fast' is not a rate; write 500MB/s"),
        (("/tmp", "--min-read", "500"), "usage: argument --min-read: '500' has no unit; write 500MB/s"),
        (("/tmp", "--min-files", "-1/s"), "usage: argument --min-files: expected one argument"),
        (
            ("/tmp", "--min-files", "9" * 400),
            f"usage: argument --min-files: '{'9' * 57}...' is not a rate; write 2000/s",
        ),
        (("/tmp", "--workers", "-1"), "usage: argument --workers: -1 is outside 0 to 256 workers"),
        (("/tmp", "--workers", "x"), "usage: argument --workers: 'x' is not a number of workers; write 0 to 256"),
        (("/tmp", "--workers", "300"), "usage: argument --workers: 300 is outside 0 to 256 workers"),
        (("/tmp", "--min-gpu", "0.9"), "usage: argument --min-gpu: '0.9' has no unit; write 90%"),
        (("/tmp", "--min-gpu", "90"), "usage: argument --min-gpu: '90' has no unit; write 90%"),
        (("/tmp", "--min-gpu", "101%"), "usage: argument --min-gpu: '101%' is not a share; write 90%"),
        (("/tmp", "--min-gpu", "fast"), "usage: argument --min-gpu: 'fast' is not a share; write 90%"),
        (("/tmp", "--min-gpu", "90%"), "usage: --min-gpu needs --samples-per-s"),
        (("/tmp", "--batch", "32"), "usage: --step-time and --batch go together"),
        (("/tmp", "--samples-per-s", "240"), "usage: a forecast needs --dataset or --sample-size"),
        (("/tmp", "--samples-per-s", "0"), "usage: argument --samples-per-s: '0' must be more than 0"),
        (("/tmp", "--batch", "4", "--step-time", "0ms"), "usage: argument --step-time: '0ms' must be more than 0"),
        (("/tmp", "--dataset", "--python", "/nonexistent"), "usage: --python /nonexistent is not a program"),
        (("/tmp", "--sample-size", "1T"), "usage: argument --sample-size: 1T is outside 4k to 4M"),
    ],
)
def test_errors_are_one_line(arguments: tuple[str, ...], error: str) -> None:
    done = iotop_here("check", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(error)
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(bool(why_not_nobody()), reason=why_not_nobody())
def test_the_command_needs_no_root(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    folder = tmp_path / "own"
    folder.mkdir()
    os.chown(folder, UID, UID)
    environment = {**PLAIN, "XDG_STATE_HOME": str(folder)}
    argv = as_nobody(*command("check", str(folder), *QUICK))
    done = subprocess.run(argv, cwd=TOP, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert "write + fsync" in done.stdout
    foreign = tmp_path / "foreign"
    foreign.mkdir(mode=0o755)
    argv = as_nobody(*command("check", str(foreign), *QUICK))
    done = subprocess.run(argv, cwd=TOP, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "no right to write there" in done.stderr


def started(folder: Path) -> subprocess.Popen[str]:
    """Start a long check of the folder, and wait until its file exists."""
    child = subprocess.Popen(
        command("check", str(folder), "--seconds", "60"), cwd=TOP, env=PLAIN, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    end = time.monotonic() + 20
    while not size_of(folder / own_name()):
        assert child.poll() is None
        assert time.monotonic() < end
        time.sleep(0.02)
    return child


def size_of(path: Path) -> int:
    # the check first creates and deletes a file, to measure how fast the storage does that
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_size
    return 0


def test_ctrl_c_leaves_no_file(tmp_path: Path) -> None:
    child = started(tmp_path)
    child.send_signal(signal.SIGINT)
    out, error = child.communicate(timeout=10)
    assert (child.returncode, out, error) == (130, "", "")
    assert not list(tmp_path.iterdir())


def test_the_file_of_a_killed_program_is_removed_by_its_child(tmp_path: Path) -> None:
    child = started(tmp_path)
    child.kill()
    child.communicate()
    end = time.monotonic() + 20
    while list(tmp_path.iterdir()):
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_terminal_shows_progress_and_then_the_table(tmp_path: Path) -> None:
    with PtyPair(command("check", str(tmp_path), *QUICK), 80, 24, PLAIN, TOP) as terminal:
        terminal.wait_for("/16 ")
        terminal.wait_for("read")
        assert terminal.ended() == 0
        assert b"random 4 KB reads per second" in terminal.written
        assert b"small files 128 KB" in terminal.written
    assert not list(tmp_path.iterdir())
