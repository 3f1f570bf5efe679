"""Results of earlier checks of the same storage."""

from __future__ import annotations

from collections.abc import Sequence

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.preflight.storage import FILE_BYTES, FILES, KIB, RANDOM, WRITE, Measured, fastest_read

SLOWER = 0.7
"""Storage counts as slower below this share of its earlier speed; the speed of shared disks varies by a quarter."""
_FIGURES = ("read", "random", "files", "write")
"""The fields of Kept that are compared."""


class Kept(NamedTuple):
    """The figures of one check; None if not measured.

    wall_s: the Unix time of the check
    engine: "fio" or "own"
    read: bytes per second of the fastest sequential read
    random: the highest rate of random 4 KiB reads, per second
    files: how many files of 128 KiB one reader reads per second; None if the options set another size
    write: bytes per second, written with fsync
    """

    wall_s: int
    engine: str
    read: float | None = None
    random: float | None = None
    files: float | None = None
    write: float | None = None


class Change(NamedTuple):
    """A figure that has become worse.

    name: the name of the figure, a field of Kept
    then, now: the value in the earlier check and in this check
    then_s: the Unix time of the earlier check
    """

    name: str
    then: float
    now: float
    then_s: int

    @property
    def ratio(self) -> float:
        """The value in this check divided by the earlier value."""
        return self.now / self.then


class Compared(NamedTuple):
    """A figure of this check beside those of the earlier checks.

    name: the name of the figure, a field of Kept
    now: the value in this check
    least, most: the lowest and the highest value in the earlier checks
    """

    name: str
    now: float
    least: float
    most: float


def kept_of(results: Sequence[Measured], engine: str, wall_s: int) -> Kept:
    """The figures of a check that are kept for later comparison."""
    random = [phase.ops_per_s for phase in results if phase.name == RANDOM and phase.block_bytes == 4 * KIB]
    files = [phase.ops_per_s for phase in results if phase[:3] == (FILES, FILE_BYTES, 1)]
    write = [phase.bytes_per_s for phase in results if phase.name == WRITE]
    return Kept(
        wall_s,
        "own" if engine == "own" else "fio",
        fastest_read(results),
        max((value for value in random if value is not None), default=None),
        next((value for value in files if value is not None), None),
        next((value for value in write if value is not None), None),
    )


def comparable(earlier: Sequence[Kept], now: Kept) -> list[Kept]:
    """The earlier checks by the same engine that have a figure in common with this check."""
    return [check for check in earlier if check.engine == now.engine and any(map(_are_comparable, check[2:], now[2:]))]


def _are_comparable(then: float | None, now: float | None) -> bool:
    return bool(then) and now is not None


def slower_than_before(earlier: Sequence[Kept], now: Kept) -> tuple[Change, ...]:
    """The figures below SLOWER times the median of the earlier checks (the lower one of two middle values)."""
    out = []
    for name in _FIGURES:
        value: float | None = getattr(now, name)
        before = sorted((figure, check.wall_s) for check in earlier if (figure := getattr(check, name)))
        if value is None or not before:
            continue
        then, then_s = before[(len(before) - 1) // 2]
        if value < SLOWER * then:
            out.append(Change(name, then, value, then_s))
    return tuple(out)


def compared(earlier: Sequence[Kept], now: Kept) -> tuple[Compared, ...]:
    """Each figure that this check and at least one earlier check have."""
    out = []
    for name in _FIGURES:
        value: float | None = getattr(now, name)
        before = [figure for check in earlier if (figure := getattr(check, name))]
        if value is not None and before:
            out.append(Compared(name, value, min(before), max(before)))
    return tuple(out)
