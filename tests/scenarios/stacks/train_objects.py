"""Object stores: boto3 or s3fs in the workers of PyTorch's loader, or aiohttp in a thread of the trainer."""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from queue import Queue

import torch
from clock import Clock, options
from images import augment, jpegs
from torch.utils.data import DataLoader, Dataset, default_collate

COUNT = 128
Get = Callable[[str], Awaitable[bytes]]
"""Fetches the object of a name."""
os.environ |= {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}


def key(number: int) -> str:
    return f"train/{number:05}.jpg"


class Objects(Dataset):
    """A data set in which each object of the bucket is a sample."""

    def __init__(self, address: str, client: str, work: int) -> None:
        self.address, self.client, self.work = address, client, work
        self.opened: object = None

    def __len__(self) -> int:
        return 1 << 24

    def _open(self) -> object:
        if self.client == "boto3":
            import boto3

            return boto3.client("s3", endpoint_url=self.address)
        import s3fs

        return s3fs.S3FileSystem(client_kwargs={"endpoint_url": self.address})

    def __getitem__(self, index: int) -> torch.Tensor:
        self.opened = self.opened or self._open()
        if self.client == "boto3":
            data = self.opened.get_object(Bucket="bucket", Key=key(index % COUNT))["Body"].read()
        else:
            data = self.opened.cat_file(f"bucket/{key(index % COUNT)}")
        return torch.from_numpy(augment(data, self.work).copy())


def write_objects(folder: Path, count: int = COUNT) -> None:
    """Write this many images into a bucket's folder."""
    (folder / "train").mkdir()
    for number, image in zip(range(count), jpegs(1000), strict=False):
        (folder / key(number)).write_bytes(image)


def in_event_loop(
    a: argparse.Namespace, opened: Callable[[], AbstractAsyncContextManager[Get]], count: int = COUNT
) -> Iterator[torch.Tensor]:
    """Yield batches that an event loop in a thread of the trainer fetches. opened: provides a client in that loop."""
    ready: Queue[torch.Tensor] = Queue(maxsize=2)

    async def fetch(get: Get) -> torch.Tensor:
        data = await get(key(random.randrange(count)))
        return torch.from_numpy(augment(data, a.work).copy())

    async def run() -> None:
        async with opened() as get:
            while True:
                batch = default_collate(await asyncio.gather(*(fetch(get) for _ in range(a.batch))))
                await asyncio.to_thread(ready.put, batch)

    threading.Thread(target=lambda: asyncio.run(run()), daemon=True).start()
    while True:
        yield ready.get()


@asynccontextmanager
async def aiohttp_client(address: str) -> AsyncIterator[Get]:
    """Provide a client with eight connections."""
    import aiohttp

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=8)) as session:

        async def get(name: str) -> bytes:
            async with session.get(f"{address}/bucket/{name}") as answer:
                return await answer.read()

        yield get


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--client", choices=("boto3", "s3fs", "aiohttp"), default="boto3")
    a = options(parser)
    if a.action == "prepare":
        write_objects(Path(a.data))
        return
    torch.set_num_threads(1)
    clock = Clock(a)
    if a.client == "aiohttp":
        loader = in_event_loop(a, lambda: aiohttp_client(a.data))
    else:
        # A client does not survive a fork, because its threads and connections belong to the parent.
        objects = Objects(a.data, a.client, a.work)
        loader = DataLoader(objects, batch_size=a.batch, num_workers=a.workers, multiprocessing_context="spawn")
    for _batch in clock.batches(loader):
        clock.compute()


if __name__ == "__main__":
    main()
