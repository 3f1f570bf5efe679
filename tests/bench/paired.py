"""The difference between two programs in alternating blocks: its median, its 95 % interval, and a limit for it."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from iotop_ai.export.compare.bootstrap import block_length, student_factor

ROUNDS = 4000
LEAST_PAIRS = 8
MET, NOT_MET, CANNOT_TELL = "met", "not met", "cannot tell"


class Estimate(NamedTuple):
    """The median of paired differences and its 95 % interval."""

    middle: float
    low: float
    high: float

    def within(self, limit: float) -> str:
        """Return MET if the whole interval is at most the limit, NOT_MET if it is above it, and else CANNOT_TELL."""
        if self.high <= limit:
            return MET
        return NOT_MET if self.low > limit else CANNOT_TELL


def loss(plain: float, other: float) -> float:
    """Return the share of the plain speed that the other speed lacks; negative if the other speed is higher."""
    return 1 - other / plain


def estimate(differences: Sequence[float], seed: int = 1, rounds: int = ROUNDS) -> Estimate | None:
    """Return the median of differences that are in the order of time; None if there are fewer than LEAST_PAIRS.

    The interval comes from a circular block bootstrap, because other work of the machine affects neighbouring values
    alike. It is widened by Student's factor as in iotop_ai/export/compare/bootstrap.py.
    """
    n = len(differences)
    if n < LEAST_PAIRS:
        return None
    size = min(n // 4, math.ceil(max(block_length(differences), math.cbrt(n))))
    rng, ring = random.Random(seed), [*differences, *differences]
    medians = []
    for _ in range(rounds):
        drawn: list[float] = []
        while len(drawn) < n:
            begin = rng.randrange(n)
            drawn.extend(ring[begin : begin + min(size, n - len(drawn))])
        medians.append(statistics.median(drawn))
    medians.sort()
    middle, factor = statistics.median(differences), student_factor(n / size - 1)
    low, high = (medians[round(q * (rounds - 1))] for q in (0.025, 0.975))
    return Estimate(middle, middle - (middle - low) * factor, middle + (high - middle) * factor)


def orders(pairs: int, seed: int) -> list[tuple[bool, bool]]:
    """Return the order within each pair, drawn at random so that each side comes first equally often.

    False stands for the plain side, True for the other side.
    """
    balanced = [(False, True), (True, False)] * ((pairs + 1) // 2)
    out = balanced[:pairs]
    random.Random(seed).shuffle(out)
    return out
