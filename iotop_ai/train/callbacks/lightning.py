"""The callback of PyTorch Lightning: ``Trainer(callbacks=[LightningCallback("run.iotop.jsonl")])``.

Lightning has no hook around the fetch of a batch, so the wait is the time from the end of a step to the start of the
next one, without validation. After a step that writes a checkpoint, the wait is not measured. Source:
lightning/pytorch/loops/training_epoch_loop.py (advance), lightning/pytorch/callbacks/callback.py, 2.x.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from importlib import import_module
from typing import Any

from iotop_ai.train import steps
from iotop_ai.train.callbacks.session import Metrics, Sink, TrainingSession

_PACKAGES = ("lightning.pytorch", "pytorch_lightning")
_WATCHED = (
    "Lightning gives a watched loader no DistributedSampler, so that each rank may read all data: "
    "give the Trainer the loader itself, because LightningCallback measures the wait for it"
)


def _base() -> Any:
    """Return the Callback class of the package that the program uses, since both packages may be installed."""
    for package in (*(name for name in _PACKAGES if name in sys.modules), *_PACKAGES):
        try:
            return import_module(package).Callback
        except ImportError:
            continue
    raise ImportError("LightningCallback needs PyTorch Lightning: pip install lightning")


class LightningCallback(_base()):  # type: ignore[misc]  # its base class is known only once Lightning is imported
    """Records a fit, writes each new verdict into the log, and gives metrics to the Trainer's loggers.

    The arguments are those of ``TrainingSession``.
    """

    def __init__(self, path: Any = None, **session: Any) -> None:
        super().__init__()
        self.session = TrainingSession(path, **session)
        self._loaders_checked = False

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Start the recorder."""
        self.session.begin()

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Take the loader's settings, and warn once about a watched loader, which the Trainer does not shard.

        Before this hook, the Trainer has no loader.
        """
        for loader in _loaders(trainer.train_dataloader):
            steps.COUNTER.use_loader(loader)
        if self._loaders_checked or trainer.world_size < 2 or not trainer.is_global_zero:
            return
        self._loaders_checked = True
        if any(map(_lacks_sampler, _loaders(trainer.train_dataloader))):
            with contextlib.suppress(UserWarning):  # warnings may be errors, and the training must go on
                warnings.warn(_WATCHED, UserWarning, stacklevel=2)

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Mark the epoch, and begin the wait for its first batch."""
        self.session.mark(f"epoch {trainer.current_epoch}")
        self.session.begin_wait()

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """End the wait, because the batch has arrived."""
        self.session.end_wait()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Count the step, which has ended."""
        self.session.step(trainer.global_step, _to_loggers(trainer))
        self.session.begin_wait()

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Drop the wait, because the time of a validation does not count."""
        self.session.cancel_wait()

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Begin the wait for the next batch."""
        self.session.begin_wait()

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Any) -> None:
        """Drop the wait, because the time up to the next step includes the checkpoint."""
        self.session.cancel_wait()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """End the recording when an error or Ctrl-C ends the training. ``teardown`` is then not always called."""
        steps.mark_error(exception)
        self.session.end()

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """End the recording."""
        if stage == "fit":
            self.session.end()


def _loaders(of_trainer: Any) -> Any:
    """Return the loaders of a Trainer, which has one loader, or a collection of them."""
    if isinstance(of_trainer, dict):
        return of_trainer.values()
    return of_trainer if isinstance(of_trainer, (list, tuple)) else (of_trainer,)


def _lacks_sampler(loader: Any) -> bool:
    """Return whether this is a watched loader without a DistributedSampler of its own."""
    return isinstance(loader, steps.Watched) and not hasattr(getattr(loader, "sampler", None), "num_replicas")


def _to_loggers(trainer: Any) -> Sink:
    def log(metrics: Metrics, number: int) -> None:
        for logger in trainer.loggers:
            logger.log_metrics(metrics, step=number)

    return log
