"""A log of iostat is reproduced with its own rates, in every format, and missing figures stay unknown."""

from __future__ import annotations

import os
import re
import time
import tracemalloc
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotop_ai.export.field_names import device_terms
from iotop_ai.export.selection import device_rates
from iotop_ai.model.block.counters import BlockKey, block_rates_of
from iotop_ai.model.errors import InputError, IotopError, UsageError
from iotop_ai.model.frame import Frame
from iotop_ai.model.reading import Reading, Status
from iotop_ai.pipeline import frames
from iotop_ai.sources.imports import common
from iotop_ai.sources.imports.common import ImportOptions
from iotop_ai.sources.imports.iostat import CounterBuilder, iostat_snapshots
from iotop_ai.sources.imports.iostat_log import iostat_reports

LOGS = Path(__file__).parents[2] / "data" / "logs"
S = 1_000_000_000
START = int(datetime(2026, 11, 21, 9, 38, 5, tzinfo=UTC).timestamp()) * S
KEEP_FIRST = ImportOptions(start_ns=START, interval_s=1, keep_first=True, zone=UTC)
CASES = {
    "iostat-12.6-t.txt": ImportOptions(zone=UTC),
    "iostat-12.6-iso.txt": ImportOptions(),
    "iostat-12.6.json": ImportOptions(zone=UTC),
    "iostat-12.6-m-y.txt": KEEP_FIRST,
    "made-iostat-11.txt": ImportOptions(zone=UTC),
    "made-iostat-12.0-de.txt": ImportOptions(zone=UTC),
}


def played(path: Path, wanted: ImportOptions) -> list[Frame]:
    return list(frames(iostat_snapshots(str(path), wanted._replace(allow_root=True))))


def slack(term: str, seconds: float, requests: float | None) -> float:
    """How far a figure may be from the logged one: half a unit of its counter over the interval, and two decimals."""
    if term.endswith("await"):
        return 0.006 + 0.5 / max(requests or 1, 1)
    if term == "util":
        return 0.006 + 0.05 / seconds
    if term == "aqu-sz":
        return 0.006 + 0.0005 / seconds
    return 0.006 + 0.5 / seconds


@pytest.mark.parametrize("name", CASES)
def test_the_logged_rates_are_reproduced(name: str) -> None:
    wanted = CASES[name]
    reports = list(iostat_reports(str(LOGS / name), allow_root=True))
    shown = [f for f in played(LOGS / name, wanted) if f.sample.seconds is not None]
    logged = reports if wanted.keep_first else reports[1:]
    assert len(shown) == len(logged)
    terms = device_terms()
    compared = 0
    for frame, report in zip(shown, logged, strict=True):
        rates = frame.sample.block.value
        assert rates is not None
        seconds = frame.sample.block.seconds
        assert seconds
        for device, row in report.devices.items():
            found = rates[BlockKey(device, 0)]
            for term, value in row.items():
                scale = 1024 if term in ("rMB/s", "wMB/s", "dMB/s") else 1
                known = term.replace("MB/s", "kB/s")
                if known not in terms or known in ("await", "rrqm", "wrqm", "drqm") or "areq-sz" in known:
                    continue
                got = terms[known].of(found)
                requests = row.get(f"{known[0]}/s", 0) * seconds if known[1:] == "_await" else None
                if got is None:
                    assert requests == 0
                    assert value == 0
                    continue
                assert got == pytest.approx(value * scale, abs=slack(known, seconds, requests)), (device, term)
                compared += 1
    assert compared >= 9


def test_a_value_that_is_not_in_the_log_is_unknown() -> None:
    *_, frame = played(LOGS / "made-iostat-11.txt", ImportOptions(zone=UTC))
    snapshot = frame.snapshot
    assert snapshot.host.origin == "iostat"
    assert (snapshot.host.name, snapshot.host.kernel) == ("old7", "4.9.0-8-amd64")
    counters = snapshot.block.value
    assert counters is not None
    (only,) = counters.values()
    assert (only.in_flight, only.dc_ios, only.fl_ios) == (None, None, None)
    assert frame.sample.own.cpu_ratio is None
    for name in ("processes", "cpu", "memory", "gpu", "smart", "pressure"):
        assert getattr(snapshot, name) == Reading(None, Status.OFF, "not in the iostat log")


