"""MosaicML Streaming: shards that torch's DataLoader reads; a thread of each worker prepares the next shard."""

from __future__ import annotations

from pathlib import Path

import torch
from clock import Clock, epochs, options
from images import augment, jpegs
from streaming import MDSWriter, StreamingDataset
from torch.utils.data import DataLoader


def prepare(folder: Path, megabytes: int) -> None:
    with MDSWriter(out=str(folder / "set"), columns={"image": "bytes", "label": "int"}, size_limit="16mb") as out:
        for number, image in enumerate(jpegs(megabytes)):
            out.write({"image": image, "label": number % 10})


class Images(StreamingDataset):
    """The images of a folder of shards."""

    def __init__(self, folder: str, batch: int, work: int) -> None:
        super().__init__(local=f"{folder}/set", shuffle=True, batch_size=batch)
        self.work = work

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.from_numpy(augment(super().__getitem__(index)["image"], self.work).copy())


def main() -> None:
    a = options()
    if a.action == "prepare":
        prepare(Path(a.data), a.megabytes)
        return
    torch.set_num_threads(1)
    images = Images(a.data, a.batch, a.work)
    loader = DataLoader(images, batch_size=a.batch, num_workers=a.workers, persistent_workers=True)

    clock = Clock(a)
    for _images in clock.batches(epochs(loader)):
        clock.compute()


if __name__ == "__main__":
    main()
