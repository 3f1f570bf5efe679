"""Numbers as text in about three digits. A measured zero is a dim ``0``, a small value ``<0.1``, an undefined value
``-``, an unknown value ``?``.

Rates and sums of I/O use powers of 1,024, as in ``iostat -m`` and ``iotop``, or powers of 1,000 after
``use_units("decimal")``. Other sizes always use powers of 1,024; counts, watts, link speeds and a disk's nominal size
always use powers of 1,000.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import UTC, datetime, timedelta
else:
    try:
        # The C classes are used directly, because importing datetime.py takes 2 % of the start-up time.
        from _datetime import UTC, datetime, timedelta
    except ImportError:  # an interpreter without the C module
        from datetime import UTC, datetime, timedelta

UNKNOWN = "?"
UNDEFINED = "-"
KIB, MIB, GIB = 1024, 1024**2, 1024**3
UNIT_WORDS = {"binary": "1 MB/s is 1,048,576 B/s", "decimal": "1 MB/s is 1,000,000 B/s"}
_KILO = {"binary": 1024, "decimal": 1000}
_rate_system = ["binary"]
"""The unit system of rates, as the only item. It is global, as a locale is: all texts of a process use the same units.
"""
_LETTERS = ("", "K", "M", "G", "T", "P")


def use_units(units: str) -> None:
    """Set the unit system of rates: "binary" or "decimal", as in model.settings.UNITS."""
    _rate_system[0] = units


def rate_bytes(power: int) -> int:
    """The number of bytes in a KB (power 1), MB (2) or GB (3) of a rate."""
    return int(_KILO[_rate_system[0]] ** power)


def rate_unit(most: float) -> tuple[str, int]:
    """The unit for a graph whose largest rate is ``most``, and the bytes in that unit."""
    return ("GB/s", rate_bytes(3)) if most >= 999.5 * rate_bytes(2) else ("MB/s", rate_bytes(2))


def token_of(text: str, otherwise: str = "text") -> str:
    """The token for a figure that is a measured zero, undefined or unknown; ``otherwise`` for any other figure."""
    if text == "0":
        return "zero"
    if text == UNDEFINED:
        return "none"
    if text.startswith(UNKNOWN):
        return "unsure"
    return otherwise


def figure(value: float | None) -> str:
    """A measured quantity with one decimal below 100: "87.0", "735", "1701"; from 10,000 on with k, M and so
    on: "13k".
    """
    return _figure(value, 99.95)


def brief(value: float | None) -> str:
    """A figure for a sentence or beside a graph, with one decimal only below 10: "9.4", "92", "<0.1"."""
    if value is not None and value >= 9.95:
        return _whole(value)
    return figure(value)


def count(value: float | None) -> str:
    """A number of things, or of events per second, with one decimal only below 1: "735", "13k", "0.4", "<0.1"."""
    return _figure(value, 0.95)


def _figure(value: float | None, whole_from: float) -> str:
    """The value, with one decimal below ``whole_from`` and without decimals from there on."""
    if value is None:
        return UNKNOWN
    if value <= 0:
        return "0"
    if value < 0.05:
        return "<0.1"
    if value < whole_from:
        return f"{value:.1f}"
    return _whole(value)


def _whole(value: float) -> str:
    """The value without decimals; from 10,000 on with k, M and so on."""
    if value < 9999.5:
        return f"{value:.0f}"
    part = value
    for letter in "kMGTP":
        part /= 1000
        if part < 9.95:
            return f"{part:.1f}{letter}"
        if part < 999.5:
            return f"{part:.0f}{letter}"
    return f"{value:.0e}"


def percent(ratio: float | None) -> str:
    """A ratio in percent, 1 as "100", without decimals: "0" for a measured zero, "<1" for a small value, "?" when
    unknown.
    """
    if ratio is None:
        return UNKNOWN
    if ratio <= 0:
        return "0"
    text = f"{ratio * 100:.0f}"
    return "<1" if text == "0" else text


def scaled(size: float | None) -> tuple[str, str]:
    """An amount or rate of I/O as (figure, letter of the unit): ("91.8", "M"), ("0", ""), ("<0.1", "K"), ("?", "")."""
    if size is None:
        return UNKNOWN, ""
    if size <= 0:
        return "0", ""
    kilo = rate_bytes(1)
    if size < 0.05 * kilo:
        return "<0.1", "K"
    value = size / kilo
    for letter in _LETTERS[1:-1]:
        if value < 99.95:
            return f"{value:.1f}", letter
        if value < 999.5:
            return f"{value:.0f}", letter
        value /= kilo
    return figure(value), _LETTERS[-1]


def size(bytes_: float | None) -> str:
    """A number of bytes as one word: "128K", "4.5K", "512", "61G", "1.3T"."""
    if bytes_ is None:
        return UNKNOWN
    if bytes_ <= 0:
        return "0"
    value, letters = float(bytes_), iter(_LETTERS)
    letter = next(letters)
    while value >= 999.5 and letter != _LETTERS[-1]:
        value, letter = value / KIB, next(letters)
    if letter and value < 9.95:
        return f"{value:.1f}".removesuffix(".0") + letter
    return figure(value) + letter if letter == _LETTERS[-1] else f"{max(value, 1):.0f}{letter}"


def capacity(bytes_: float | None) -> str:
    """A disk's nominal size, in powers of 1,000: "3.84 TB", "512 GB"."""
    if bytes_ is None:
        return UNKNOWN
    for unit, word in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if bytes_ >= 0.9995 * unit:
            return f"{bytes_ / unit:.0f} {word}" if bytes_ >= 999.5 * unit else f"{bytes_ / unit:.3g} {word}"
    return f"{bytes_:.0f} B"