def test_times_of_each_locale_are_parsed() -> None:
    first, second, third = played(LOGS / "made-iostat-11.txt", ImportOptions(zone=UTC))
    assert [f.snapshot.wall_ns for f in (first, second, third)] == [START, START + 5 * S, START + 10 * S]
    german = played(LOGS / "made-iostat-12.0-de.txt", ImportOptions(zone=UTC))
    assert german[-1].snapshot.wall_ns == START + 8 * 3600 * S + 2 * S
    moved = played(LOGS / "made-iostat-11.txt", ImportOptions(start_ns=5 * S, zone=UTC))
    assert [f.snapshot.wall_ns for f in moved] == [5 * S, 10 * S, 15 * S]


HEAD = "Linux 6.1.0 (n) \t11/21/26 \t_x86_64_\t(2 CPU)\n\n"
TABLE = "Device r/s rkB/s r_await w/s wkB/s w_await aqu-sz %util\n"


def log(*reports: tuple[str, str]) -> str:
    return HEAD + "".join(f"{when}\n{TABLE}{rows}\n\n" for when, rows in reports)


def written(folder: Path, text: str) -> Path:
    path = folder / "log.txt"
    path.write_text(text)
    return path


def row(name: str, reads: float) -> str:
    return f"{name} {reads:.2f} {reads * 4:.2f} 2.00 0.00 0.00 0.00 0.10 5.00"


def reads(frame: Frame) -> dict[str, float | None]:
    return {key.name: rate.reads_per_s for key, rate in (frame.sample.block.value or {}).items()}


def test_in_a_log_with_idle_rows_a_missing_device_was_removed(tmp_path: Path) -> None:
    times = [f"11/21/26 09:00:0{i}" for i in range(5)]
    rows = [f"{row('sda', 0)}\n{row('sdb', 9)}", row("sda", 0), row("sda", 1), f"{row('sda', 1)}\n{row('sdb', 5)}"]
    path = written(tmp_path, log(*zip(times, [rows[0].replace("2.00", "0.00"), *rows[1:]], strict=False)))
    text = path.read_text().replace("sda 0.00 0.00 2.00 0.00 0.00 0.00 0.10 5.00", "sda" + " 0.00" * 8)
    path.write_text(text)
    assert [reads(f) for f in played(path, ImportOptions(zone=UTC))][1:] == [
        {"sda": 0.0},
        {"sda": 1.0},
        {"sda": 1.0, "sdb": None},
    ]


@pytest.mark.parametrize(("names", "listed"), [(["nvme0n1p1"], ["nvme0n1p1"]), (["sda", "sda1"], ["sda"])])
def test_a_partition_is_listed_if_the_log_does_not_have_its_disk(
    tmp_path: Path, names: list[str], listed: list[str]
) -> None:
    rows = "\n".join(row(name, 5) for name in names)
    path = written(tmp_path, log(*((f"11/21/26 09:00:0{i}", rows) for i in range(3))))
    last = played(path, ImportOptions(zone=UTC))[-1]
    assert [key.name for key, _ in device_rates(last)] == listed


def test_in_a_log_without_idle_rows_a_missing_device_was_idle(tmp_path: Path) -> None:
    times = [f"11/21/26 09:00:0{i}" for i in range(4)]
    rows = [f"{row('sda', 7)}\n{row('sdb', 9)}", row("sda", 3), "", f"{row('sda', 1)}\n{row('sdb', 5)}"]
    path = written(tmp_path, log(*zip(times, rows, strict=True)))
    assert [reads(f) for f in played(path, ImportOptions(zone=UTC))][1:] == [
        {"sda": 3.0, "sdb": 0.0},
        {"sda": 0.0, "sdb": 0.0},
        {"sda": 1.0, "sdb": 5.0},
    ]


