"""The printed table of all disks."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

import iotop_ai
from iotop_ai.model.errors import UnknownError, UsageError
from iotop_ai.model.parse import parse_duration_s
from iotop_ai.train import disk_table
from iotop_ai.train.disk_table import COLUMNS, _tables


def test_a_table_of_all_disks_is_printed_each_interval() -> None:
    out = io.StringIO()
    iotop_ai.monitor_disk(interval=0.5, duration=1.6, file=out)
    tables = [table.splitlines() for table in out.getvalue().split("\n\n") if table.strip()]
    assert len(tables) >= 2
    for title, *disks in tables:
        assert title.split()[1:] == ["UTC", *COLUMNS]
        for line in disks:
            name, *figures = line.split()
            assert name
            assert len(figures) == len(COLUMNS)
            assert all(figure == "-" or float(figure) >= 0 for figure in figures)


def test_a_mean_over_no_requests_is_a_dash_and_names_are_cleaned() -> None:
    row = dict.fromkeys(COLUMNS, "0") | {"timestamp": "2026-11-21T08:46:02.117Z", "r_await": ""}
    (table,) = _tables([row | {"device": "sda\x1b"}, row | {"device": "sdb"}], 1)
    assert table[0].startswith("08:46:02 UTC")
    assert [line.split()[0] for line in table[1:]] == ["sda\ufffd", "sdb"]
    assert table[1].split()[1 + COLUMNS.index("r_await")] == "-"


def test_each_interval_has_a_table_with_its_disks() -> None:
    """A disk may be added before the others, or replace another."""
    row = dict.fromkeys(COLUMNS, "1")
    intervals = enumerate(("a", "ba", "c"))
    rows = [row | {"timestamp": f"2026-11-21T08:46:0{at}.117Z", "device": name} for at, i in intervals for name in i]
    made = [[line.split()[0] for line in table] for table in _tables(rows, 0)]
    assert made == [["08:46:00", "a"], ["08:46:01", "b", "a"], ["08:46:02", "c"]]


@pytest.mark.parametrize(("last", "tables"), [("08:46:06.117", 2), ("08:46:07.217", 3)])
def test_a_last_table_shorter_than_half_an_interval_is_left_out(last: str, tables: int) -> None:
    row = dict.fromkeys(COLUMNS, "1")
    times = ("08:46:03.117", "08:46:05.117", last)
    made = [row | {"timestamp": f"2026-11-21T{at}Z", "device": name} for at in times for name in ("a", "b")]
    assert len(list(_tables(made, 2.1))) == tables
    assert len(list(_tables(made[-2:], 2.1))) == 1, "not exactly one table"


def test_an_invalid_interval_or_an_unknown_device_is_refused() -> None:
    with pytest.raises(UsageError, match="interval"):
        iotop_ai.monitor_disk(interval=5, duration=2)
    for devices in (["no-such-disk"], "no-such-disk"):
        with pytest.raises(UnknownError, match="no device 'no-such-disk'"):
            iotop_ai.monitor_disk(0.2, 0.4, devices=devices)


def test_a_duration_of_weeks_is_understood(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\necho "$*" > {tmp_path}/words\n')
    program.chmod(0o755)
    iotop_ai.monitor_disk(2, 1_500_000, program_path=str(program), file=io.StringIO())
    words = (tmp_path / "words").read_text().split()
    assert parse_duration_s(words[words.index("--duration") + 1]) == 1_500_000


def test_a_program_that_writes_many_messages_ends(tmp_path: Path) -> None:
    program = tmp_path / "iotop-ai"
    program.write_text("#!/bin/sh\nyes some words | head -n 20000 >&2\necho the last line >&2\nexit 3\n")
    program.chmod(0o755)
    with pytest.raises(UnknownError, match=r"^the last line$"):
        iotop_ai.monitor_disk(0.2, 0.4, program_path=str(program), file=io.StringIO())


class Unkillable(subprocess.Popen[bytes]):
    """A process on which the signals of this class have no effect, as on a process in state D."""

    def terminate(self) -> None:
        """Do nothing."""

    kill = terminate


def test_a_program_that_cannot_be_killed_does_not_stop_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(io.StringIO):
        def write(self, text: str) -> int:
            raise KeyboardInterrupt

    started: list[Unkillable] = []

    def start(argv: list[str], **options: Any) -> Unkillable:
        started.append(Unkillable(argv, **options))
        return started[-1]

    monkeypatch.setattr(disk_table, "start_with_blocked_signals", start)
    program = tmp_path / "iotop-ai"
    row = ",".join("1" for _ in COLUMNS)
    lines = [f"timestamp,device,{','.join(COLUMNS)}", *(f"2026-11-21T08:46:0{at}.117Z,sda,{row}" for at in (2, 3))]
    program.write_text("#!/bin/sh\n" + "".join(f"echo {line}\n" for line in lines) + "exec sleep 20\n")
    program.chmod(0o755)
    begun = time.monotonic()
    with pytest.warns(RuntimeWarning, match="has not ended after SIGKILL"), pytest.raises(KeyboardInterrupt):
        iotop_ai.monitor_disk(0.2, 0.4, program_path=str(program), file=Interrupted())
    assert time.monotonic() - begun < 15
    (child,) = started
    os.kill(child.pid, signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
