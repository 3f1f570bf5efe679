"""Hugging Face datasets: Arrow files through a memory map, in PyTorch's loader; with --stream, parquet over HTTP."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

import torch
from clock import Clock, options
from datasets import Dataset, Features, Value, load_dataset
from images import augment, jpegs
from torch.utils.data import DataLoader, RandomSampler

SHARDS = 8


def prepare(folder: Path, megabytes: int, stream: bool) -> None:
    if stream:
        for shard in range(SHARDS):
            Dataset.from_dict({"image": list(jpegs(megabytes // SHARDS))}).to_parquet(
                str(folder / f"train-{shard:05}.parquet"), batch_size=50
            )
        return

    def rows() -> Iterable[dict[str, object]]:
        for number, image in enumerate(jpegs(megabytes)):
            yield {"image": image, "label": number % 10}

    features = Features({"image": Value("binary"), "label": Value("int64")})
    cache = str(folder.parent / "cache")
    Dataset.from_generator(rows, features=features, cache_dir=cache, writer_batch_size=100).save_to_disk(str(folder))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--stream", action="store_true")
    a = options(parser)
    if a.action == "prepare":
        prepare(Path(a.data), a.megabytes, a.stream)
        return

    def transform(rows: dict[str, list[bytes]]) -> dict[str, list[torch.Tensor]]:
        return {"image": [torch.from_numpy(augment(image, a.work).copy()) for image in rows["image"]]}

    torch.set_num_threads(1)
    clock = Clock(a)
    sampler = None
    if a.stream:
        files = [f"{a.data}/bucket/train-{shard:05}.parquet" for shard in range(SHARDS)]
        images = load_dataset("parquet", data_files=files, split="train", streaming=True)
        images = images.repeat(None).map(transform, batched=True, batch_size=a.batch, remove_columns=["image"])
        images = images.with_format("torch")
    else:
        images = Dataset.load_from_disk(a.data).with_transform(transform)
        sampler = RandomSampler(images, replacement=True, num_samples=1 << 20)
    for _batch in clock.batches(DataLoader(images, batch_size=a.batch, sampler=sampler, num_workers=a.workers)):
        clock.compute()


if __name__ == "__main__":
    main()
