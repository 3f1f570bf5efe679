"""JAX: records that grain reads with threads, or with worker processes if --processes is given."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

import grain
import jax
import jax.numpy as jnp
from clock import Clock, options
from images import augment, jpegs

RECORDS = 64


def prepare(folder: Path, megabytes: int) -> None:
    from array_record.python.array_record_module import ArrayRecordWriter

    images = jpegs(megabytes)
    shard = 0
    while chunk := [image for _, image in zip(range(RECORDS), images, strict=False)]:
        writer = ArrayRecordWriter(str(folder / f"train-{shard:05}.array_record"), "group_size:1")
        for image in chunk:
            writer.write(image)
        writer.close()
        shard += 1


def batches_of(a: argparse.Namespace) -> Iterable[object]:
    work = a.work

    def load(record: bytes) -> object:
        return augment(record, work)

    source = grain.sources.ArrayRecordDataSource(sorted(str(p) for p in Path(a.data).glob("*.array_record")))
    samples = grain.MapDataset.source(source).shuffle(seed=1).repeat().map(load)
    if a.processes:
        batches = samples.to_iter_dataset(grain.ReadOptions(num_threads=2, prefetch_buffer_size=a.batch)).batch(a.batch)
        return batches.mp_prefetch(grain.MultiprocessingOptions(num_workers=a.workers, per_worker_buffer_size=2))
    return samples.to_iter_dataset(grain.ReadOptions(num_threads=a.workers, prefetch_buffer_size=2 * a.batch)).batch(
        a.batch
    )


@jax.jit
def step(weights: jax.Array, images: jax.Array) -> jax.Array:
    def loss(w: jax.Array) -> jax.Array:
        return jnp.mean(jax.nn.logsumexp(images.reshape(images.shape[0], -1)[:, :64] / 255.0 @ w, axis=1))

    return weights - 0.01 * jax.grad(loss)(weights)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--processes", action="store_true")
    a = options(parser)
    if a.action == "prepare":
        prepare(Path(a.data), a.megabytes)
        return
    clock, weights = Clock(a), jnp.ones((64, 10))
    for images in clock.batches(batches_of(a)):
        weights = step(weights, images)
        weights.block_until_ready()
        clock.compute()


if __name__ == "__main__":
    main()
