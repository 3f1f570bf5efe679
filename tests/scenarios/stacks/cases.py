"""All cases by name, in the order in which they run: the stacks whose verdict matters most come first."""

from __future__ import annotations

from tests.scenarios.stacks.case import ALONE, CPU, DISK, HEALTHY, HOST, MIXED, RANK, SAVE, Case, Cause
from tests.scenarios.stacks.places import slow_disk, slow_writes

RATE = 8.0
"""MB/s of the slow disk: what a case reads fits into the page cache once, so that no page is read twice."""
COLD = 640
"""Megabytes that a case on the slow disk does not come to the end of."""


def _words(kind: str, loss: float, more: str) -> tuple[str, ...]:
    return ("--kind", kind, "--loss", str(loss), *more.split())


def disk(stack: str, script: str, kind: str, loss: float, more: str = "", cause: Cause = DISK) -> Case:
    """On the slow disk; the samples are used as they are, unless the options say otherwise."""
    work = "" if "--work" in more else "--work 0 "
    return Case(stack, script, cause, _words(kind, loss, work + more), slow_disk(RATE), COLD)


def cpu(stack: str, script: str, kind: str, loss: float, more: str = "", cause: Cause = CPU) -> Case:
    """Data in the page cache; decoding and augmenting holds the trainer up."""
    return Case(stack, script, cause, _words(kind, loss, more))


def healthy(stack: str, script: str, kind: str, slack: float, more: str = "") -> Case:
    """A step takes longer than its batch by this part: slack 0.5 keeps the loaders two thirds busy."""
    return Case(stack, script, HEALTHY, _words(kind, -slack, more))


TORCH, TF = ("torch", "train_torch.py"), ("tensorflow", "train_tensorflow.py")
CASES: dict[str, Case] = {
    "torch fork disk": disk(*TORCH, "futex", 0.6),
    "torch fork decode": cpu(*TORCH, "futex", 0.2),
    "torch spawn disk": disk(*TORCH, "poll", 0.15, "--start spawn"),
    "torch forkserver decode": cpu(*TORCH, "sleep", 0.45, "--start forkserver"),
    "torch threads disk": disk(*TORCH, "futex", 0.5, "--start threads"),
    "torch threads decode": cpu(*TORCH, "spin", 0.3, "--start threads"),
    "torch 0 workers disk": disk(*TORCH, "sleep", 0.25, "--start none --serial"),
    "torch 0 workers decode": cpu(*TORCH, "spin", 0.6, "--start none --serial", ALONE),
    "torch mixed": disk(*TORCH, "futex", 0.4, "--work 5 --workers 1", MIXED),
    "torch healthy": healthy(*TORCH, "futex", 0.6),
    "torch threads healthy": healthy(*TORCH, "poll", 0.8, "--start threads"),
    "torch launch-bound": Case(*TORCH, HOST, _words("spin", -0.6, "--task launch")),
    "torch checkpoint": Case(
        *TORCH, SAVE, _words("futex", -1.0, "--task save --every 9 --save-bytes 24000000"), slow_writes(RATE)
    ),
    "torchrun slow rank": Case(
        *TORCH, RANK, ("--kind", "futex", "--step", "0.2", "--workers", "1", "--task", "ranks", "--more", "5"), ranks=2
    ),
    "tf.data disk": disk(*TF, "futex", 0.6),
    "tf.data disk little": disk(*TF, "spin", 0.12),
    "tf.data decode": cpu(*TF, "sleep", 0.45),
    "tf.data mixed": disk(*TF, "poll", 0.35, "--work 4", MIXED),
    "tf.data healthy": healthy(*TF, "futex", 0.6),
    "Keras fit disk": disk(*TF, "sleep", 0.3, "--fit"),
    "Keras fit decode": cpu(*TF, "poll", 0.7, "--fit"),
    "Keras fit healthy": healthy(*TF, "sleep", 0.8, "--fit"),
}  # fmt: skip
