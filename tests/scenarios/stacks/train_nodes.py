"""torchdata.nodes: a graph of nodes in the place of a DataLoader. Each worker maps and collates a whole batch."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from clock import Clock, Halves, options
from images import write_folder
from torch.utils.data import Dataset, SequentialSampler, default_collate
from torchdata.nodes import Batcher, Loader, ParallelMapper, Prefetcher, SamplerWrapper
from train_torch import Images


class MapAndCollate:
    """Loads the samples of a batch and makes one tensor of them."""

    def __init__(self, images: Dataset) -> None:
        self.images = images

    def __call__(self, indices: Sequence[int]) -> object:
        return default_collate([self.images[index] for index in indices])


def loader_of(images: Dataset, a: argparse.Namespace) -> Iterable[object]:
    node = Batcher(SamplerWrapper(SequentialSampler(images)), batch_size=a.batch, drop_last=True)
    node = ParallelMapper(node, map_fn=MapAndCollate(images), num_workers=a.workers, method=a.method, in_order=True)
    return Loader(Prefetcher(node, prefetch_factor=2 * a.workers))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--method", choices=("thread", "process"), required=True)
    a = options(parser)
    if a.action == "prepare":
        write_folder(Path(a.data), a.megabytes)
        return
    torch.set_num_threads(1)
    loader = loader_of(Images(Path(a.data), a.work, Halves(a.clock)), a)
    clock = Clock(a)
    for _images in clock.batches(loader):
        clock.compute()


if __name__ == "__main__":
    main()
