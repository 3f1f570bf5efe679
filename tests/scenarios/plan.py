"""The runs of a benchmark, their order and their parameters. The same seed gives the same plan."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tests.scenarios.cause import Cause

PLAIN, BACKGROUND, HELD_OUT = "plain", "background", "held out"
KINDS = (PLAIN, BACKGROUND, HELD_OUT)
"""The kinds of three repeats: one by itself, one beside a busy core, one with parameters that nothing was tuned on."""
SCORED_S = 25
"""The least number of seconds of a run that are scored, after the window of its class."""
AROUND_S = 9.0
"""The seconds that a run needs besides being watched: to make its disk and files, to settle, and to clean up."""


class Run(NamedTuple):
    """One run. number: the number of the repeat of its cause. seed: the seed from which its parameters are drawn."""

    name: str
    number: int
    kind: str
    seed: str
    seconds: int

    @property
    def file(self) -> str:
        """The name of its result's file, without a suffix."""
        return f"{self.name.replace(' ', '_').replace('=', '')}-{self.number}"

    def cause(self, causes: Mapping[str, Cause]) -> Cause:
        """Return the cause of this run, with the parameters of this run."""
        return causes[self.name].drawn(random.Random(self.seed))


def kind_of(cause: Cause, number: int, *, background: bool = False) -> str:
    """Return the kind of the repeat with this number."""
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
    """Return all runs.

    Every cause comes once before any cause comes twice. The order of the causes and of their kinds is random, so even a
    benchmark that is stopped early has a fair sample.
    """
    rng = random.Random(f"order {seed}")
    wanted = list(names)
    numbers = {name: rng.sample(range(repeat), repeat) for name in wanted}
    out = []
    for turn in range(repeat):
        rng.shuffle(wanted)
        for name in wanted:
            number = numbers[name][turn]
            cause = causes[name]
            kind = kind_of(cause, number, background=background)
            seed_prefix = "held out " if kind == HELD_OUT else ""
            least = max(seconds, cause.seconds, round(cause.window_s) + SCORED_S)
            out.append(Run(name, number, kind, f"{seed_prefix}{seed}/{name}/{number}", least))
    return out


def estimate_s(runs: Iterable[Run]) -> float:
    """Return roughly how long the runs take, in seconds."""
    return sum(run.seconds + AROUND_S for run in runs)
