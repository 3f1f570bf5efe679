"""Cases of healthy trainers: the batches of every stack arrive in time, so that every loss that is named is false."""

from __future__ import annotations

from collections.abc import Iterator

from tests.scenarios.stacks.case import HEALTHY, Case
from tests.scenarios.stacks.cases import COLD, HF, JAX, OBJECTS, RATE, RAY, TF, TORCH, WDS, healthy
from tests.scenarios.stacks.places import server, slow_disk
from tests.scenarios.stacks.unseen import LIGHTNING, TRANSFORMERS

KINDS = ("futex", "spin", "poll", "sleep", "ioctl")
SLACKS = (0.5, 0.8, 1.2)
"""How much longer than its batch a step is."""
SPINNING_SLACK = 1.5
"""The same for a main thread that spins, and so takes a core from the loaders."""
LOADERS: dict[str, tuple[tuple[str, str], str, int]] = {
    "torch fork": (TORCH, "", 4),
    "torch spawn": (TORCH, "--start spawn", 1),
    "torch forkserver": (TORCH, "--start forkserver", 1),
    "torch threads": (TORCH, "--start threads", 3),
    "tf.data": (TF, "", 4),
    "Keras fit": (TF, "--fit", 2),
    "grain threads": (JAX, "", 3),
    "grain processes": (JAX, "--processes", 2),
    "webdataset files": (WDS, "", 2),
    "webdataset pipe:cat": (WDS, "--through cat", 1),
    "datasets": (HF, "", 3),
    "Ray Data": (RAY, "", 2),
    "Lightning": (LIGHTNING, "", 2),
    "Transformers": (TRANSFORMERS, "", 2),
}
"""For each loader: the trainer, its options, and the number of its cases."""


def _on_slow_disk(stack: str, script: str, kind: str, more: str = "") -> Case:
    """Return a healthy case whose disk is busy most of the time."""
    return Case(stack, script, HEALTHY, ("--kind", kind, "--loss", "-0.5", "--work", "0", *more.split()),
                slow_disk(RATE), COLD)  # fmt: skip


def _from_server(kind: str, client: str, rate: float, latency_ms: float) -> Case:
    """Return a healthy case whose samples come from a server."""
    options = ("--kind", kind, "--loss", "-0.6", "--client", client)
    return Case(*OBJECTS, HEALTHY, options, server(rate, latency_ms), 160)


def _all() -> Iterator[tuple[str, Case]]:
    yield "torch fed by a slow disk", _on_slow_disk(*TORCH, "futex")
    yield "torch threads fed by a slow disk", _on_slow_disk(*TORCH, "sleep", "--start threads")
    yield "tf.data fed by a slow disk", _on_slow_disk(*TF, "poll")
    yield "grain fed by a slow disk", _on_slow_disk(*JAX, "spin")
    yield "webdataset fed by a slow disk", _on_slow_disk(*WDS, "futex")
    yield "boto3 fed by a slow server", _from_server("sleep", "boto3", 6.0, 40.0)
    yield "s3fs fed by a slow server", _from_server("futex", "s3fs", 6.0, 40.0)
    yield "aiohttp fed by a near server", _from_server("poll", "aiohttp", 100.0, 1.0)
    yield "s3fs fed by a near server", _from_server("spin", "s3fs", 100.0, 1.0)
    number = 0
    for loader, (trainer, options, cases) in LOADERS.items():
        for _ in range(cases):
            kind = KINDS[number % len(KINDS)]
            slack = SPINNING_SLACK if kind == "spin" else SLACKS[number % len(SLACKS)]
            number += 1
            yield f"{loader} fed {kind} {slack}", healthy(*trainer, kind, slack, options)


FED: dict[str, Case] = dict(_all())
