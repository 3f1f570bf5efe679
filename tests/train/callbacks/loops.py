"""Real training loops, one for each framework, with iotop-ai's callback: ``python loops.py NAME FOLDER``.

Each loop runs in the environment of its framework, and prints a JSON object with the wait for data: as measured in the
framework's own loader (the truth), by the callback, and by the recorder from outside.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

BATCH, ITEM_S, STEP_S, LOOP_S = 8, 0.006, 0.03, 24.0
EPOCH_STEPS = 100
lines: list[str] = []


def spin(seconds: float) -> None:
    """Compute for this long on this thread."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(500))


def scheduled() -> tuple[float, float]:
    """The seconds for which this thread was on a CPU, and for which it was queued for one."""
    run_ns, queued_ns, _ = Path("/proc/thread-self/schedstat").read_bytes().split()
    return int(run_ns) / 1e9, int(queued_ns) / 1e9


class Truth:
    """The time that the main process waits in the iterator of its own loader."""

    def __init__(self) -> None:
        self.wait_s = self.cpu_s = self.queue_s = 0.0
        """The whole time in the iterator; the part of it on a CPU; and the part spent ready to run, but without a
        core."""
        self.steps = 0
        self.begin = time.monotonic()

    def watch_torch(self) -> None:
        """Measure the iterators of torch itself, which the frameworks use, including their start."""
        from torch.utils.data import DataLoader
        from torch.utils.data.dataloader import _BaseDataLoaderIter

        self._time(_BaseDataLoaderIter, "__next__")
        self._time(DataLoader, "__iter__")

    def _time(self, owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def timed(own: Any, *arguments: Any) -> Any:
            before, (cpu_s, queue_s) = time.monotonic(), scheduled()
            try:
                return original(own, *arguments)
            finally:
                # the loader for validation has no workers and does not count
                if getattr(own, "num_workers", 0) or getattr(own, "_num_workers", 0):
                    self.wait_s += time.monotonic() - before
                    now = scheduled()
                    self.cpu_s, self.queue_s = self.cpu_s + now[0] - cpu_s, self.queue_s + now[1] - queue_s

        setattr(owner, name, timed)

    def stop(self) -> bool:
        """Count a step, and return whether the loop has run for long enough."""
        self.steps += 1
        return time.monotonic() - self.begin > LOOP_S


def dataset() -> Any:
    """Items that each take a while to load, in a worker."""
    import torch
    from torch.utils.data import Dataset

    class Slow(Dataset):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return BATCH * EPOCH_STEPS

        def __getitem__(self, index: int) -> Any:
            time.sleep(ITEM_S)
            return {"x": torch.randn(16), "labels": torch.tensor(index % 2)}

    torch.set_num_threads(1)
    return Slow()


def report(truth: Truth, session: Any) -> None:
    """Print the figures that the parent process compares."""
    from iotop_ai.train.steps import COUNTER

    whole_s = time.monotonic() - truth.begin
    monitor = session.monitor
    found = monitor.breakdown()
    status = monitor._last_status
    print(
        json.dumps(
            {
                "steps": COUNTER.steps,
                "true_steps": truth.steps,
                "truth": truth.wait_s / whole_s,
                "truth_cpu": truth.cpu_s / whole_s,
                "truth_queue": truth.queue_s / whole_s,
                "measured": None if COUNTER.data_ns is None else COUNTER.data_ns / 1e9 / whole_s,
                "outside": status.get("measured"),
                "seen": None if found is None else found.data_wait,
                "data_wait": session.data_wait,
                "loader": COUNTER.loader,
                "lines": lines,
                "error": monitor.error,
                "path": monitor.path,
            }
        )
    )


def plain(folder: Path) -> None:
    import torch
    from torch.utils.data import DataLoader
    from torch.utils.tensorboard import SummaryWriter

    from iotop_ai import TrainingLoop

    truth, model = Truth(), torch.nn.Linear(16, 2)
    truth.watch_torch()
    writer = SummaryWriter(log_dir=str(folder / "tb"))
    loader = DataLoader(dataset(), batch_size=BATCH, num_workers=1)
    with TrainingLoop(folder / "run.iotop.jsonl", writer=writer, log=lines.append) as loop:
        truth.begin, done = time.monotonic(), False
        while not done:
            for batch in loop(loader):
                model(batch["x"]).sum().backward()
                spin(STEP_S)
                loop.step()
                if done := truth.stop():
                    break
    writer.close()
    report(truth, loop.session)


def lightning(folder: Path) -> None:
    import lightning.pytorch as pl
    import torch
    from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
    from torch.utils.data import DataLoader

    from iotop_ai import LightningCallback

    truth = Truth()

    class Model(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(16, 2)

        def training_step(self, batch: Any, index: int) -> Any:
            spin(STEP_S)
            return torch.nn.functional.cross_entropy(self.layer(batch["x"]), batch["labels"])

        def validation_step(self, batch: Any, index: int) -> None:
            spin(0.01)

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    class Stop(pl.Callback):
        def on_train_batch_end(self, trainer: Any, *more: Any) -> None:
            trainer.should_stop = truth.stop()

    callback = LightningCallback(folder / "run.iotop.jsonl", log=lines.append)
    validation = DataLoader([{"x": torch.randn(16), "labels": torch.tensor(0)}] * 20, batch_size=1)
    trainer = pl.Trainer(
        accelerator="cpu", max_epochs=-1, callbacks=[callback, Stop()], default_root_dir=folder,
        logger=[CSVLogger(folder), TensorBoardLogger(folder)],
        enable_progress_bar=False, enable_model_summary=False, val_check_interval=50,
    )  # fmt: skip
    loader = DataLoader(dataset(), batch_size=BATCH, num_workers=1)
    truth.watch_torch()
    truth.begin = time.monotonic()
    trainer.fit(Model(), loader, validation)
    report(truth, callback.session)


def transformers(folder: Path) -> None:
    import torch
    from transformers import Trainer, TrainerCallback, TrainingArguments

    from iotop_ai import TransformersCallback

    truth = Truth()

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(16, 2)

        def forward(self, x: Any = None, labels: Any = None) -> Any:
            spin(STEP_S)
            return {"loss": torch.nn.functional.cross_entropy(self.layer(x), labels)}

    class Stop(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            control.should_training_stop = truth.stop()

    arguments = TrainingArguments(
        output_dir=str(folder / "out"), per_device_train_batch_size=BATCH, num_train_epochs=1000, use_cpu=True,
        dataloader_num_workers=1, report_to=["tensorboard"], logging_steps=20, save_steps=100, disable_tqdm=True,
        dataloader_pin_memory=False, save_total_limit=1,
    )  # fmt: skip
    callback = TransformersCallback(folder / "run.iotop.jsonl", log=lines.append)
    trainer = Trainer(model=Model(), args=arguments, train_dataset=dataset(), callbacks=[callback, Stop()])
    truth.watch_torch()
    truth.begin = time.monotonic()
    trainer.train()
    report(truth, callback.session)


class TimedSequence:
    """Batches for Keras that each take a while, in the process that requests them."""

    def __init__(self, truth: Truth) -> None:
        self.truth = truth

    def __iter__(self) -> Any:
        import numpy

        while True:
            before = time.monotonic()
            time.sleep(BATCH * ITEM_S)
            self.truth.wait_s += time.monotonic() - before
            yield numpy.random.rand(BATCH, 16).astype("float32"), numpy.zeros((BATCH, 1), dtype="float32")


def keras(folder: Path, layers: Any = None, callback: Any = None, watched: bool = False) -> None:
    import keras as standalone

    from iotop_ai import KerasCallback, watch

    library = layers or standalone
    truth = Truth()
    model = library.Sequential([library.Input((16,)), library.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse", run_eagerly=False)

    class Stop(library.callbacks.Callback):  # type: ignore[name-defined,misc]
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            spin(STEP_S)
            self.model.stop_training = truth.stop()

    ours = (callback or KerasCallback)(folder / "run.iotop.jsonl", log=lines.append)
    truth.begin = time.monotonic()
    source = TimedSequence(truth)
    batches = (batch for batch in watch(source)) if watched else iter(source)
    callbacks = [Stop(), ours]
    history = model.fit(batches, steps_per_epoch=EPOCH_STEPS, epochs=1000, verbose=0, callbacks=callbacks).history
    lines.append("history: " + " ".join(history))
    report(truth, ours.session)


def keras_torch(folder: Path) -> None:
    """Use a DataLoader, whose waits are between the steps."""
    import keras as library
    import torch
    from torch.utils.data import DataLoader

    from iotop_ai import KerasCallback

    truth = Truth()
    model = library.Sequential([library.Input((16,)), library.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")

    class Stop(library.callbacks.Callback):  # type: ignore[name-defined,misc]
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.model.stop_training = truth.stop()

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            spin(STEP_S)

    def pairs(items: Any) -> Any:
        return torch.stack([item["x"] for item in items]), torch.zeros((len(items), 1))

    callback = KerasCallback(folder / "run.iotop.jsonl", log=lines.append)
    loader = DataLoader(dataset(), batch_size=BATCH, num_workers=1, collate_fn=pairs)
    truth.watch_torch()
    truth.begin = time.monotonic()
    history = model.fit(loader, epochs=1000, verbose=0, callbacks=[callback, Stop()]).history
    lines.append("history: " + " ".join(history))
    report(truth, callback.session)


def tf_keras(folder: Path) -> None:
    import tensorflow

    from iotop_ai import tf_keras_callback

    keras(folder, tensorflow.keras, tf_keras_callback)


def keras_watched(folder: Path) -> None:
    keras(folder, watched=True)


if __name__ == "__main__":
    globals()[sys.argv[1]](Path(sys.argv[2]))
    if "tensorflow" in sys.modules:
        # When the interpreter ends, TensorFlow may wait forever for a thread that has to run the generator of batches.
        sys.stdout.flush()
        os._exit(0)
