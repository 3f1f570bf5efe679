"""LitData: chunks of serialised samples that the loader's worker processes read; a thread of each reads ahead."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from clock import Clock, epochs, options
from images import augment, jpegs


def sample_of(image: bytes) -> dict[str, object]:
    return {"image": image, "label": 1}


def prepare(folder: Path, megabytes: int) -> None:
    caches = folder.parent / "caches"
    os.environ["DATA_OPTIMIZER_CACHE_FOLDER"] = os.environ["DATA_OPTIMIZER_DATA_CACHE_FOLDER"] = str(caches)
    from litdata import optimize

    optimize(sample_of, list(jpegs(megabytes)), output_dir=str(folder), num_workers=1, chunk_bytes="16MB")


def main() -> None:
    a = options()
    if a.action == "prepare":
        prepare(Path(a.data), a.megabytes)
        return
    from litdata import StreamingDataLoader, StreamingDataset

    class Images(StreamingDataset):
        def __getitem__(self, index: object) -> torch.Tensor:
            return torch.from_numpy(augment(super().__getitem__(index)["image"], a.work).copy())

    torch.set_num_threads(1)
    loader = StreamingDataLoader(
        Images(a.data, shuffle=True), batch_size=a.batch, num_workers=a.workers, persistent_workers=True
    )

    clock = Clock(a)
    for _images in clock.batches(epochs(loader)):
        clock.compute()


if __name__ == "__main__":
    main()
