"""Albumentations: a torch DataLoader whose data set reads images with OpenCV and augments them."""

from __future__ import annotations

import random
from pathlib import Path

import albumentations
import cv2
import torch
from albumentations.pytorch import ToTensorV2
from clock import Clock, epochs, options
from images import write_folder
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    """The images of a folder, each cropped, flipped and recoloured ``work`` times."""

    def __init__(self, folder: Path, work: int) -> None:
        self.paths = sorted(str(path) for path in folder.glob("*/*.jpg"))
        random.Random(1).shuffle(self.paths)
        steps = [
            one
            for _ in range(work)
            for one in (
                albumentations.RandomResizedCrop(size=(224, 224)),
                albumentations.HorizontalFlip(p=0.5),
                albumentations.ColorJitter(p=0.8),
            )
        ]
        self.transform = albumentations.Compose([*steps, albumentations.Normalize(), ToTensorV2()])

    def __len__(self) -> int:
        return 1 << 24

    def __getitem__(self, index: int) -> torch.Tensor:
        image = cv2.cvtColor(cv2.imread(self.paths[index % len(self.paths)]), cv2.COLOR_BGR2RGB)
        return self.transform(image=image)["image"]


def main() -> None:
    a = options()
    if a.action == "prepare":
        write_folder(Path(a.data), a.megabytes)
        return
    torch.set_num_threads(1)
    cv2.setNumThreads(0)
    loader = DataLoader(Images(Path(a.data), a.work), batch_size=a.batch, num_workers=a.workers)
    clock = Clock(a)
    for _images in clock.batches(epochs(loader)):
        clock.compute()


if __name__ == "__main__":
    main()
