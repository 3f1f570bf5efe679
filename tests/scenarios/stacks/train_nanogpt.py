"""nanoGPT: the main thread takes random blocks of tokens from a numpy.memmap, which it opens anew for each batch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy
import torch
from clock import Clock, options

BLOCK = 1024
MB = 1_000_000


def batches(path: Path, size: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    while True:
        tokens = numpy.memmap(path, dtype=numpy.uint16, mode="r")
        begins = torch.randint(len(tokens) - BLOCK, (size,))
        inputs = torch.stack([torch.from_numpy(tokens[i : i + BLOCK].astype(numpy.int64)) for i in begins])
        targets = torch.stack([torch.from_numpy(tokens[i + 1 : i + 1 + BLOCK].astype(numpy.int64)) for i in begins])
        yield inputs, targets


def main() -> None:
    a = options()
    path = Path(a.data) / "train.bin"
    if a.action == "prepare":
        with path.open("wb") as file:
            for _ in range(a.megabytes):
                file.write(os.urandom(MB))
        return
    torch.set_num_threads(1)
    clock = Clock(a)
    for _tokens in clock.batches(batches(path, a.batch)):
        clock.compute()


if __name__ == "__main__":
    main()
