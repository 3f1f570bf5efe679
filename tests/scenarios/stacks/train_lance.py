"""Lance: its stream of batches, which threads of Rust read ahead, or its loader with spawned worker processes."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from functools import partial
from typing import Any

import lance
import pyarrow
import torch
from clock import Clock, epochs, options
from images import augment, jpegs

ROWS_OF_A_FILE = 512


def collate(work: int, rows: list[dict[str, Any]]) -> torch.Tensor:
    return torch.stack([torch.from_numpy(augment(row["image"], work).copy()) for row in rows])


def stream(a: argparse.Namespace, place: str) -> Iterator[torch.Tensor]:
    """Yield batches that main decodes from the rows that the threads have read."""
    while True:
        for batch in lance.dataset(place).to_batches(columns=["image"], batch_size=a.batch):
            yield collate(a.work, batch.to_pylist())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--how", choices=("stream", "workers"), default="stream")
    a = options(parser)
    place = f"{a.data}/set.lance"
    if a.action == "prepare":
        # Lance compresses columns, and the images repeat. Behind each image, noise of the same size keeps rows apart.
        rows = [image + os.urandom(len(image)) for image in jpegs(a.megabytes // 2)]
        table = pyarrow.table({"image": pyarrow.array(rows, pyarrow.large_binary())})
        lance.write_dataset(table, place, max_rows_per_file=ROWS_OF_A_FILE)
        return
    torch.set_num_threads(1)
    if a.how == "stream":
        batches = stream(a, place)
    else:
        from lance.torch.data import SafeLanceDataset, get_safe_loader

        loader = get_safe_loader(
            SafeLanceDataset(place),
            batch_size=a.batch,
            num_workers=a.workers,
            shuffle=True,
            collate_fn=partial(collate, a.work),
        )
        batches = epochs(loader)
    clock = Clock(a)
    for _images in clock.batches(batches):
        clock.compute()


if __name__ == "__main__":
    main()
