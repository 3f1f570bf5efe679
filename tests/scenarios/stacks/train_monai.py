"""MONAI: volumes whose first transforms are kept in memory or on the disk, and whose random ones run each time.

--cache memory: a CacheDataset, and a ThreadDataLoader that transforms in a thread of main. --cache disk: a
PersistentDataset, which keeps its tensors in files, and a DataLoader with worker processes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

import nibabel
import numpy
import torch
from clock import Clock, epochs, options
from monai.data import CacheDataset, DataLoader, PersistentDataset, ThreadDataLoader
from monai.transforms import (
    Compose,
    EnsureChannelFirstd,
    LoadImaged,
    RandAffined,
    RandFlipd,
    RandGaussianNoised,
    RandSpatialCropd,
    ScaleIntensityd,
)
from torch.utils.data import Dataset, RandomSampler

SIDE, PATCH = 96, 64


def transforms(work: int) -> Compose:
    random = [
        one
        for _ in range(work)
        for one in (
            RandFlipd("image", prob=0.5, spatial_axis=0),
            RandAffined("image", prob=1.0, rotate_range=(0.3, 0.3, 0.3), scale_range=(0.1, 0.1, 0.1)),
            RandGaussianNoised("image", prob=0.5),
        )
    ]
    crop = RandSpatialCropd("image", roi_size=(PATCH, PATCH, PATCH), random_size=False)
    return Compose([LoadImaged("image"), EnsureChannelFirstd("image"), ScaleIntensityd("image"), crop, *random])


def loader_of(folder: Path, a: argparse.Namespace) -> Iterable[object]:
    files = [{"image": str(path)} for path in sorted(folder.glob("*.nii.gz"))]
    if a.cache == "memory":
        kept = CacheDataset(files, transforms(a.work), num_workers=a.workers, progress=False)
        return ThreadDataLoader(kept, num_workers=0, batch_size=a.batch, sampler=endless(kept))
    stored = PersistentDataset(files, transforms(a.work), cache_dir=folder / "cache")
    return DataLoader(stored, num_workers=a.workers, batch_size=a.batch, sampler=endless(stored))


def endless(volumes: Dataset) -> RandomSampler:
    """Return a sampler whose epoch does not end. The epochs of so few volumes would be a few batches long."""
    return RandomSampler(volumes, replacement=True, num_samples=1 << 24)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cache", choices=("memory", "disk"), required=True)
    a = options(parser)
    folder = Path(a.data)
    if a.action == "prepare":
        number, written = 0, 0
        while written < a.megabytes * 1_000_000:
            volume = numpy.random.default_rng(number).integers(0, 4096, (SIDE, SIDE, SIDE), dtype=numpy.int16)
            path = folder / f"case_{number:05}.nii.gz"
            nibabel.save(nibabel.Nifti1Image(volume, numpy.eye(4)), path)
            number, written = number + 1, written + path.stat().st_size
        return
    torch.set_num_threads(1)
    loader = loader_of(folder, a)
    clock = Clock(a)
    for _volumes in clock.batches(epochs(loader)):
        clock.compute()


if __name__ == "__main__":
    main()
