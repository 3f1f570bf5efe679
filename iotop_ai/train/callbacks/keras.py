"""The callbacks for Keras 3 and for tf.keras: ``model.fit(..., callbacks=[KerasCallback("run.iotop.jsonl")])``.

Only the torch back end fetches a batch between two steps. TensorFlow and JAX fetch it within the step, so the wait
cannot be separated from the step ("not separable"). To measure it, watch the source of the batches within a generator:
``model.fit((batch for batch in iotop_ai.watch(source)), steps_per_epoch=...)``. Keras accepts generators, but not the
object that ``watch`` returns. Or use the wait that the monitor sees from outside. Source:
keras/src/backend/*/trainer.py (fit), keras/src/trainers/epoch_iterator.py,
keras/src/trainers/data_adapters/__init__.py (get_data_adapter), 3.x.
"""

from __future__ import annotations

import math
import sys
from importlib import import_module
from typing import Any

from iotop_ai.train.callbacks.session import Metrics, TrainingSession

_SEPARABLE_BACKENDS = ("torch",)


def _callback_class(base: Any) -> Any:
    """Return the callback class for this base. tf.keras, keras and tf_keras each accept only their own Callback."""

    class KerasEvents(base):  # type: ignore[misc]
        """Records a fit, writes each new verdict into the log, and gives metrics to loggers.

        At the end of an epoch it adds the metrics to the epoch's logs, so that the History and each later callback,
        such as TensorBoard, have them too. Each epoch has the same metrics; an unknown one is NaN. session: the
        arguments of ``TrainingSession``.
        """

        def __init__(self, path: Any = None, **session: Any) -> None:
            super().__init__()
            session.setdefault("separable", _backend(base) in _SEPARABLE_BACKENDS)
            self.session = TrainingSession(path, **session)
            self._steps = 0
            self._first_batch = 0
            """The number of the first step that the current execution makes in this epoch."""
            self._newest: Metrics = {}

        def on_train_begin(self, logs: Any = None) -> None:
            """Start the recorder, and forget the metrics of an earlier fit."""
            self._newest = {}
            self.session.begin_fit()

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            """Mark the epoch, and begin the wait for its first batch."""
            self.session.mark(f"epoch {epoch}")
            self.session.begin_wait()

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            """End the wait, because the batch has arrived."""
            self._first_batch = batch
            self.session.end_wait()

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            """Count the step, which has ended, or all steps of one execution. batch: the number of the last step.

            Keras calls this function once for ``steps_per_execution`` steps. The last execution of an epoch may have
            fewer, but Keras 3 passes the number that a full one would end with.
            """
            epoch_steps = (getattr(self, "params", None) or {}).get("steps")
            last_batch = min(batch, epoch_steps - 1) if epoch_steps else batch
            count = max(1, last_batch - self._first_batch + 1)
            self._steps += count
            self._newest = self.session.step(self._steps, count=count) or self._newest
            self.session.begin_wait()

        def on_test_begin(self, logs: Any = None) -> None:
            """Drop the wait, because validation begins and its time is not a wait."""
            self.session.cancel_wait()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            """Put the newest metrics into the epoch's logs."""
            if logs is not None:
                # Every list of the History must be as long as the others.
                logs.update((name, self._newest.get(name, math.nan)) for name in self.session.metric_names())

        def on_train_end(self, logs: Any = None) -> None:
            """End the recording."""
            self.session.end()

    return KerasEvents


def _backend(base: Any) -> str:
    """Return the back end of the Keras that has this base class, such as "tensorflow", "torch" or "jax"."""
    if base.__module__.partition(".")[0] != "keras":
        return "tensorflow"  # tf_keras, and Keras 2 within TensorFlow
    return str(import_module("keras").backend.backend())


def _base() -> Any:
    """Return the Callback of Keras, or that of TensorFlow if only TensorFlow is imported or installed."""
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is not None and "keras" not in sys.modules:
        return tensorflow.keras.callbacks.Callback
    try:
        return import_module("keras").callbacks.Callback
    except ImportError:
        return import_module("tensorflow").keras.callbacks.Callback


KerasCallback = _callback_class(_base())
"""The callback for the Keras that the program uses."""


def tf_keras_callback(*arguments: Any, **options: Any) -> Any:
    """Return the callback for ``tf.keras``, which is either Keras 3 or tf_keras (Keras 2)."""
    base = import_module("tensorflow").keras.callbacks.Callback
    return _callback_class(base)(*arguments, **options)
