"""The callback of Hugging Face's Trainer: ``Trainer(..., callbacks=[TransformersCallback("run.iotop.jsonl")])``.

The Trainer fetches all batches of an optimizer step before on_step_begin: the wait is the time from the event
before it (the end of a step, logging, evaluation, saving) to on_step_begin.
Source: transformers/trainer.py (get_batch_samples), 5.x.
"""

from __future__ import annotations

import contextlib
import os
from importlib import import_module
from typing import Any

from iotop_ai.train import steps
from iotop_ai.train.callbacks.session import TrainingSession


class TransformersCallback(import_module("transformers").TrainerCallback):  # type: ignore[misc]
    """Records a training, writes its verdict into the log when it changes, and gives metrics to loggers.

    With "tensorboard" in report_to they go into the run ``iotop_ai`` beside the Trainer's own. session: arguments of
    ``TrainingSession``.
    """

    def __init__(self, path: Any = None, **session: Any) -> None:
        super().__init__()
        self.session = TrainingSession(path, **session)
        self._own_writer: Any = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Start the recorder."""
        self.session.begin()
        wanted = "tensorboard" in (args.report_to or ())
        if self.session.writer is None and state.is_world_process_zero and wanted:
            self.session.writer = self._own_writer = _tensorboard(args)
        self.session.waiting()

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Mark the epoch; its first batches are fetched from here on."""
        steps.mark(f"epoch {int(state.epoch or 0)}")
        self.session.waiting()

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The batches of the step are there."""
        self.session.batch()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The optimizer step has ended."""
        self.session.step(state.global_step)
        self.session.waiting()

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Logging, an evaluation or a save has ended."""
        self.session.waiting()

    on_evaluate = on_save = on_log

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the recording."""
        self.session.end()
        if self._own_writer is not None:
            self._own_writer.close()
            self.session.writer = self._own_writer = None


def _tensorboard(args: Any) -> Any:
    """Return a SummaryWriter beside the Trainer's; None where none can be made."""
    folder = os.environ.get("TENSORBOARD_LOGGING_DIR") or os.path.join(args.output_dir, "runs")
    with contextlib.suppress(Exception):
        return import_module("torch.utils.tensorboard").SummaryWriter(log_dir=os.path.join(folder, "iotop_ai"))
    return None