def test_each_run_may_leave_out_idle_devices_or_list_them(tmp_path: Path) -> None:
    plain = [f"{row('sda', 7)}\nsdb{' 0.00' * 8}", f"{row('sda', 3)}\nsdb{' 0.00' * 8}"]
    sparse = [f"{row('sda', 7)}\n{row('sdb', 5)}", row("sda", 3), f"{row('sda', 3)}\n{row('sdb', 900)}"]
    runs = [
        log(*((f"11/21/26 {hour}:00:0{i}", rows) for i, rows in enumerate(reports)))
        for hour, reports in (("09", plain), ("10", sparse), ("11", [plain[0], row("sda", 3), *plain]))
    ]
    assert [reads(f) for f in played(written(tmp_path, "".join(runs)), ImportOptions(zone=UTC))] == [
        {"sda": None, "sdb": None},
        {"sda": 3.0, "sdb": 0.0},
        {"sda": None, "sdb": None},
        {"sda": 3.0, "sdb": 0.0},
        {"sda": 3.0, "sdb": 900.0},
        {"sda": None, "sdb": None},
        {"sda": 3.0},
        {"sda": 7.0, "sdb": None},
        {"sda": 3.0, "sdb": 0.0},
    ]


def test_a_second_run_in_the_same_file_is_a_separate_session(tmp_path: Path) -> None:
    one = log(("11/21/26 09:00:00", row("sda", 7)), ("11/21/26 09:00:01", row("sda", 3)))
    two = log(("11/21/26 10:00:00", row("sda", 8)), ("11/21/26 10:00:01", row("sda", 4)))
    for between in ("", "11/21/26 09:00:02\n" + TABLE + row("sda", 7)[:9]):
        shown = played(written(tmp_path, one + between + two), ImportOptions(zone=UTC))
        assert [reads(f) for f in shown] == [{"sda": None}, {"sda": 3.0}, {"sda": None}, {"sda": 4.0}]
        assert [f.snapshot.host.boot_id for f in shown] == ["imported-1"] * 2 + ["imported-2"] * 2


@pytest.mark.parametrize(
    "day",
    ["2026년 11월 29일", "29. 11. 2026", "Sunday, November 29, 2026", "2026年11月29日 星期日", "الأحد 29 نوفمبر 2026"],
)
def test_the_date_of_a_header_may_have_spaces(tmp_path: Path, day: str) -> None:
    one, two = (f"{HEAD}{TABLE}{row('sda', first)}\n\n{TABLE}{row('sda', 3)}\n\n" for first in (7, 8))
    path = written(tmp_path, (one + two).replace("11/21/26", day))
    shown = played(path, ImportOptions(start_ns=START, interval_s=1, zone=UTC))
    assert [reads(f) for f in shown] == [{"sda": None}, {"sda": 3.0}] * 2
    assert [f.snapshot.host.name for f in shown] == ["n"] * 4


def test_each_run_has_its_own_interval(tmp_path: Path) -> None:
    one = log(*((f"11/21/26 09:00:0{i}", row("sda", 6)) for i in range(5)))
    two = log(*((f"11/21/26 10:00:{i:02}", row("sda", 6)) for i in (0, 2, 5, 6, 8)))
    shown = played(written(tmp_path, one + two), ImportOptions(zone=UTC))
    assert [frame.sample.seconds for frame in shown] == [None, 1.0, 1.0, 1.0, 1.0, None, 2.0, 2.0, 2.0, 2.0]
    assert [frame.snapshot.interval_s for frame in shown] == [1.0] * 5 + [2.0] * 5
    counters = [(frame.snapshot.block.value or {})[BlockKey("sda", 0)] for frame in shown]
    assert [(counters[i].rd_ios, counters[i].rd_sectors) for i in (4, 9)] == [(24, 192), (48, 384)]


def test_the_intervals_of_a_log_add_up_to_its_times(tmp_path: Path) -> None:
    times = [0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 13, 15]
    text = log(*((f"11/21/26 09:00:{second:02}", row("sda", 6)) for second in times))
    shown = played(written(tmp_path, text), ImportOptions(zone=UTC))
    assert [frame.sample.seconds for frame in shown[1:]] == [1, 1, 1, 1, 1, 2, 1, 1, 2, 1, 1, 1]
    longer = played(written(tmp_path, text), ImportOptions(interval_s=2, zone=UTC))
    assert [frame.sample.seconds for frame in longer[1:]] == [2, 1, 2, 1, 1, 2, 1, 1, 2, 1, 2, 2]


def test_a_pause_of_the_machine_is_a_gap(tmp_path: Path) -> None:
    times = ["11/21/26 09:00:00", "11/21/26 09:00:01", "11/21/26 09:00:02", "11/21/26 09:10:02", "11/21/26 09:10:03"]
    shown = played(written(tmp_path, log(*((t, row("sda", 6)) for t in times))), ImportOptions(zone=UTC))
    assert [f.sample.gap for f in shown] == [False, False, False, True, False]
    assert {f.sample.seconds for f in shown[1:]} == {1.0, 600.0}
    assert all(reads(f) == {"sda": 6.0} for f in shown[1:])


