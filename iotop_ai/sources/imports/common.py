"""Functions for all imports: reading long logs, parsing dates in the usual locales, and making Snapshots."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Any, NamedTuple

from iotop_ai.collectors.io.own_file import open_to_read
from iotop_ai.model.block.counters import BlockInfo, nvme_head
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import InputError
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.snapshot import Host, OwnCost, Snapshot
from iotop_ai.store.format.size_limits import MOST_VALUES, count_values

LONGEST_LINE = 1 << 20
"""The longest line that is read, in bytes."""
MOST_DEVICES, MOST_COLUMNS, MOST_RUNS = 4096, 256, 10_000
"""The most devices and columns in a report, and the most runs of the logging program in a log."""
_LONGEST_LOGGED_TIME = 64
SET_BACK_NS = 60 * 1_000_000_000
"""A step back in a log's times by more than this, in ns, may be the end of summer time.

A smaller step is a correction of the clock.
"""
_READINGS = tuple(name for name, default in Snapshot._field_defaults.items() if isinstance(default, Reading))


class ImportOptions(NamedTuple):
    """The user's options for a log.

    start_ns: the Unix time of the first report; None to use the logged times
    interval_s: the time between two reports; None to find it in the log
    keep_first: whether the first report is an interval too (``iostat -y``)
    host: the name of the machine, if the log does not have it
    zone: the time zone of times without an offset; None for this machine's time zone
    allow_root: whether root may open a log of any owner
    """

    start_ns: int | None = None
    interval_s: float | None = None
    keep_first: bool = False
    host: str = ""
    zone: tzinfo | None = None
    allow_root: bool = False


class LoggedTime(NamedTuple):
    """A date and time as a locale writes it.

    numbers: the three numbers of the date, in the order of the text
    year_first: whether the date begins with the year
    surely_day_first: whether the date certainly begins with the day, because its separator is "."
    seconds, microseconds: the time since midnight
    offset: the offset from UTC, such as "+0100"; "" without one
    exists: whether the time of day exists, unlike 09:99:99
    """

    numbers: tuple[int, int, int]
    year_first: bool
    surely_day_first: bool
    seconds: int
    microseconds: int
    offset: str = ""
    exists: bool = True


_LOGGED_TIME = re.compile(
    r"(\d{1,4})([-/.]) ?(\d{1,2})\2 ?(\d{1,4})\.?,?[T\s]+(\d{1,2})[:.] ?(\d{2})[:.] ?(\d{2})(?:[.,](\d{1,6}))?"
    r"(?:\s*([AaPp])\.?\s?[Mm]\.?)?\s*(Z|UTC|GMT|[-+]\d{2}:?\d{2})?(?:\s+[A-Z]{2,5})?"
)
"""Matches a logged time. The last part, the name of a time zone other than UTC, is ambiguous and not used."""
_WORDS = {
    **dict.fromkeys("年月년월", "/"),
    **dict.fromkeys("时時시分분", ":"),
    **dict.fromkeys("日일秒초", ""),
    **dict.fromkeys(("πμ", "पूर्वाह्न"), "AM"),
    **dict.fromkeys(("μμ", "अपराह्न"), "PM"),
}
"""The usual text for each word that only some locales write."""
_LAST_YEAR = 2200
"""A later year is that of another calendar: in Thailand, 2026 is 2569."""


def parse_logged_time(text: str) -> LoggedTime | None:
    """Parse a time as iostat -t and nvidia-smi write it in the usual locales; None for any other text."""
    text = text.strip()
    if len(text) > _LONGEST_LOGGED_TIME:
        return None
    if not text.isascii():
        for word, usual in _WORDS.items():
            text = text.replace(word, usual)
    match = _LOGGED_TIME.fullmatch(text)
    if match is None:
        return None
    hour, am_or_pm = int(match[5]), (match[9] or "").lower()
    if am_or_pm:
        hour = hour % 12 + (12 if am_or_pm == "p" else 0)
    numbers = (int(match[1]), int(match[3]), int(match[4]))
    if max(numbers) > _LAST_YEAR:
        return None
    minute, second = int(match[6]), int(match[7])
    seconds = hour * 3600 + minute * 60 + second
    exists = hour < 24 and minute < 60 and second <= 60  # a leap second is number 60
    micro = int((match[8] or "0").ljust(6, "0"))
    offset = match[10] or ""
    offset = "Z" if offset in ("UTC", "GMT") else offset
    return LoggedTime(numbers, len(match[1]) == 4, match[2] == ".", seconds, micro, offset, exists)


def logged_time_ns(logged_time: LoggedTime, day_first: bool, zone: tzinfo | None, before_ns: int | None = None) -> int:
    """Return the time in Unix ns. Raises InputError for a date or a time of day that does not exist.

    day_first: whether the log writes 21/11/2026 rather than 11/21/2026
    before_ns: the previous time in the log. At the end of summer time, one hour occurs twice; the second occurrence is
        meant if the first would be more than a minute before the previous time
    """
    if not logged_time.exists:
        raise InputError("a time of day that does not exist")
    a, b, c = logged_time.numbers
    year, month, day = (
        (a, b, c) if logged_time.year_first else (c, b, a) if logged_time.surely_day_first or day_first else (c, a, b)
    )
    try:
        when = datetime(year + 2000 if year < 100 else year, month, day) + timedelta(seconds=logged_time.seconds)
        if logged_time.offset:
            digits = logged_time.offset.replace(":", "")
            offset_s = 0 if digits == "Z" else int(digits[:3]) * 3600 + int(digits[0] + digits[3:]) * 60
            zone = timezone(timedelta(seconds=offset_s))
        ns = _unix_ns(when, logged_time.microseconds, zone)
        if before_ns is not None and ns < before_ns - SET_BACK_NS:
            # For a time that occurs only once, fold=1 gives the same result or an earlier one.
            ns = max(ns, _unix_ns(when.replace(fold=1), logged_time.microseconds, zone))
        return ns
    except (ValueError, OverflowError):
        raise InputError("a date that does not exist") from None


def _unix_ns(when: datetime, microseconds: int, zone: tzinfo | None) -> int:
    local = when.replace(tzinfo=zone) if zone is not None else when.astimezone()
    return (int(local.timestamp()) * 1_000_000 + microseconds) * 1000


def open_log(path: str, *, allow_root: bool = False) -> int:
    """Open a regular file and return its descriptor. Raises InputError.

    allow_root: whether root may open a file of any owner
    """
    try:
        fd = open_to_read(path, allow_root=allow_root)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {getattr(error, 'strerror', None) or 'no file name'}") from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise InputError(f"{path}: not a regular file")
    return fd


def log_lines(path: str, *, torn: bool = True, allow_root: bool = False) -> Iterator[tuple[int, str]]:
    """Yield (number, line) for each line of a text file, without line ends.

    Invalid UTF-8 becomes U+FFFD. Raises InputError.

    torn: whether to yield a last line without a line end, which may be incomplete
    allow_root: as in ``open_log``
    """
    with open(open_log(path, allow_root=allow_root), "rb") as file:
        number = 0
        while raw := file.readline(LONGEST_LINE + 1):
            number += 1
            if len(raw) > LONGEST_LINE:
                raise InputError(f"{path}: line {number}: longer than 1 MiB; is this a log?")
            if not torn and not raw.endswith(b"\n"):
                return
            yield number, raw.decode("utf-8-sig" if number == 1 else "utf-8", "replace").rstrip("\r\n")


def check_json_values(text: bytes | str) -> None:
    """Raise InputError for JSON with more than MOST_VALUES values.

    Call this function before the JSON is parsed, because a parsed "{}," takes 25 times as much memory as its text.
    """
    if count_values(text) > MOST_VALUES:
        raise InputError(f"more than {MOST_VALUES} values in its JSON")


def snapshot(
    origin: str, seq: int, at_ns: int, wall_ns: int, interval_s: float, host: Host, **readings: Reading[Any]
) -> Snapshot:
    """Make a Snapshot with the Readings of a log. All other Readings are off, with the reason."""
    missing: Reading[Any] = Reading(None, Status.OFF, f"not in the {origin} log")
    all_readings: dict[str, Any] = {name: readings.get(name, missing) for name in _READINGS}
    return Snapshot(seq, at_ns, wall_ns, interval_s, host, (), OwnCost(0, None, None, None, None), **all_readings)


def host_of(origin: str, run: int, name: str, kernel: str = "") -> Host:
    """Return the host of a log. Each run of the logging program is a separate session, as after a reboot."""
    return Host(clean(name) or "imported", f"imported-{run}", clean(kernel), None, "", False, "", origin)


_LETTERED = r"(sd|hd|vd|xvd|ub)[a-z]+"
_KINDS = (
    (
        re.compile(
            rf"(?P<disk>{_LETTERED}|dasd[a-z]+)\d+|"
            r"(?P<other>nvme\d+n\d+|(mmcblk|nbd|rbd|pmem|drbd|bcache|loop|md|ublkb|zd)\d+)p\d+"
        ),
        "partition",
    ),
    (re.compile(r"nvme\d+c\d+n\d+"), "nvme-path"),
    (re.compile(r"md\d+|md_\S+"), "md"),
    (re.compile(r"loop\d+"), "loop"),
    (re.compile(r"zram\d+"), "zram"),
    (re.compile(r"ublkb\d+"), "ublk"),
    (re.compile(r"zloop\d+"), "zloop"),
    (re.compile(r"ram\d+"), "ram"),
    (re.compile(r"sr\d+|scd\d+"), "rom"),
    (re.compile(r"fd\d+"), "floppy"),
    (re.compile(r"zd\d+"), "zvol"),
    (re.compile(rf"{_LETTERED}|nvme\d+n\d+|mmcblk\d+(boot\d)?|(nbd|rbd|pmem|drbd|bcache)\d+|dasd[a-z]+"), "disk"),
)
"""(a pattern for whole device names, the kind of these devices). In the pattern for partitions, the groups "disk" and
"other" hold the name of the partition's disk.
"""
_TRANSPORTS = ((re.compile(r"nvme\d"), "nvme"), (re.compile(r"x?vd[a-z]"), "virtio"), (re.compile(r"mmcblk"), "mmc"))


def device_info(name: str) -> BlockInfo:
    """Return the record of a device by its kernel name.

    A name that no pattern matches counts as a device-mapper name (``iostat -N``). Major and minor are 0, which no block
    device has.
    """
    kind, parent = "dm", ""
    for pattern, kind_of_pattern in _KINDS:
        match = pattern.fullmatch(name)
        if match is not None:
            kind = kind_of_pattern
            groups = match.groupdict()
            parent = groups.get("disk") or groups.get("other") or nvme_head(name)
            break
    transport = next((word for pattern, word in _TRANSPORTS if pattern.match(name)), "unknown")
    if transport == "virtio" and name.startswith("xvd"):
        transport = "xen"
    return BlockInfo(name, 0, 0, kind, name, parent=parent, transport=transport)
