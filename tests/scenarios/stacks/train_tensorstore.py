"""TensorStore: main asks for the arrays of the next batches and waits for their futures; threads of C++ read them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path

import numpy
import tensorstore
import torch
from clock import Clock, options, shuffled
from train_formats import SHAPE, arrays

AHEAD = 2
"""The number of batches that are asked for before the first of them is needed."""


def spec(folder: Path) -> dict[str, object]:
    return {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{folder}/set.zarr/"}}


def write(folder: Path, megabytes: int) -> None:
    images = numpy.stack(list(arrays(megabytes)))
    store = tensorstore.open(
        spec(folder),
        create=True,
        dtype=tensorstore.uint8,
        shape=images.shape,
        chunk_layout=tensorstore.ChunkLayout(chunk_shape=[1, *SHAPE]),
    ).result()
    store[...] = images


def batches(folder: Path, size: int) -> Iterator[torch.Tensor]:
    """Yield batches of images, epoch after epoch, each in an order of its own."""
    store = tensorstore.open(spec(folder), open=True).result()
    asked: deque[tensorstore.Future] = deque()
    for indices in shuffled(store.shape[0], size):
        asked.append(store[indices].read())
        if len(asked) > AHEAD:
            yield torch.from_numpy(asked.popleft().result())


def main() -> None:
    a = options()
    if a.action == "prepare":
        write(Path(a.data), a.megabytes)
        return
    torch.set_num_threads(1)
    clock = Clock(a)
    for _images in clock.batches(batches(Path(a.data), a.batch)):
        clock.compute()


if __name__ == "__main__":
    main()