def test_a_last_report_that_is_cut_off_is_left_out(tmp_path: Path) -> None:
    whole = log(*((f"11/21/26 09:00:0{i}", row("sda", 6)) for i in range(3)))
    for cut in range(len(whole) - 40, len(whole) - 3):
        assert len(played(written(tmp_path, whole[:cut]), ImportOptions(zone=UTC))) in (2, 3)
    json_text = (LOGS / "iostat-12.6.json").read_text()
    (tmp_path / "a.json").write_text(json_text[: int(len(json_text) * 0.8)])
    assert len(played(tmp_path / "a.json", ImportOptions(zone=UTC))) == 3


@pytest.mark.parametrize("again", [False, True])
def test_cutting_a_log_off_anywhere_changes_no_remaining_figure(tmp_path: Path, again: bool) -> None:
    rows = "\n".join((row("sda", 1234), row("sdb", 6543)))
    whole = HEAD + "".join(f"11/21/26 09:00:0{i}\n{TABLE}{rows}\n\n" for i in range(3))
    last = whole.rindex("11/21/26")
    shown = [reads(frame) for frame in played(written(tmp_path, whole), ImportOptions(zone=UTC))]
    assert shown[1:] == [{"sda": 1234.0, "sdb": 6543.0}] * 2
    next_run = log(("11/21/26 10:00:00", row("sda", 1)), ("11/21/26 10:00:01", row("sda", 1))) if again else ""
    for cut in range(last, len(whole)):
        path = written(tmp_path, whole[:cut] + next_run)
        assert [reads(f) for f in played(path, ImportOptions(zone=UTC))][:2] == shown[:2], whole[last:cut]
        assert len(played(path, ImportOptions(zone=UTC))) == (4 if again else 2), whole[last:cut]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no report"),
        ("secret " * 100, "no report"),
        (HEAD + "Device tps kB/s await\nsda 1 2 3\n", "line 3: not the extended statistics"),
        (HEAD + "r/s rkB/s Device\n1 2 sda\n", "line 3: human-readable form"),
        (HEAD + "Device r/s w/s rkB/s wkB/s await %util\n", "no column r_await"),
        (log(("11/21/26 09:00:00", "sda secret 1 1 1 1 1 1 1")), "line 5: not a line"),
        ('{"sysstat": {"secret": 1}}', "no JSON"),
        ('{"nodename": "n", "statistics": [{"disk": [{"disk_device": "a", "tps": 1}]}', "not the extended"),
        ('{"nodename": "n", "statistics": [{"disk": [{"disk_device": "a", "r/s": NaN}]}', "report 1"),
        (
            '{"nodename": "n", "statistics": [{"disk": [{"disk_device": "a", "w/s": 0, "r_await": 0, "w_await": 0, '
            f'"util": 0, "r/s": {"9" * 400}}}]}}',
            "report 1: not a report",
        ),
        (
            log(("13/32/26 09:00:00", row("sda", 1)), ("13/32/26 09:00:01", row("sda", 1))),
            "log.txt: report 1: a date that does not exist$",
        ),
        (
            log(("11/21/26 09:00:00", row("sda", 1)), ("11/21/26 99:99:99", row("sda", 1))),
            "log.txt: report 2: a time of day that does not exist$",
        ),
    ],
)
def test_another_kind_of_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        played(written(tmp_path, text), ImportOptions(zone=UTC))
    assert "secret" not in str(error.value)


def test_an_impossible_date_in_the_header_requires_a_start(tmp_path: Path) -> None:
    path = written(tmp_path, HEAD.replace("11/21", "13/32") + TABLE + row("sda", 1) + "\n\n")
    with pytest.raises(InputError, match=r"log\.txt: its header has a date that does not exist; give --start"):
        played(path, ImportOptions(interval_s=1.0, zone=UTC))


def test_missing_times_have_to_be_given(tmp_path: Path) -> None:
    path = LOGS / "iostat-12.6-m-y.txt"
    with pytest.raises(UsageError, match=r"without times .* give --interval"):
        played(path, ImportOptions())
    with pytest.raises(UsageError, match="--interval"):
        played(path, ImportOptions(start_ns=START))
    with pytest.raises(InputError, match="not a regular file"):
        played(tmp_path, ImportOptions())


