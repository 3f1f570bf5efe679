"""Lightning: its Trainer runs the loop over a DataLoader with worker processes."""

from __future__ import annotations

from pathlib import Path

import lightning.pytorch as lightning
import torch
from clock import Clock, Halves, options
from images import write_folder
from torch import nn
from torch.utils.data import DataLoader
from train_torch import Images


class Small(lightning.LightningModule):
    """A small model. The clock simulates the work of an accelerator."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock, self.layer = clock, nn.Linear(64, 10)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01)

    def on_train_start(self) -> None:
        self.clock.wait()

    def on_train_batch_start(self, batch: object, batch_idx: int) -> None:
        self.clock.arrived()

    def training_step(self, batch: object, batch_idx: int) -> torch.Tensor:
        self.clock.compute()
        return self.layer(torch.randn(8, 64)).logsumexp(1).mean()

    def on_train_batch_end(self, outputs: object, batch: object, batch_idx: int) -> None:
        self.clock.wait()


def main() -> None:
    a = options()
    if a.action == "prepare":
        write_folder(Path(a.data), a.megabytes)
        return
    torch.set_num_threads(1)
    images = Images(Path(a.data), a.work, Halves(a.clock))
    trainer = lightning.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Small(Clock(a)), DataLoader(images, batch_size=a.batch, num_workers=a.workers))


if __name__ == "__main__":
    main()
