"""Object stores through clients of Rust and C: AWS's s3torchconnector in worker processes, obstore in a thread."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import torch
from clock import Clock, epochs, options
from images import augment
from torch.utils.data import DataLoader
from train_objects import Get, in_event_loop, write_objects  # it also sets the credentials

COUNT = 512
AT_ONCE = 8


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


@asynccontextmanager
async def obstore_client(address: str) -> AsyncIterator[Get]:
    """Provide a client that makes eight requests at once."""
    from obstore.store import S3Store

    free = asyncio.Semaphore(AT_ONCE)
    store = S3Store(
        "bucket",
        endpoint=address,
        region="us-east-1",
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )

    async def get(name: str) -> bytes:
        async with free:
            answer = await store.get_async(name)
            return bytes(await answer.bytes_async())

    yield get


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--client", choices=("connector", "obstore"), default="connector")
    a = options(parser)
    if a.action == "prepare":
        write_objects(Path(a.data), COUNT)
        return
    torch.set_num_threads(1)
    if a.client == "connector":
        batches = with_connector(a)
    else:
        batches = in_event_loop(a, lambda: obstore_client(a.data), COUNT)
    clock = Clock(a)
    for _images in clock.batches(batches):
        clock.compute()


if __name__ == "__main__":
    main()
