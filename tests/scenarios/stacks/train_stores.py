"""Object stores through clients of Rust and C: AWS's s3torchconnector in worker processes, obstore in a thread."""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import Queue

import torch
from clock import Clock, epochs, options
from images import augment, jpegs
from torch.utils.data import DataLoader, default_collate

COUNT = 512
AT_ONCE = 8
os.environ |= {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}


def key(index: int) -> str:
    return f"train/{index % COUNT:05}.jpg"


class Decode:
    """Reads and decodes an object. It is a class, so that it can be sent to a spawned worker."""

    def __init__(self, work: int) -> None:
        self.work = work

    def __call__(self, found: object) -> torch.Tensor:
        return torch.from_numpy(augment(found.read(), self.work).copy())


def with_connector(a: argparse.Namespace) -> Iterator[torch.Tensor]:
    from s3torchconnector import S3ClientConfig, S3MapDataset

    images = S3MapDataset.from_prefix(
        "s3://bucket/train/",
        region="us-east-1",
        endpoint=a.data,
        transform=Decode(a.work),
        s3client_config=S3ClientConfig(force_path_style=True),
    )
    return epochs(DataLoader(images, batch_size=a.batch, num_workers=a.workers, multiprocessing_context="spawn"))


def with_obstore(a: argparse.Namespace) -> Iterator[torch.Tensor]:
    """Yield batches that an event loop in a thread of the trainer fetches, with several requests at once."""
    from obstore.store import S3Store

    ready: Queue[torch.Tensor] = Queue(maxsize=2)
    store = S3Store(
        "bucket",
        endpoint=a.data,
        region="us-east-1",
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )

    async def fetch(free: asyncio.Semaphore) -> torch.Tensor:
        async with free:
            answer = await store.get_async(key(random.randrange(COUNT)))
            data = bytes(await answer.bytes_async())
        return torch.from_numpy(augment(data, a.work).copy())

    async def run() -> None:
        free = asyncio.Semaphore(AT_ONCE)
        while True:
            batch = default_collate(await asyncio.gather(*(fetch(free) for _ in range(a.batch))))
            await asyncio.to_thread(ready.put, batch)

    threading.Thread(target=lambda: asyncio.run(run()), daemon=True).start()
    while True:
        yield ready.get()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--client", choices=("connector", "obstore"), default="connector")
    a = options(parser)
    if a.action == "prepare":
        (Path(a.data) / "train").mkdir()
        for number, image in zip(range(COUNT), jpegs(1000), strict=False):
            (Path(a.data) / key(number)).write_bytes(image)
        return
    torch.set_num_threads(1)
    batches = with_connector(a) if a.client == "connector" else with_obstore(a)
    clock = Clock(a)
    for _images in clock.batches(batches):
        clock.compute()


if __name__ == "__main__":
    main()
