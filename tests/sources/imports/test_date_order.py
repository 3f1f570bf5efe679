"""Dates with two-digit numbers in either order, and the hour that occurs twice at the end of summer time."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from iotop_ai.model.snapshot import Snapshot
from iotop_ai.sources.imports.common import ImportOptions, logged_time_ns, parse_logged_time
from iotop_ai.sources.imports.iostat import iostat_snapshots
from iotop_ai.sources.imports.nvidia_smi import nvidia_smi_snapshots

TABLE = "Device r/s rkB/s r_await w/s wkB/s w_await aqu-sz %util\nsda 100.00 400.00 2.00 0.00 0.00 0.00 0.10 5.00\n"
BERLIN = ZoneInfo("Europe/Berlin")
S = 1_000_000_000


def played(
    folder: Path, times: list[str], written: datetime, zone: ZoneInfo | None = None
) -> tuple[list[Snapshot], list[str]]:
    """The Snapshots of a log of iostat -t with these times, and the messages of the import."""
    path = folder / "log.txt"
    banner = f"Linux 6.1.0 (n) \t{times[0].split()[0]} \t_x86_64_\t(2 CPU)\n\n"
    path.write_text(banner + "".join(f"{when}\n{TABLE}\n" for when in times))
    os.utime(path, (written.timestamp(),) * 2)
    messages: list[str] = []
    return list(iostat_snapshots(str(path), ImportOptions(zone=zone or UTC), messages.append)), messages


def day(snapshot: Snapshot) -> str:
    return datetime.fromtimestamp(snapshot.wall_ns / S, UTC).strftime("%Y-%m-%d")


MIDNIGHT = ["{} 23:59:40", "{} 23:59:50", "{} 00:00:00", "{} 00:00:10"]
LATER = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("dates", "first", "last", "order"),
    [
        (("05/11/26", "06/11/26"), "2026-11-05", "2026-11-06", "day/month/year"),
        (("11/05/26", "11/06/26"), "2026-11-05", "2026-11-06", "month/day/year"),
        (("05/11/2026", "06/11/2026"), "2026-11-05", "2026-11-06", "day/month/year"),
        (("12/01/27", "13/01/27"), "2027-01-12", "2027-01-13", ""),
        (("01/12/27", "01/13/27"), "2027-01-12", "2027-01-13", ""),
        (("05.11.26", "06.11.26"), "2026-11-05", "2026-11-06", ""),
        (("2026-11-05", "2026-11-06"), "2026-11-05", "2026-11-06", ""),
    ],
)
def test_days_follow_each_other_across_midnight(
    tmp_path: Path, dates: tuple[str, str], first: str, last: str, order: str
) -> None:
    times = [text.format(dates[i // 2]) for i, text in enumerate(MIDNIGHT)]
    found, messages = played(tmp_path, times, LATER)
    assert (day(found[0]), day(found[-1])) == (first, last)
    assert found[-1].at_ns - found[0].at_ns == 30 * S
    assert messages == ([f"its dates are read as {order}: in this order, the days are consecutive"] if order else [])


@pytest.mark.parametrize(
    ("date", "written", "wanted", "messages"),
    [
        (
            "05/11/26",
            datetime(2026, 11, 5, 20, tzinfo=UTC),
            "2026-11-05",
            ["day/month/year: the last date then matches the file's date"],
        ),
        (
            "05/11/26",
            datetime(2026, 5, 11, 20, tzinfo=UTC),
            "2026-05-11",
            ["month/day/year: the last date then matches the file's date"],
        ),
        ("05/11/26", LATER, "2026-05-11", ["month/day/year: nothing in the log shows the order"]),
        ("05/05/26", LATER, "2026-05-05", []),
        ("21/11/26", LATER, "2026-11-21", []),
        ("11/21/26", LATER, "2026-11-21", []),
    ],
)
def test_the_date_of_a_single_day_is_compared_with_that_of_the_file(
    tmp_path: Path, date: str, written: datetime, wanted: str, messages: list[str]
) -> None:
    found, got = played(tmp_path, [f"{date} 10:00:{i * 10:02}" for i in range(4)], written)
    assert [day(one) for one in found] == [wanted] * 4
    assert got == [f"its dates are read as {text}" for text in messages]


def over_the_end_of_summer(every: int) -> list[datetime]:
    begin = datetime(2026, 10, 24, 23, 50, tzinfo=UTC)
    return [begin + timedelta(seconds=second) for second in range(0, 8401, every)]


@pytest.mark.parametrize("every", [10, 60, 600])
def test_the_end_of_summer_time_adds_no_hour(tmp_path: Path, every: int) -> None:
    true = over_the_end_of_summer(every)
    times = [when.astimezone(BERLIN).strftime("%m/%d/%Y %H:%M:%S") for when in true]
    found, _ = played(tmp_path, times, LATER, BERLIN)
    assert [one.wall_ns for one in found] == [int(when.timestamp()) * S for when in true]
    assert {b.at_ns - a.at_ns for a, b in pairwise(found)} == {every * S}


def test_the_end_of_summer_time_does_not_begin_a_session(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    true = over_the_end_of_summer(60)
    rows = [f"{when.astimezone(BERLIN):%Y/%m/%d %H:%M:%S}.100, {gpu}, 5 %\n" for when in true for gpu in range(2)]
    path.write_text("timestamp, index, utilization.gpu [%]\n" + "".join(rows))
    found = list(nvidia_smi_snapshots(str(path), ImportOptions(zone=BERLIN)))
    assert [one.wall_ns for one in found] == [int(when.timestamp()) * S + S // 10 for when in true]
    assert {one.host.boot_id for one in found} == {"imported-1"}


@pytest.mark.parametrize(("text", "before", "wanted"), [
    ("2026-10-25 02:00:00", "2026-10-25T00:59:50", "2026-10-25T01:00:00"),
    ("2026-10-25 02:45:00", "2026-10-25T01:10:00", "2026-10-25T01:45:00"),
    ("2026-10-25 02:45:00", "2026-10-25T00:10:00", "2026-10-25T00:45:00"),
    ("2026-10-25 02:09:58", "2026-10-25T00:10:00", "2026-10-25T00:09:58"),
    ("2026-10-24 02:00:00", "2026-10-25T00:10:00", "2026-10-24T00:00:00"),
    ("2026-03-29 02:30:00", "2026-10-25T00:10:00", "2026-03-29T01:30:00"),
])  # fmt: skip
def test_the_second_of_two_equal_hours_is_recognised(text: str, before: str, wanted: str) -> None:
    logged_time = parse_logged_time(text)
    assert logged_time is not None
    times = [int(datetime.fromisoformat(when).replace(tzinfo=UTC).timestamp()) * S for when in (before, wanted)]
    assert logged_time_ns(logged_time, False, BERLIN, times[0]) == times[1]