def mib(bytes_per_s: float | None) -> str:
    """A rate in MB/s without its unit, as in the columns rMB/s and wMB/s."""
    return figure(None if bytes_per_s is None else bytes_per_s / rate_bytes(2))


def amount(bytes_: float | None) -> str:
    """A number of bytes in a sentence: "1.3 TB", "128 KB", "0 B", "?"."""
    text = size(bytes_)
    return f"{text[:-1]} {text[-1]}B" if text[-1:].isalpha() else text if text == UNKNOWN else f"{text} B"


def plural(number: int, noun: str) -> str:
    """A number with its noun: "1 file", "3 files"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def rate(bytes_per_s: float | None) -> tuple[str, str]:
    """A rate as (figure, unit): ("92.0", "MB/s"), ("1.7", "GB/s"), ("0", "MB/s")."""
    if bytes_per_s is not None and bytes_per_s >= 999.5 * rate_bytes(2):
        return figure(bytes_per_s / rate_bytes(3)), "GB/s"
    return mib(bytes_per_s), "MB/s"


def link_speed(bits_per_s: float | None) -> str:
    """A link's speed in bits per second: "100G", "1G", "?"."""
    if bits_per_s is None:
        return UNKNOWN
    for unit, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "K")):
        if bits_per_s >= unit:
            value = bits_per_s / unit
            return f"{value:.0f}{letter}" if value >= 9.95 or value == int(value) else f"{value:.1f}{letter}"
    return f"{bits_per_s:.0f}"


def duration(seconds: float | None) -> str:
    """A duration, in up to two units from 2 h on: "41 s", "4 min", "2 h 5 min", "3 d 2 h"."""
    if seconds is None:
        return UNKNOWN
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min"
    if whole < 172800:
        hours, rest = divmod(whole // 60, 60)
        return f"{hours} h {rest} min" if rest else f"{hours} h"
    days, rest = divmod(whole // 3600, 24)
    return f"{days} d {rest} h" if rest else f"{days} d"


def gpu_time(hours: float) -> str:
    """GPU time: "6.2 GPU-hours"; below 1 GPU-hour "22 min of GPU time". hours: hours times GPUs."""
    return f"{duration(hours * 3600)} of GPU time" if hours < 1 else f"{figure(hours)} GPU-hours"


def interval(seconds: float) -> str:
    """A sampling interval: "1 s", "0.2 s"."""
    return f"{seconds:g} s"


def clock(wall_ns: int, utc_offset_s: int | None = None, pattern: str = "%H:%M:%S") -> str:
    """A wall-clock time for people, in the machine's time zone or at a fixed offset from UTC."""
    if utc_offset_s is None:
        return datetime.fromtimestamp(wall_ns / 1e9).strftime(pattern)
    return (datetime.fromtimestamp(wall_ns / 1e9, UTC) + timedelta(seconds=utc_offset_s)).strftime(pattern)
