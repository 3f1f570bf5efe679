"""The callback of Hugging Face's Trainer: ``Trainer(..., callbacks=[TransformersCallback("run.iotop.jsonl")])``.

The Trainer fetches all batches of an optimizer step before it calls on_step_begin. The wait is the time from the
previous event (the end of a step, logging, an evaluation or a save) to on_step_begin. Source: transformers/trainer.py
(get_batch_samples), 5.x.
"""

from __future__ import annotations

import contextlib
import os
from importlib import import_module
from typing import Any

from iotop_ai.train import steps
from iotop_ai.train.callbacks.session import TrainingSession


class TransformersCallback(import_module("transformers").TrainerCallback):  # type: ignore[misc]
    """Records a training run, writes each new verdict into the log, and gives metrics to loggers.

    If "tensorboard" is in report_to and no ``writer`` is passed, the metrics go into the run ``iotop_ai`` beside the
    Trainer's run. session: the arguments of ``TrainingSession``.
    """

    def __init__(self, path: Any = None, **session: Any) -> None:
        super().__init__()
        self.session = TrainingSession(path, **session)
        self._own_writer: Any = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Start the recorder and, if the metrics go to TensorBoard, a writer; begin the wait for the first batches."""
        self.session.begin_fit()
        steps.COUNTER.use_loader(kwargs.get("train_dataloader"))
        uses_tensorboard = "tensorboard" in (args.report_to or ())
        if self.session.writer is None and state.is_world_process_zero and uses_tensorboard:
            self.session.writer = self._own_writer = _tensorboard(args)
        self.session.begin_wait()

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Mark the epoch, and begin the wait for its first batches."""
        self.session.mark(f"epoch {int(state.epoch or 0)}")
        self.session.begin_wait()

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the wait, because the batches of the step have arrived."""
        self.session.end_wait()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Count the optimizer step, which has ended."""
        self.session.step(state.global_step)
        self.session.begin_wait()

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin the wait again, because logging, an evaluation or a save has ended."""
        self.session.begin_wait()

    on_evaluate = on_save = on_log

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the recording."""
        self.session.end()
        if self._own_writer is not None:
            self._own_writer.close()
            self.session.writer = self._own_writer = None


def _tensorboard(args: Any) -> Any:
    """Return a SummaryWriter for a run beside the Trainer's; None if none can be made."""
    folder = os.environ.get("TENSORBOARD_LOGGING_DIR") or os.path.join(args.output_dir, "runs")
    with contextlib.suppress(Exception):
        return import_module("torch.utils.tensorboard").SummaryWriter(log_dir=os.path.join(folder, "iotop_ai"))
    return None
