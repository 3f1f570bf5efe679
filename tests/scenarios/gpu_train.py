"""A real training on a GPU: ``python gpu_train.py --model resnet --cause healthy --seconds 40 --steps-log FILE``.

The truth comes from the GPU: a pair of CUDA events around each step's kernels gives the time for which it computed, and
the clock around ``next()`` gives the time without data. Between the events of a launch-bound step the GPU is sometimes
idle, so only the wait is exact for such a step. With ``--device cpu`` the duration of a step stands in for the
events. For ``--cause slow-collective`` torchrun starts a rank per GPU; the clock gives the time of the exchange, which
begins after the events.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

CAUSES = ("healthy", "starved", "launch-bound", "slow-collective")
EXCHANGED = 64 << 20
"""The numbers that the ranks sum up at once, 256 MiB on a GPU; a sixteenth of that on a CPU."""
EXCHANGE_SHARE = 1.5
"""How much longer than its computation the exchange of a step takes."""
WARM_STEPS = 5


class Block(nn.Module):
    """A residual block of two 3x3 convolutions."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.body(x))


def resnet(width: int, depth: int) -> nn.Module:
    """Return a model that classifies images of 3x64x64 into ten classes."""
    blocks = [Block(width) for _ in range(depth)]
    return nn.Sequential(
        nn.Conv2d(3, width, 7, stride=2, padding=3),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(width, 10),
    )


def transformer(width: int, depth: int) -> nn.Module:
    """Return a model that takes the same images as 24 tokens of 512 values."""
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True)
    return nn.Sequential(
        nn.Unflatten(2, (8, 8)), nn.Flatten(1, 2), nn.Flatten(2), nn.Linear(512, width),
        nn.TransformerEncoder(layer, depth), nn.Flatten(1), nn.Linear(24 * width, 10),
    )  # fmt: skip


class Images(Dataset[torch.Tensor]):
    """Endless images. delay_s: the CPU time that one image costs."""

    def __init__(self, delay_s: float) -> None:
        self.delay_s = delay_s

    def __len__(self) -> int:
        return 1 << 30

    def __getitem__(self, index: int) -> torch.Tensor:
        end = time.thread_time() + self.delay_s
        image = torch.rand(3, 64, 64)
        while time.thread_time() < end:
            image = image.flip(2).contiguous()
        return image


class Exchange:
    """Sums up a buffer over all ranks, as often as it takes to make an exchange slow."""

    def __init__(self, device: torch.device) -> None:
        torch.distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
        self.buffer = torch.zeros(EXCHANGED if device.type == "cuda" else EXCHANGED // 16, device=device)
        self.device, self.times, self.steps = device, 1, 0

    def run(self, computed_s: float) -> float:
        """Exchange once per step, and return the seconds that it took. computed_s: how long the step computed."""
        began = time.monotonic()
        for _ in range(self.times):
            torch.distributed.all_reduce(self.buffer)
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        took = time.monotonic() - began
        self.steps += 1
        if self.steps == WARM_STEPS:
            # All ranks must exchange equally often, so the first one decides.
            times = torch.tensor([max(1, round(EXCHANGE_SHARE * computed_s / took))], device=self.device)
            torch.distributed.broadcast(times, 0)
            self.times = int(times.item())
        return took


def batches(a: argparse.Namespace) -> Iterator[torch.Tensor]:
    if a.cause != "starved":
        # The batches are already in memory, so that only the training is measured.
        ready = [torch.rand(a.batch, 3, 64, 64) for _ in range(4)]
        while True:
            yield from ready
    yield from DataLoader(Images(a.delay), a.batch, num_workers=a.workers, pin_memory=a.device != "cpu")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=("resnet", "transformer"), default="resnet")
    parser.add_argument("--cause", choices=CAUSES, default="healthy")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--delay", type=float, default=0.004, help="seconds of CPU that an image costs when starved")
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--steps-log", type=Path, required=True)
    a = parser.parse_args()
    if a.cause == "launch-bound":
        # Each kernel takes microseconds, and the host waits for each result.
        a.batch, a.width, a.depth = 2, 8, 16
    rank = int(os.environ.get("RANK", "0"))
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if a.device == "cuda" else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    exchange = Exchange(device) if a.cause == "slow-collective" else None
    model = (resnet if a.model == "resnet" else transformer)(a.width, a.depth).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    cuda = device.type == "cuda"
    data, end = batches(a), time.monotonic() + a.seconds
    path = a.steps_log if not rank else a.steps_log.with_name(f"{a.steps_log.name}.{rank}")
    with path.open("w", buffering=1) as log:
        while time.monotonic() < end:
            began = time.monotonic()
            images = next(data)
            ready = time.monotonic()
            events = [torch.cuda.Event(enable_timing=True) for _ in range(2)] if cuda else []
            images = images.to(device, non_blocking=True)
            if cuda:
                events[0].record()
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), torch.zeros(len(images), dtype=torch.long, device=device))
            loss.backward()
            optimizer.step()
            if cuda:
                events[1].record()
            loss.item()
            exchanged = 0.0 if exchange is None else exchange.run(time.monotonic() - ready)
            done = time.monotonic()
            busy = events[0].elapsed_time(events[1]) / 1000 if cuda else done - ready
            row = {"at": done, "wait": ready - began, "busy": busy, "exchange": exchanged, "all": done - began}
            log.write(json.dumps(row) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
