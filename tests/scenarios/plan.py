"""Which runs there are, in which order, with which parameters: the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tests.scenarios.cause import Cause

PLAIN, BACKGROUND, HELD_OUT = "plain", "background", "held out"
KINDS = (PLAIN, BACKGROUND, HELD_OUT)
"""Of three repeats: one by itself, one beside a busy core, one with parameters that nothing was tuned on."""
SCORED_S = 25
"""Seconds of a run at least that are scored, after its class's window."""
AROUND_S = 9.0
"""What a run takes beside being watched: making its disk and files, settling, clearing away."""


class Run(NamedTuple):
    """One run. number: which repeat of its cause. seed: draws its parameters."""

    name: str
    number: int
    kind: str
    seed: str
    seconds: int

    @property
    def file(self) -> str:
        """The name of its result, without an ending."""
        return f"{self.name.replace(' ', '_').replace('=', '')}-{self.number}"

    def cause(self, causes: Mapping[str, Cause]) -> Cause:
        """Its cause with its parameters."""
        return causes[self.name].drawn(random.Random(self.seed))


def kind_of(cause: Cause, number: int, *, background: bool = False) -> str:
    """What the repeat of that number is."""
    kind = BACKGROUND if background else KINDS[number % len(KINDS)]
    return PLAIN if kind == BACKGROUND and not cause.background else kind


def plan(
    causes: Mapping[str, Cause],
    names: Iterable[str],
    repeat: int,
    seed: int,
    seconds: int,
    *,
    background: bool = False,
) -> list[Run]:
    """All runs. Every cause comes once before any comes twice, in a random order each time; so do the kinds, so that
    the runs done at an early end are a fair sample."""
    chance = random.Random(f"order {seed}")
    wanted = list(names)
    numbers = {name: chance.sample(range(repeat), repeat) for name in wanted}
    out = []
    for turn in range(repeat):
        chance.shuffle(wanted)
        for name in wanted:
            number = numbers[name][turn]
            cause = causes[name]
            kind = kind_of(cause, number, background=background)
            apart = "held out " if kind == HELD_OUT else ""
            least = max(seconds, cause.seconds, round(cause.window_s) + SCORED_S)
            out.append(Run(name, number, kind, f"{apart}{seed}/{name}/{number}", least))
    return out


def estimate_s(runs: Iterable[Run]) -> float:
    """About how long the runs take."""
    return sum(run.seconds + AROUND_S for run in runs)
