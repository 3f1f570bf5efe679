"""WebDataset: tar shards from files, through a child (pipe:cat) or over HTTP (pipe:curl), as --through says."""

from __future__ import annotations

import argparse
import io
import tarfile
from pathlib import Path

import torch
import webdataset as wds
from clock import Clock, options
from images import augment, jpegs
from torch.utils.data import default_collate

RECORDS = 128
URLS = {"file": "{}", "cat": "pipe:cat {}", "curl": "pipe:curl -s -f {}"}


def prepare(folder: Path, megabytes: int) -> None:
    images = jpegs(megabytes)
    shard = 0
    while chunk := [image for _, image in zip(range(RECORDS), images, strict=False)]:
        with tarfile.open(folder / f"train-{shard:04}.tar", "w") as tar:
            for number, image in enumerate(chunk):
                for name, data in ((f"{number:06}.jpg", image), (f"{number:06}.cls", b"1")):
                    info = tarfile.TarInfo(name)
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
        shard += 1


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--through", choices=tuple(URLS), default="file")
    parser.add_argument("--shards", type=int, default=8, help="the number of shards on a server")
    a = options(parser)
    if a.action == "prepare":
        prepare(Path(a.data), a.megabytes)
        return
    torch.set_num_threads(1)
    far = a.data.startswith("http")
    shards = a.shards if far else len(list(Path(a.data).glob("*.tar")))
    base = f"{a.data}/bucket" if far else a.data
    names = [URLS[a.through].format(f"{base}/train-{shard:04}.tar") for shard in range(shards)]

    def image_of(data: bytes) -> torch.Tensor:
        return torch.from_numpy(augment(data, a.work).copy())

    dataset = (
        wds.WebDataset(names, shardshuffle=False)
        .repeat()
        .shuffle(32, initial=8)
        .to_tuple("jpg", "cls")
        .map_tuple(image_of, lambda label: int(label))
        .batched(a.batch, collation_fn=default_collate)
    )
    loader = wds.WebLoader(dataset, batch_size=None, num_workers=a.workers)
    clock = Clock(a)
    for _images, _labels in clock.batches(loader):
        clock.compute()


if __name__ == "__main__":
    main()
