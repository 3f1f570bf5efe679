"""batchgenerators (of nnU-Net): processes crop and augment volumes; a thread of main collects the batches.

A volume is a .npy file that is mapped into memory, as nnU-Net unpacks its cases. --ordered takes the batches of the
processes in turn (MultiThreadedAugmenter); else main takes whichever is ready (NonDetMultiThreadedAugmenter).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import torch
from batchgenerators.dataloading.data_loader import DataLoader
from batchgenerators.dataloading.multi_threaded_augmenter import MultiThreadedAugmenter
from batchgenerators.dataloading.nondet_multi_threaded_augmenter import NonDetMultiThreadedAugmenter
from batchgenerators.transforms.abstract_transforms import Compose
from batchgenerators.transforms.noise_transforms import GaussianNoiseTransform
from batchgenerators.transforms.spatial_transforms import MirrorTransform, SpatialTransform_2
from batchgenerators.transforms.utility_transforms import NumpyToTensor
from clock import Clock, epochs, options

VOLUME, PATCH = (32, 96, 96), (32, 64, 64)


class Volumes(DataLoader):
    """Random patches of the volumes. Each process takes a share of every epoch."""

    def __init__(self, paths: list[Path], a: argparse.Namespace) -> None:
        super().__init__(paths, a.batch, a.workers, seed_for_shuffle=1, shuffle=True, infinite=False)
        self.indices = list(range(len(paths)))

    def generate_train_batch(self) -> dict[str, Any]:
        patches = []
        for index in self.get_indices():
            volume = numpy.load(self._data[index], mmap_mode="r")
            begins = [numpy.random.randint(0, v - p + 1) for v, p in zip(VOLUME, PATCH, strict=True)]
            crop = tuple(slice(b, b + p) for b, p in zip(begins, PATCH, strict=True))
            patches.append(numpy.array(volume[crop])[None])
        return {"data": numpy.stack(patches)}


def transforms(work: int) -> Compose:
    """Return ``work`` times the spatial transforms; if ``work`` is 0, only the conversion to tensors."""
    spatial = [
        one
        for _ in range(work)
        for one in (
            SpatialTransform_2(PATCH, random_crop=False, do_rotation=True, p_rot_per_sample=1.0),
            MirrorTransform(axes=(0, 1, 2)),
            GaussianNoiseTransform(p_per_sample=0.15),
        )
    ]
    return Compose([*spatial, NumpyToTensor()])


def batches(paths: list[Path], a: argparse.Namespace) -> Iterator[dict[str, torch.Tensor]]:
    seeds = list(range(a.workers))
    if a.ordered:
        loader = MultiThreadedAugmenter(Volumes(paths, a), transforms(a.work), a.workers, 2, seeds=seeds)
        return epochs(loader)
    endless = Volumes(paths, a)
    endless.infinite = True
    return epochs(NonDetMultiThreadedAugmenter(endless, transforms(a.work), a.workers, 6, seeds=seeds))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ordered", action="store_true", help="MultiThreadedAugmenter")
    a = options(parser)
    folder = Path(a.data)
    if a.action == "prepare":
        size = 4 * VOLUME[0] * VOLUME[1] * VOLUME[2]
        for number in range(a.megabytes * 1_000_000 // size):
            volume = numpy.random.default_rng(number).standard_normal(VOLUME, dtype=numpy.float32)
            numpy.save(folder / f"case_{number:05}.npy", volume)
        return
    torch.set_num_threads(1)
    clock = Clock(a)
    for _patches in clock.batches(batches(sorted(folder.glob("*.npy")), a)):
        clock.compute()


if __name__ == "__main__":
    main()
