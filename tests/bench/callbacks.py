"""Checks whether each callback measures the wait for data: ``python -m tests.bench.callbacks [--only NAME ...]``.

A real loop of each framework runs on a CPU in the framework's environment (``python -m
tests.scenarios.stacks.install``). The loops run one after the other for 24 s each; with
start-up, they take less than 8 minutes.

The truth is the time that the framework's loader takes for its batches. It is compared with the wait that the callback
measures and with the wait that the monitor sees from outside. The truth has three parts: "computes" is what the loader
computes in the trainer's thread, "no core" is its wait for a core, and "asleep" is the rest. From outside, the first
two look like computation of the trainer, and only "asleep" like a wait.

A case is met if the callback is within 3 points of the truth and the outside view is within 10 points of "asleep", or
if the wait is "not separable". Other programs make "no core" larger, and so also the difference between the outside
view and the truth.

Exit code 0: all are met. 1: one is not met. 2: one cannot run, or its outside view is unknown.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.bench.peers import markdown
from tests.scenarios.stacks.install import why_no_stack
from tests.train.callbacks.run_loop import run_loop

WITHIN, OUTSIDE_WITHIN = 0.03, 0.10
MET, NOT_MET, UNKNOWN = "met", "not met", "outside unknown"
EXIT = {MET: 0, UNKNOWN: 2, NOT_MET: 1}
HEADS = (
    *("loop", "truth", "callback", "differs", "computes", "no core", "asleep", "outside", "differs ", "of truth"),
    *("load", "answer"),
)


class Case(NamedTuple):
    """One loop. stack: the framework whose environment it needs. loop: its name in tests/train/callbacks/loops.py.

    backend: the back end of Keras; "" without Keras.
    """

    stack: str
    loop: str
    backend: str = ""


CASES: Mapping[str, Case] = {
    "plain PyTorch": Case("lightning", "plain"),
    "Lightning": Case("lightning", "lightning"),
    "Transformers": Case("transformers", "transformers"),
    "Keras 3, torch": Case("keras", "keras_torch", "torch"),
    "Keras 3, JAX": Case("keras", "keras", "jax"),
    "Keras 3, TensorFlow": Case("tensorflow", "keras"),
    "tf.keras": Case("tensorflow", "tf_keras"),
}


class Waits(NamedTuple):
    """The waits of a run, as shares of its time. computes, no_core: parts of the truth; None if unknown.

    callback, outside: the wait as the callback and the monitor see it. Both are None if the wait is not separable,
    and outside also if the monitor does not know it.
    """

    truth: float
    computes: float | None
    no_core: float | None
    callback: float | None
    outside: float | None

    @property
    def asleep(self) -> float:
        """The part of the truth that can be seen as a wait from outside; the whole truth if its parts are unknown."""
        return self.truth - (self.computes or 0.0) - (self.no_core or 0.0)

    @property
    def answer(self) -> str:
        """Return whether the callback agrees with the truth, and the outside view with the part that it can see."""
        if self.callback is None:
            return MET
        if abs(self.callback - self.truth) > WITHIN:
            return NOT_MET
        if self.outside is None:
            return UNKNOWN
        return MET if abs(self.outside - self.asleep) <= OUTSIDE_WITHIN else NOT_MET


def waits_of(figures: Mapping[str, Any]) -> Waits:
    """Return the waits from the figures that a loop printed."""
    separable = figures["data_wait"] == "measured"
    has_parts = figures["truth_cpu"] > 0  # the generators of Keras only sleep, so they have no parts
    return Waits(
        figures["truth"],
        figures["truth_cpu"] if has_parts else None,
        figures["truth_queue"] if has_parts else None,
        figures["measured"] if separable else None,
        (figures["outside"] or {}).get("data_seen_ratio") if separable else None,
    )


def row(name: str, waits: Waits) -> list[str]:
    """Return a line of the table of results."""
    truth, computes, no_core, callback, outside = waits

    def share(value: float | None) -> str:
        return "" if value is None else f"{value:.1%}".replace("%", " %")

    def difference(value: float | None, expected: float) -> str:
        return "" if value is None else f"{(value - expected) * 100:+.1f}"

    seen = "not separable" if callback is None else share(callback)
    load = f"{os.getloadavg()[0]:.1f}"
    return [
        *(name, share(truth), seen, difference(callback, truth), share(computes), share(no_core), share(waits.asleep)),
        *(share(outside), difference(outside, waits.asleep), difference(outside, truth), load, waits.answer),
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the loops and print the table; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES), metavar="NAME")
    rows, worst = [], 0
    for name in parser.parse_args(argv).only:
        case = CASES[name]
        if why := why_no_stack(case.stack):
            print(f"{name}: {why}", flush=True)
            worst = worst or 2
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                waits = waits_of(run_loop(case.stack, case.loop, Path(folder), case.backend))
            except RuntimeError as error:
                print(f"{name}: {error}", flush=True)
                worst = worst or 2
                continue
        rows.append(row(name, waits))
        print(" ".join(filter(None, rows[-1])), flush=True)
        code = EXIT[waits.answer]
        worst = 1 if code == 1 else worst or code
    print(markdown(HEADS, rows))
    return worst


if __name__ == "__main__":
    raise SystemExit(main())
