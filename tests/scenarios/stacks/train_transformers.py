"""Transformers: its Trainer runs the loop, and accelerate fetches a batch ahead from a DataLoader."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
from clock import Clock, Halves, options
from images import write_folder
from torch import nn
from train_torch import Images
from transformers import Trainer, TrainingArguments


class Small(nn.Module):
    """A small model. The clock simulates the work of an accelerator."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 10)

    def forward(self, pixels: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": self.layer(torch.randn(8, 64)).logsumexp(1).mean()}


class Timed(Trainer):
    """A Trainer that tells the clock when a batch has arrived and when the step ends."""

    def __init__(self, clock: Clock, **settings: Any) -> None:
        super().__init__(**settings)
        self.clock = clock
        clock.wait()

    def training_step(self, *args: Any, **settings: Any) -> torch.Tensor:
        self.clock.arrived()
        loss = super().training_step(*args, **settings)
        self.clock.compute()
        self.clock.wait()
        return loss


def batch_of(samples: list[tuple[torch.Tensor, int]]) -> dict[str, torch.Tensor]:
    return {"pixels": torch.stack([image for image, _ in samples])}


def main() -> None:
    a = options()
    if a.action == "prepare":
        write_folder(Path(a.data), a.megabytes)
        return
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place:
        settings = TrainingArguments(
            output_dir=place,
            use_cpu=True,
            max_steps=1 << 20,
            per_device_train_batch_size=a.batch,
            dataloader_num_workers=a.workers,
            save_strategy="no",
            logging_strategy="no",
            report_to=[],
            disable_tqdm=True,
            remove_unused_columns=False,
        )
        images = Images(Path(a.data), a.work, Halves(a.clock))
        Timed(Clock(a), model=Small(), args=settings, train_dataset=images, data_collator=batch_of).train()


if __name__ == "__main__":
    main()
