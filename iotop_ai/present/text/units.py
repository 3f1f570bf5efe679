"""Numbers to text: three digits, a dim 0 for a measured zero, ``<0.1``, ``-`` undefined, ``?`` unknown.

MB and the letters K M G T are the kernel tools' own: powers of 1,024, as in ``iostat -m`` and ``iotop``; in rates they
are powers of 1,000 after ``use_units("decimal")``. Link speeds and watts are decimal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import UTC, datetime, timedelta
else:
    try:
        # The C classes without datetime.py, whose import takes 2 % of a start.
        from _datetime import UTC, datetime, timedelta
    except ImportError:  # as in datetime: another interpreter
        from datetime import UTC, datetime, timedelta

UNKNOWN = "?"
UNDEFINED = "-"
KIB, MIB, GIB = 1024, 1024**2, 1024**3
UNIT_WORDS = {"binary": "1 MB/s is 1,048,576 B/s", "decimal": "1 MB/s is 1,000,000 B/s"}
_KILO = {"binary": 1024, "decimal": 1000}
_rates = ["binary"]
"""Global, as a locale is: every sentence and table of a process has the same units."""
_LETTERS = ("", "K", "M", "G", "T", "P")


def use_units(units: str) -> None:
    """Set the size of a KB, MB and GB in rates: one of model.settings.UNITS."""
    _rates[0] = units


def rate_bytes(power: int) -> int:
    """The bytes of a KB (1), MB (2), GB (3) in rates."""
    return int(_KILO[_rates[0]] ** power)


def rate_unit(most: float) -> tuple[str, int]:
    """(unit, its bytes) of a graph whose largest rate is ``most``."""
    return ("GB/s", rate_bytes(3)) if most >= 999.5 * rate_bytes(2) else ("MB/s", rate_bytes(2))


def token_of(text: str, otherwise: str = "text") -> str:
    """The token of a figure: measured zero, undefined, unknown, or ``otherwise``."""
    if text == "0":
        return "zero"
    if text == UNDEFINED:
        return "none"
    if text.startswith(UNKNOWN):
        return "unsure"
    return otherwise


def figure(value: float | None) -> str:
    """A measured quantity in at most four characters below 10,000, then with k, M: "87.0", "735", "1701", "13k"."""
    return _figure(value, 99.95)


def brief(value: float | None) -> str:
    """A figure in a sentence or beside a graph: one decimal only below 10 ("9.4", "92", "<0.1")."""
    if value is not None and value >= 9.95:
        return _whole(value)
    return figure(value)


def count(value: float | None) -> str:
    """Events per second: whole numbers from 1 on ("735", "13k"), one decimal below ("0.4", "<0.1")."""
    return _figure(value, 0.95)


def _figure(value: float | None, whole_from: float) -> str:
    """The value with one decimal below ``whole_from``, from there on whole."""
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
    """A share 0..1 as whole percent: "0" measured zero, "<1" small, "?" unknown."""
    if ratio is None:
        return UNKNOWN
    if ratio <= 0:
        return "0"
    text = f"{ratio * 100:.0f}"
    return "<1" if text == "0" else text


def scaled(size: float | None) -> tuple[str, str]:
    """Bytes that processes move as (three digits, letter): ("91.8", "M"), ("0", ""), ("<0.1", "K"), ("?", "")."""
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
    """Bytes in one word: "128K", "4.5K", "512", "61G", "1.3T"."""
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
    """Bytes per second in the rMB/s and wMB/s columns."""
    return figure(None if bytes_per_s is None else bytes_per_s / rate_bytes(2))


def amount(bytes_: float | None) -> str:
    """Bytes in a sentence: "1.3 TB", "128 KB", "0 B", "?"."""
    text = size(bytes_)
    return f"{text[:-1]} {text[-1]}B" if text[-1:].isalpha() else text if text == UNKNOWN else f"{text} B"


def plural(number: int, noun: str) -> str:
    """A number with its noun: "1 file", "3 files"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def rate(bytes_per_s: float | None) -> tuple[str, str]:
    """Bytes per second as (figure, unit): ("92.0", "MB/s"), ("1.7", "GB/s"), ("0", "MB/s")."""
    if bytes_per_s is not None and bytes_per_s >= 999.5 * rate_bytes(2):
        return figure(bytes_per_s / rate_bytes(3)), "GB/s"
    return mib(bytes_per_s), "MB/s"


def link_speed(bits_per_s: float | None) -> str:
    """A link's speed: "100G", "1G", "?"."""
    if bits_per_s is None:
        return UNKNOWN
    for unit, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "K")):
        if bits_per_s >= unit:
            value = bits_per_s / unit
            return f"{value:.0f}{letter}" if value >= 9.95 or value == int(value) else f"{value:.1f}{letter}"
    return f"{bits_per_s:.0f}"


def duration(seconds: float | None) -> str:
    """A span of time, from 2 h on in two units: "41 s", "4 min", "2 h 5 min", "3 d 2 h"."""
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
    """Hours times GPUs: "6.2 GPU-hours"; less than 0.1 of one as "22 s of GPU time"."""
    return f"{duration(hours * 3600)} of GPU time" if hours < 0.1 else f"{figure(hours)} GPU-hours"


def interval(seconds: float) -> str:
    """The interval: "1 s", "0.2 s"."""
    return f"{seconds:g} s"


def clock(wall_ns: int, utc_offset_s: int | None = None, pattern: str = "%H:%M:%S") -> str:
    """A wall time for people, in the machine's zone or at a fixed offset from UTC."""
    if utc_offset_s is None:
        return datetime.fromtimestamp(wall_ns / 1e9).strftime(pattern)
    return (datetime.fromtimestamp(wall_ns / 1e9, UTC) + timedelta(seconds=utc_offset_s)).strftime(pattern)
