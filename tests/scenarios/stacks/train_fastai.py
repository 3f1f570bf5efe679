"""fastai: its DataLoader with worker processes, and its Learner runs the loop."""

from __future__ import annotations

from pathlib import Path

import torch
from clock import Clock, Halves, options
from fastai.callback.core import Callback
from fastai.data.core import DataLoaders
from fastai.data.load import DataLoader
from fastai.learner import Learner
from images import write_folder
from torch import nn
from train_torch import Images

LENGTH = 1 << 17
"""fastai lists the indices of an epoch, so the list is short; yet it does not end while the trainer is watched."""


class Small(nn.Module):
    """A small model. The clock simulates the work of an accelerator."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layer(torch.randn(8, 64))


class Timed(Callback):
    """Tells the clock when a batch arrives, and simulates the step."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock

    def before_train(self) -> None:
        self.clock.wait()

    def before_batch(self) -> None:
        self.clock.arrived()

    def after_step(self) -> None:
        self.clock.compute()

    def after_batch(self) -> None:
        self.clock.wait()


def loss(out: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return out.logsumexp(1).mean()


def main() -> None:
    a = options()
    if a.action == "prepare":
        write_folder(Path(a.data), a.megabytes)
        return
    torch.set_num_threads(1)
    images = Images(Path(a.data), a.work, Halves(a.clock), LENGTH)
    loader = DataLoader(images, bs=a.batch, num_workers=a.workers)
    learner = Learner(DataLoaders(loader, loader), Small(), loss_func=loss, cbs=[Timed(Clock(a))])
    with learner.no_logging():
        learner.fit(1)


if __name__ == "__main__":
    main()
