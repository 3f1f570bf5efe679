"""All cases by name, in the order in which they run. The stacks whose verdict matters most come first."""

from __future__ import annotations

from tests.scenarios.stacks.case import (
    ALONE,
    CPU,
    DISK,
    HEALTHY,
    HOST,
    MIXED,
    NETWORK,
    RANK,
    RESPAWN,
    SAVE,
    Case,
    Cause,
)
from tests.scenarios.stacks.places import server, slow_disk, slow_writes

RATE = 8.0
"""The rate of the slow disk in MB/s. It is so low that what a case reads fits into the page cache and is read once."""
COLD = 640
"""The megabytes of data for the slow disk. A case does not reach the end of that much data."""


def _options(kind: str, loss: float, more: str) -> tuple[str, ...]:
    return ("--kind", kind, "--loss", str(loss), *more.split())


def disk(stack: str, script: str, kind: str, loss: float, more: str = "", cause: Cause = DISK) -> Case:
    """Return a case on the slow disk. Its samples are used as they are, unless the options say otherwise."""
    work = "" if "--work" in more else "--work 0 "
    return Case(stack, script, cause, _options(kind, loss, work + more), slow_disk(RATE), COLD)


def cpu(stack: str, script: str, kind: str, loss: float, more: str = "", cause: Cause = CPU) -> Case:
    """Return a case with its data in the page cache. Decoding and augmenting hold the trainer up."""
    return Case(stack, script, cause, _options(kind, loss, more))


def healthy(stack: str, script: str, kind: str, slack: float, more: str = "") -> Case:
    """Return a case in which a step takes longer than its batch.

    slack: the share by which the step is longer; 0.5 keeps the loaders busy for two thirds of the time.
    """
    return Case(stack, script, HEALTHY, _options(kind, -slack, more))


def network(stack: str, script: str, kind: str, loss: float, more: str) -> Case:
    """Return a case with a server that answers after 40 ms and sends 6 MB/s. Its samples are used as they are."""
    return Case(stack, script, NETWORK, _options(kind, loss, f"--work 0 {more}"), server(6.0, 40.0), 160)


def served(stack: str, script: str, cause: Cause, kind: str, loss: float, more: str) -> Case:
    """Return a case with a server that is fast and near, so that the server does not hold the trainer up."""
    return Case(stack, script, cause, _options(kind, loss, more), server(100.0, 1.0), 160)


JAX, HF, WDS = ("jax", "train_jax.py"), ("huggingface", "train_huggingface.py"), ("webdataset", "train_webdataset.py")
OBJECTS, RAY = ("objects", "train_objects.py"), ("ray", "train_ray.py")
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
    "torch ioctl disk": disk(*TORCH, "ioctl", 0.35),
    "torch mixed": disk(*TORCH, "futex", 0.4, "--work 5 --workers 1", MIXED),
    "torch healthy": healthy(*TORCH, "futex", 1.2),
    "torch ioctl healthy": healthy(*TORCH, "ioctl", 1.2),
    "torch threads healthy": healthy(*TORCH, "poll", 0.8, "--start threads"),
    "torch launch-bound": Case(*TORCH, HOST, _options("spin", -0.6, "--task launch")),
    "torch launch-bound 0 workers": Case(*TORCH, HOST, _options("spin", 0.02, "--task launch --start none --serial")),
    "torch disk much": disk(*TORCH, "sleep", 0.9),
    "torch short epochs": Case(*TORCH, RESPAWN, ("--kind", "futex", "--step", "0.06", "--work", "0", "--epoch", "10")),
    "torch checkpoint": Case(
        *TORCH, SAVE, _options("futex", -1.0, "--task save --every 9 --save-bytes 24000000"), slow_writes(RATE)
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
    "grain threads disk": disk(*JAX, "futex", 0.5),
    "grain threads decode": cpu(*JAX, "poll", 0.25),
    "grain processes decode": cpu(*JAX, "futex", 0.5, "--processes"),
    "grain processes disk": disk(*JAX, "spin", 0.2, "--processes"),
    "grain healthy": healthy(*JAX, "futex", 0.8),
    "boto3 network": network(*OBJECTS, "futex", 0.7, "--client boto3"),
    "s3fs network": network(*OBJECTS, "poll", 0.2, "--client s3fs"),
    "s3fs network more": network(*OBJECTS, "futex", 0.6, "--client s3fs"),
    "aiohttp network": network(*OBJECTS, "sleep", 0.4, "--client aiohttp"),
    "boto3 decode": served(*OBJECTS, CPU, "sleep", 0.6, "--client boto3 --work 3"),
    "boto3 healthy": served(*OBJECTS, HEALTHY, "futex", -0.6, "--client boto3"),
    "webdataset files disk": disk(*WDS, "futex", 0.3),
    "webdataset pipe:cat disk": disk(*WDS, "sleep", 0.6, "--through cat"),
    "webdataset pipe:curl network": network(*WDS, "poll", 0.5, "--through curl"),
    "webdataset decode": cpu(*WDS, "futex", 0.15),
    "datasets arrow disk": disk(*HF, "futex", 0.5),
    "datasets stream network": network(*HF, "sleep", 0.25, "--stream"),
    "datasets decode": cpu(*HF, "poll", 0.35),
    "Ray Data disk": disk(*RAY, "futex", 0.6),
    "Ray Data decode": cpu(*RAY, "sleep", 0.3),
    "Ray Data healthy": healthy(*RAY, "futex", 0.8),
}  # fmt: skip
