"""The common parts of all callbacks: the recorder, waits between steps, verdicts in the log, metrics for loggers."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from typing import Any, Callable, Dict

from iotop_ai.train import steps
from iotop_ai.train.answers import SHARES
from iotop_ai.train.distributed import ranks
from iotop_ai.train.monitor import Monitor

Metrics = Dict[str, float]
Sink = Callable[[Metrics, int], None]
"""A function that logs metrics. It gets the metrics and the number of the step."""

VERDICT_EVERY_NS = 5_000_000_000
"""The shortest time between two requests for the verdict."""
METRICS_EVERY_NS = 10_000_000_000
"""The shortest time between two sets of metrics."""
PREFIX = "iotop_ai/"
NOT_SEPARABLE = "not separable"
_OPEN_FITS: list[tuple[int, TrainingSession]] = []
"""The sessions that ``begin_fit`` has started and that have not ended, each with the id of its thread."""


class TrainingSession:
    """One training run, described by the events that a framework's callback receives.

    path, options: the arguments of ``Monitor``. record: whether to start a recorder; without one, the session only
    sends its steps to other monitors. writer: a SummaryWriter of TensorBoard, which gets the metrics; open runs of
    MLflow and Weights & Biases get them as well. log: called with each new verdict as a line, on the first rank;
    standard error by default. separable: whether the framework fetches a batch outside its step; if it does not, only
    ``watch`` on the loader can measure the wait.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        record: bool = True,
        writer: Any = None,
        log: Callable[[str], None] | None = None,
        separable: bool = True,
        **options: Any,
    ) -> None:
        self.monitor = Monitor(path, **options) if record else None
        self.writer = writer
        self.separable = separable
        self._log = log or write_line
        self._waiting_since_ns: int | None = None
        self._data_ns: int | None = None
        """The counter's ``data_ns`` when the wait began; None if nothing has measured a wait."""
        self._batches = 0
        """The counter's number of batches when the training began."""
        self._verdict_due_ns = self._metrics_due_ns = 0
        self._before = (0, 0, 0)
        """The totals at the last metrics, as ``_totals`` returns them."""
        self._written_verdict: tuple[str, str] | None = None

    @property
    def data_wait(self) -> str:
        """How well the wait for data is known: "measured" or "not separable"."""
        return "measured" if self.separable or steps.COUNTER.batches != self._batches else NOT_SEPARABLE

    def begin(self) -> None:
        """Start the recorder and the counts, because the training begins."""
        if self.monitor is not None:
            self.monitor.start()
        now = time.monotonic_ns()
        self._verdict_due_ns, self._metrics_due_ns = now + VERDICT_EVERY_NS, now + METRICS_EVERY_NS
        self._batches = steps.COUNTER.batches
        self._before = _totals(now)
        self._written_verdict = None

    def begin_fit(self) -> None:
        """Start like ``begin``, after ending the recordings of earlier fits of this thread that are still open.

        Keras and Transformers do not report an error that ends a fit, so the recorder of such a fit would run until
        Python ends.
        """
        thread = threading.get_ident()
        for fit in [fit for fit in _OPEN_FITS if fit[0] == thread and fit[1] is not self]:
            _OPEN_FITS.remove(fit)
            if fit[1].monitor is not None:
                fit[1].monitor.stop()
        self.begin()
        if self.monitor is not None and (thread, self) not in _OPEN_FITS:
            _OPEN_FITS.append((thread, self))

    def mark(self, text: str) -> None:
        """Mark this moment like ``steps.mark``, but only on the first rank of each machine."""
        if not ranks(os.environ)["local_rank"]:
            steps.mark(text)

    def begin_wait(self) -> None:
        """Begin a wait: a step, or other work between two steps, has ended, and the loop waits for its next batch."""
        self._waiting_since_ns, self._data_ns = time.monotonic_ns(), steps.COUNTER.data_ns

    def cancel_wait(self) -> None:
        """Drop the current wait: a checkpoint or a validation takes the time up to the next step."""
        self._waiting_since_ns = None

    def end_wait(self) -> None:
        """End the wait, because the loop has its batch, and count it unless it is measured already."""
        counter, since_ns, self._waiting_since_ns = steps.COUNTER, self._waiting_since_ns, None
        # If this loop's loader is watched, the counter has changed and the wait is measured already.
        if self.separable and since_ns is not None and counter.data_ns == self._data_ns:
            counter.add_wait(time.monotonic_ns() - since_ns)

    def step(self, number: int, emit: Sink | None = None, count: int = 1) -> Metrics | None:
        """Count a step of training, write the verdict if it is due, and return the metrics if they are due, else None.

        number: the number of the step. emit: a function that gets the metrics instead of the writer and the open runs.
        count: the number of steps that have ended, if the framework makes several at once.
        """
        steps.COUNTER.step(count)
        now = time.monotonic_ns()
        if now >= self._verdict_due_ns:
            self._verdict_due_ns = now + VERDICT_EVERY_NS
            self._write_verdict(0)
        if now < self._metrics_due_ns:
            return None
        self._metrics_due_ns = now + METRICS_EVERY_NS
        metrics = self.metrics(now)
        with contextlib.suppress(Exception):  # a logger must not end a training run
            (emit or self._emit)(metrics, number)
        return metrics

    def _emit(self, metrics: Metrics, number: int) -> None:
        for name, value in metrics.items() if self.writer is not None else ():
            self.writer.add_scalar(name, value, number)
        for sink in active_loggers():
            sink(metrics, number)

    def end(self) -> None:
        """Write the last verdict and end the recording, because the training has ended."""
        _OPEN_FITS[:] = [fit for fit in _OPEN_FITS if fit[1] is not self]
        steps.COUNTER.send()
        if self.monitor is not None:
            try:
                self._write_verdict(5)
            finally:
                self.monitor.stop()

    def metrics(self, now_ns: int) -> Metrics:
        """Return the figures of the steps since the last metrics, and how the job has spent its time so far.

        The key of a figure is PREFIX and its name. If the recording has ended early, the job's time is left out.
        """
        totals = _totals(now_ns)
        elapsed_ns, step_count, data_ns = ((b - a) for a, b in zip(self._before, totals))
        self._before = totals
        known = elapsed_ns > 0 and step_count >= 0 and data_ns >= 0  # a forked child counts from zero
        out = {"steps_per_s": step_count * 1e9 / elapsed_ns} if known else {}
        if known and steps.COUNTER.data_ns is not None:
            out["data_wait_ratio"] = min(1.0, data_ns / elapsed_ns)
        monitor = self.monitor
        breakdown = None if monitor is None or monitor.error else monitor.breakdown(wait=0)
        # The request itself may show that the recorder has ended.
        if breakdown is not None and monitor is not None and not monitor.error:
            out.update({f"time_{name}_ratio": share for name, share in breakdown.shares.items()})
            out["data_seen_ratio"] = breakdown.data_wait
        return {PREFIX + name: value for name, value in out.items()}

    def metric_names(self) -> list[str]:
        """Return the keys that ``metrics`` may return during this run, in a fixed order."""
        names = ["steps_per_s", "data_wait_ratio"]
        if self.monitor is not None:
            names += [*(f"time_{name}_ratio" for name in SHARES), "data_seen_ratio"]
        return [PREFIX + name for name in names]

    def _write_verdict(self, wait: float) -> None:
        """Write the verdict on the first rank, unless it is preliminary (``measuring``) or the same as the last one."""
        verdict = None if self.monitor is None else self.monitor.verdict(wait=wait)
        if verdict is None or verdict.measuring or (ranks(os.environ)["rank"] or 0) > 0:
            return
        current = (verdict.state, verdict.class_id)
        if current != self._written_verdict:
            self._written_verdict = current
            line = f"iotop-ai: {verdict}"
            with contextlib.suppress(Exception):  # standard error may be closed, which must not end a training run
                self._log(line if self.data_wait != NOT_SEPARABLE else f"{line}; data wait of a step: {NOT_SEPARABLE}")


def _totals(now_ns: int) -> tuple[int, int, int]:
    counter = steps.COUNTER
    return now_ns, counter.steps or 0, counter.data_ns or 0


def write_line(line: str) -> None:
    """Write a line to standard error. If tqdm draws a progress bar, the line goes above the bar."""
    tqdm = getattr(sys.modules.get("tqdm"), "tqdm", None)
    if tqdm is not None:
        tqdm.write(line, file=sys.stderr)
    elif sys.stderr is not None:
        sys.stderr.write(line + "\n")


def active_loggers() -> list[Sink]:
    """Return one function that logs metrics for each open run of MLflow or Weights & Biases in this process."""
    loggers: list[Sink] = []
    mlflow, wandb = sys.modules.get("mlflow"), sys.modules.get("wandb")
    with contextlib.suppress(Exception):  # MLflow may be imported only in part, or another module may have its name
        if mlflow is not None and mlflow.active_run() is not None:
            loggers.append(lambda metrics, number: mlflow.log_metrics(metrics, step=number))
    run = getattr(wandb, "run", None)
    if run is not None:
        # A commit would raise the run's step, and W&B drops what the user then logs for a lower step.
        loggers.append(lambda metrics, number: run.log(metrics, commit=False))
    return loggers
