"""SPDL: a pipeline of asyncio tasks on a thread of its own, which reads and decodes files in a pool of threads."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path

import numpy
from clock import Clock, options
from images import augment, write_folder
from spdl.pipeline import PipelineBuilder


def main() -> None:
    a = options()
    if a.action == "prepare":
        write_folder(Path(a.data), a.megabytes)
        return
    paths = sorted(str(path) for path in Path(a.data).glob("*/*.jpg"))
    random.Random(1).shuffle(paths)

    def read(path: str) -> bytes:
        return Path(path).read_bytes()

    def decode(image: bytes) -> object:
        return augment(image, a.work)

    pipeline = (
        PipelineBuilder()
        .add_source(itertools.cycle(paths))
        .pipe(read, concurrency=a.workers)
        .pipe(decode, concurrency=a.workers)
        .aggregate(a.batch)
        .pipe(numpy.stack)
        .add_sink(2)
        .build(num_threads=2 * a.workers)
    )

    def batches() -> Iterator[numpy.ndarray]:
        with pipeline.auto_stop():
            yield from pipeline

    clock = Clock(a)
    for _images in clock.batches(batches()):
        clock.compute()


if __name__ == "__main__":
    main()
