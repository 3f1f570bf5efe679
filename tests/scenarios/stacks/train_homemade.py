"""Loaders that users write themselves around PyTorch: a pool of processes, executors, or threads with a queue."""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import queue
import random
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import torch
from clock import Clock, options
from images import augment, write_folder

AHEAD = 4
"""The number of batches that an executor or a queue prepares ahead."""


def load(work: int, paths: list[str]) -> torch.Tensor:
    return torch.stack([torch.from_numpy(augment(Path(path).read_bytes(), work).copy()) for path in paths])


def from_pool(a: argparse.Namespace, chunks: Iterator[list[str]]) -> Iterator[torch.Tensor]:
    """Yield the batches of a pool of processes. It gets an epoch's paths at once."""
    with multiprocessing.Pool(a.workers) as pool:
        while True:
            yield from pool.imap(partial(load, a.work), itertools.islice(chunks, 256))


def from_executor(
    a: argparse.Namespace, chunks: Iterator[list[str]], kind: Callable[[int], Executor]
) -> Iterator[torch.Tensor]:
    """Yield the batches of an executor that always has a few batches to do."""
    with kind(a.workers) as executor:
        asked = deque(executor.submit(load, a.work, chunk) for chunk in itertools.islice(chunks, AHEAD))
        while True:
            batch = asked.popleft().result()
            asked.append(executor.submit(load, a.work, next(chunks)))
            yield batch


def from_queue(a: argparse.Namespace, chunks: Iterator[list[str]]) -> Iterator[torch.Tensor]:
    """Yield the batches that threads put into a queue."""
    ready: queue.Queue[torch.Tensor] = queue.Queue(maxsize=AHEAD)
    lock = threading.Lock()

    def run() -> None:
        while True:
            with lock:
                chunk = next(chunks)
            ready.put(load(a.work, chunk))

    for _ in range(a.workers):
        threading.Thread(target=run, daemon=True).start()
    while True:
        yield ready.get()


LOADERS: dict[str, Callable[[argparse.Namespace, Iterator[list[str]]], Iterator[torch.Tensor]]] = {
    "pool": from_pool,
    "processes": partial(from_executor, kind=ProcessPoolExecutor),
    "threads": partial(from_executor, kind=ThreadPoolExecutor),
    "queue": from_queue,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--how", choices=tuple(LOADERS), default="pool")
    a = options(parser)
    if a.action == "prepare":
        write_folder(Path(a.data), a.megabytes)
        return
    torch.set_num_threads(1)
    paths = sorted(str(path) for path in Path(a.data).glob("*/*.jpg"))
    random.Random(1).shuffle(paths)
    endless = itertools.cycle(paths)
    chunks = iter(lambda: list(itertools.islice(endless, a.batch)), [])
    clock = Clock(a)
    for _images in clock.batches(LOADERS[a.how](a, chunks)):
        clock.compute()


if __name__ == "__main__":
    main()
