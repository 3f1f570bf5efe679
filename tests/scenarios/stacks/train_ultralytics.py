"""Ultralytics (YOLO): its data set with mosaic augmentation, and its loader that never ends."""

from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("YOLO_OFFLINE", "true")

import torch
from clock import Clock, epochs, options
from images import jpegs
from ultralytics.cfg import get_cfg
from ultralytics.data import build_dataloader, build_yolo_dataset


def main() -> None:
    a = options()
    images = Path(a.data) / "images/train"
    if a.action == "prepare":
        labels = Path(a.data) / "labels/train"
        for folder in (images, labels):
            folder.mkdir(parents=True)
        for number, image in enumerate(jpegs(a.megabytes)):
            (images / f"{number:05}.jpg").write_bytes(image)
            (labels / f"{number:05}.txt").write_text("0 0.5 0.5 0.4 0.4\n")
        return
    torch.set_num_threads(1)
    settings = get_cfg(overrides={"task": "detect", "imgsz": 320, "cache": False})
    data = {"names": {0: "thing"}, "nc": 1, "channels": 3, "path": a.data, "train": str(images)}
    detection = build_yolo_dataset(settings, str(images), a.batch, data, mode="train")
    loader = build_dataloader(detection, a.batch, a.workers, shuffle=True)
    clock = Clock(a)
    for _images in clock.batches(epochs(loader)):
        clock.compute()


if __name__ == "__main__":
    main()