@pytest.mark.parametrize(
    "when",
    [
        "29/11/2569 07:56:0{}",
        "Sunday, November 29, 2026 07:56:0{} AM UTC",
        "一 07时56分0{}秒",
        "29. nov. 2026 kl. 07.5{} +0100",
    ],
)
@pytest.mark.parametrize("json", [False, True])
def test_times_that_cannot_be_read_are_not_reported_as_missing(tmp_path: Path, when: str, json: bool) -> None:
    times = [when.format(second) for second in range(3)]
    text = log(*((time, row("sda", 6)) for time in times))
    if json:
        text = (LOGS / "iostat-12.6.json").read_text()
        text = re.sub('"timestamp": "[^"]*"', f'"timestamp": "{times[0]}"', text)
    path = written(tmp_path, text)
    with pytest.raises(UsageError, match=r"^its times cannot be read; log with S_TIME_FORMAT=ISO, or give --interval$"):
        played(path, ImportOptions(zone=UTC))
    messages: list[str] = []
    list(iostat_snapshots(str(path), ImportOptions(interval_s=1, zone=UTC, allow_root=True), messages.append))
    assert messages[0].startswith("its times cannot be read (log with S_TIME_FORMAT=ISO): it is assumed to ")


def test_the_dots_of_finnish_times_are_read(tmp_path: Path) -> None:
    path = written(tmp_path, log(*((f"29.11.2026 07.56.0{second}", row("sda", 6)) for second in (2, 4, 6))))
    messages: list[str] = []
    taken = list(iostat_snapshots(str(path), ImportOptions(zone=UTC, allow_root=True), messages.append))
    first = datetime(2026, 11, 29, 7, 56, 2, tzinfo=UTC)
    assert [one.wall_ns for one in taken] == [int(first.timestamp() + n) * 10**9 for n in (0, 2, 4)]
    assert messages == []


def test_times_with_chinese_characters_are_read(tmp_path: Path) -> None:
    times = [f"2026年11月21日 09时38分{second:02}秒" for second in (5, 7, 9)]
    path = written(tmp_path, log(*((time, row("sda", 6)) for time in times)).replace("11/21/26", "2026年11月21日"))
    assert [f.snapshot.wall_ns for f in played(path, ImportOptions(zone=UTC))] == [START, START + 2 * S, START + 4 * S]


def untimed(folder: Path, written_at: datetime) -> tuple[list[Frame], list[str]]:
    """The Frames and the messages of a log without times, whose file was written at this time."""
    path = folder / "log.txt"
    path.write_bytes((LOGS / "iostat-12.6-m-y.txt").read_bytes())  # the header of this log has the date 11/21/26
    os.utime(path, (written_at.timestamp(),) * 2)
    messages: list[str] = []
    options = ImportOptions(None, 2.0, True, zone=UTC)
    return list(frames(iostat_snapshots(str(path), options, messages.append))), messages


def test_a_log_without_times_ends_when_its_file_was_written(tmp_path: Path) -> None:
    found, messages = untimed(tmp_path, datetime(2026, 11, 21, 14, 30, tzinfo=UTC))
    walls = [frame.snapshot.wall_ns for frame in found]
    assert walls[-1] == int(datetime(2026, 11, 21, 14, 30, tzinfo=UTC).timestamp()) * 10**9
    assert {b - a for a, b in pairwise(walls)} == {2 * 10**9}
    assert messages == [
        "the log has no times: it is assumed to end when the file was last written (set its start with --start T)"
    ]


def test_a_file_written_on_another_day_gets_the_date_of_its_header(tmp_path: Path) -> None:
    found, messages = untimed(tmp_path, datetime(2027, 3, 1, 14, 30, tzinfo=UTC))
    assert found[1].snapshot.wall_ns == int(datetime(2026, 11, 21, tzinfo=UTC).timestamp()) * 10**9
    assert "it is assumed to begin at 00:00 on the date in its header" in messages[0]


