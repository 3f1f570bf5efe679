"""``iotop-ai -b``: blocks of text, and lines of JSON."""

from __future__ import annotations

import json

import pytest

from iotop_ai.cli.commands.batch import print_blocks
from iotop_ai.cli.commands.trend import watch
from iotop_ai.export.json.snapshot import snapshot_object
from iotop_ai.export.text.trend import Trend
from iotop_ai.model.errors import UnknownError
from iotop_ai.model.settings import Settings
from iotop_ai.pipeline import frames
from iotop_ai.store.source import MemoryRecording
from tests.cli.program import iotop
from tests.export.make import pair
from tests.present.make import Machine, Proc, snapshots


def test_the_first_snapshot_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_blocks(MemoryRecording(pair()), Settings()) == 0
    assert capsys.readouterr().out.count("verdict ") == 1
    assert print_blocks(MemoryRecording(pair()[:1]), Settings()) == 0
    assert capsys.readouterr().out == ""


def test_accumulated_figures_count_from_the_first_snapshot(capsys: pytest.CaptureFixture[str]) -> None:
    print_blocks(MemoryRecording(pair()), Settings(accumulated=True), count=1)
    titles = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("Device")).split()
    assert titles[1:3] == ["r", "rkB"]


@pytest.mark.parametrize(
    ("sort", "reverse", "pids"),
    [
        ("io", False, "2 1 3"),
        ("io", True, "3 1 2"),
        ("read", False, "1 2 3"),
        ("cpu", False, "3 2 1"),
        ("cpu", True, "1 2 3"),
        ("name", False, "1 3 2"),
        ("user", True, "3 2 1"),
    ],
)
def test_processes_are_sorted_as_the_user_wants(
    sort: str, reverse: bool, pids: str, capsys: pytest.CaptureFixture[str]
) -> None:
    processes = (
        Proc(1, "a", "alice", read=3 << 20, cpu=0.1),
        Proc(2, "c", "bob", write=5 << 20, cpu=0.2),
        Proc(3, "b", "carol", cpu=1.0),
    )
    source = MemoryRecording(snapshots(lambda i: Machine(procs=processes), 2))
    print_blocks(source, Settings(sort=sort, reverse=reverse), count=1)
    lines = capsys.readouterr().out.split("PID", 1)[1].splitlines()
    assert [line.split()[0] for line in lines[1:4]] == pids.split()


def test_json_is_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    before, after = pair()
    print_blocks(MemoryRecording([before, after]), Settings(), as_json=True)
    (line,) = capsys.readouterr().out.splitlines()
    (frame,) = list(frames([before, after]))[1:]
    assert json.loads(line) == json.loads(json.dumps(snapshot_object(frame)))


def test_the_program_prints_a_stream_or_one_block() -> None:
    done = iotop("-b", "--json", "-n", "2", "-d", "0.2", "--no-smart")
    first, second = (json.loads(line) for line in done.stdout.splitlines())
    assert first["time"] < second["time"]
    assert set(first) == set(second)
    once = iotop("--once", "-d", "0.2", "--no-smart")
    assert (once.returncode, once.stdout.count("verdict ")) == (0, 1)


@pytest.mark.parametrize(
    "words",
    [("-t", "--json"), ("-a", "--json"), ("-o", "--json"), ("--sort", "cpu", "--json"), ("--once", "-n", "3")],
)
def test_flags_that_exclude_each_other_are_refused(words: tuple[str, ...]) -> None:
    done = iotop(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("usage: ")


def test_a_source_that_ends_too_early_gives_no_trend() -> None:
    with pytest.raises(UnknownError, match="before the first interval"):
        watch(MemoryRecording(pair()[:1]), Trend(), 3)
    assert len(watch(MemoryRecording(pair()), Trend(), 3)) == 1
