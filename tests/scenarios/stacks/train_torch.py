"""PyTorch: a map-style data set of images, its DataLoader with processes, or torchdata's nodes with threads.

--start none loads in the main thread. --task launch computes in Python between small kernels. --task save writes a
checkpoint every --every seconds. --task ranks is one rank of torchrun; the rank --late augments each sample --more
times.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from collections.abc import Iterable
from pathlib import Path

import torch
from clock import COLLECTIVE, HOST, SAVE, Clock, Halves, epochs, options
from images import augment, write_folder
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    """The images of a folder. The class of an image is the name of its folder."""

    def __init__(self, folder: Path, work: int, halves: Halves, length: int = 1 << 24) -> None:
        self.length = length
        self.paths = sorted(folder.glob("*/*.jpg"))
        random.Random(1).shuffle(self.paths)
        self.work, self.halves = work, halves

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        path = self.paths[index % len(self.paths)]
        begun_ns = time.monotonic_ns()
        raw = path.read_bytes()
        read_ns = time.monotonic_ns()
        image = augment(raw, self.work)
        self.halves.add(read_ns - begun_ns, time.monotonic_ns() - read_ns)
        return torch.from_numpy(image.copy()), int(path.parent.name[5:])


def loader_of(a: argparse.Namespace, work: int) -> Iterable[object]:
    images = Images(Path(a.data), work, Halves(a.clock), a.epoch * a.batch or 1 << 24)
    if a.start == "threads":
        from torchdata.nodes import Batcher, IterableWrapper, Loader, ParallelMapper, Prefetcher

        node = ParallelMapper(
            IterableWrapper(range(len(images))), images.__getitem__, num_workers=a.workers, method="thread"
        )
        return Loader(Prefetcher(Batcher(node, a.batch), prefetch_factor=2))
    if a.start == "none":
        return DataLoader(images, batch_size=a.batch)
    return DataLoader(images, batch_size=a.batch, num_workers=a.workers, multiprocessing_context=a.start)


class Trainer:
    """A small model. The clock simulates the work of an accelerator."""

    def __init__(self) -> None:
        self.model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def step(self) -> None:
        loss = self.model(torch.randn(8, 64)).logsumexp(1).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def launch(clock: Clock, trainer: Trainer) -> None:
    """Run small kernels with Python between them, so that the accelerator works for a third of the time."""
    for _ in range(8):
        clock.compute(1 / 24)
        clock.enter(HOST)
        end = time.monotonic() + clock.step_s / 12
        while time.monotonic() < end:
            trainer.step()


def save(clock: Clock, folder: Path, size: int) -> None:
    clock.enter(SAVE)
    with (folder / "checkpoint.pt").open("wb") as file:
        torch.save({"weights": torch.randn(size // 4)}, file)
        file.flush()
        os.fsync(file.fileno())


def train(a: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    clock, trainer = Clock(a), Trainer()
    ranks = a.task == "ranks"
    if ranks:
        torch.distributed.init_process_group("gloo")
    work = a.more if ranks and a.rank == a.late else a.work
    saved = time.monotonic()
    for _batch in clock.batches(epochs(loader_of(a, work))):
        if a.task == "launch":
            launch(clock, trainer)
            continue
        trainer.step()
        clock.compute()
        if ranks:
            clock.enter(COLLECTIVE)
            torch.distributed.all_reduce(torch.ones(1 << 16))
        if a.task == "save" and time.monotonic() - saved > a.every:
            save(clock, Path(a.data), a.save_bytes)
            saved = time.monotonic()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--start", choices=("fork", "spawn", "forkserver", "threads", "none"), default="fork")
    parser.add_argument("--task", choices=("plain", "launch", "save", "ranks"), default="plain")
    parser.add_argument("--epoch", type=int, default=0, help="batches of an epoch; 0: endless")
    parser.add_argument("--every", type=float, default=10.0)
    parser.add_argument("--save-bytes", type=int, default=40_000_000)
    parser.add_argument("--late", type=int, default=1)
    parser.add_argument("--more", type=int, default=8)
    a = options(parser)
    if a.action == "prepare":
        write_folder(Path(a.data), a.megabytes)
    else:
        train(a)


if __name__ == "__main__":
    main()