@given(
    st.lists(st.decimals(min_value=0, max_value=100_000, places=2), min_size=1, max_size=50),
    st.sampled_from([0.5, 1.0, 2.0, 5.0, 60.0]),
)
def test_fractions_of_counts_are_carried_over(rates: list[object], seconds: float) -> None:
    builder = CounterBuilder()
    columns = frozenset(("r/s", "rkB/s", "r_await", "util"))
    before = builder.counters(columns)
    wanted = 0.0
    for rate in rates:
        logged = float(str(rate))
        builder.add_interval({"r/s": logged, "rkB/s": logged, "r_await": 3.0, "util": 50.0, "w/s": 0.0}, seconds)
        after = builder.counters(columns)
        found = block_rates_of(before, after, seconds)
        assert found.reads_per_s == pytest.approx(logged, abs=1.001 / seconds)
        assert found.read_bytes_per_s == pytest.approx(logged * 1024, abs=513 / seconds)
        assert found.read_await_ms is None or found.read_await_ms == pytest.approx(3.0, abs=0.001)
        wanted += logged * seconds
        assert after.rd_ios == pytest.approx(wanted, abs=0.51)
        before = after


@given(st.binary(max_size=400))
def test_any_file_is_read_as_a_log_or_refused_in_one_line(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.mktemp("log") / "log"
    path.write_bytes(HEAD.encode() + TABLE.encode() + data)
    try:
        list(iostat_snapshots(str(path), KEEP_FIRST))
    except IotopError as error:
        message = str(error)
    else:
        message = ""
    assert message.isprintable()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("Linux a (" + ") x x x " * 120_000, "no report"),
        ("Linux a (" + ") x" * 300_000 + "\t", "no report"),
        ("Linux a (" + ") x" * 20 + "\t" + " " * 1_000_000, "no report"),
        ("11/21/26" + " " * 1_000_000 + "x", "no report"),
        ("Device r/s w/s r_await w_await %util " + "x " * 300, "more than 256 columns"),
        ("Device r/s w/s r_await w_await %util\nsda " + "9" * 400 + " 1 1 1 1", "an impossible rate"),
        ("x" * 1_100_000, "longer than 1 MiB"),
        ("Device r/s w/s r_await w_await %util\n" + "".join(f"d{i} 1 1 1 1 1\n" for i in range(5000)), "4096 devices"),
    ],
    ids=["banner", "banner of many fields", "banner of spaces", "time", "columns", "rate", "line", "devices"],
)
def test_a_forged_log_is_refused_quickly(tmp_path: Path, line: str, why: str) -> None:
    file = tmp_path / "log"
    file.write_text(line + "\n")
    began = time.thread_time()
    with pytest.raises(InputError, match=why):
        list(iostat_snapshots(str(file), ImportOptions(0, 1.0)))
    assert time.thread_time() - began < 5


def test_a_log_with_too_many_runs_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_text("Linux 6.1 (h) \t11/21/26 \t_x86_64_\t(4 CPU)\n\n" * 10_001)
    with pytest.raises(InputError, match="more than 10000 runs"):
        list(iostat_snapshots(str(file), ImportOptions(0, 1.0)))
    file.write_text("{" + '"nodename":"x",' * 10_001)
    with pytest.raises(InputError, match="more than 10000 runs"):
        list(iostat_snapshots(str(file), ImportOptions(0, 1.0)))


@pytest.mark.parametrize("entry", ["{}", "[]", '"ab"', '{"disk": 0}'])
@pytest.mark.parametrize("begin", ['"disk": [', '"disk": 0, "more": ['])
def test_a_report_of_many_values_takes_little_memory(
    begin: str, entry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(common, "MOST_VALUES", 10_000)
    path = written(tmp_path, '{"nodename": "n", "statistics": [{' + begin + ",\n".join([entry] * 100_000) + "]}]}")
    size = path.stat().st_size
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="report 1: "):
            list(iostat_reports(str(path)))
        assert tracemalloc.get_traced_memory()[1] < 6 * size + 200_000
    finally:
        tracemalloc.stop()


def test_each_report_of_a_long_log_may_have_many_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (LOGS / "iostat-12.6.json").read_text()
    reports = list(iostat_reports(str(LOGS / "iostat-12.6.json"), allow_root=True))
    monkeypatch.setattr(common, "MOST_VALUES", 2 * text.count(",") // len(reports))
    assert list(iostat_reports(str(LOGS / "iostat-12.6.json"), allow_root=True)) == reports
