"""The session that all callbacks share: waits between events, each verdict once, metrics that never stop a training."""

from __future__ import annotations

import math
import os
import sys
import threading
import time
import warnings
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import iotop_ai
from iotop_ai.model.job import time_shares
from iotop_ai.train import answers, steps
from iotop_ai.train.answers import Breakdown, Verdict
from iotop_ai.train.callbacks import session
from iotop_ai.train.callbacks.session import TrainingSession
from iotop_ai.train.steps import StepCounter

pytestmark = pytest.mark.xdist_group("marks")  # the group is shared because a mark reaches every monitor of the user


@pytest.fixture(autouse=True)
def own_counter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(steps, "COUNTER", StepCounter())
    monkeypatch.setenv("IOTOP_AI_SOCKET", str(tmp_path / "none.sock"))


def test_the_wait_is_from_the_end_of_a_step_to_the_next_batch() -> None:
    training = TrainingSession(record=False)
    training.begin()
    for number in range(3):
        training.begin_wait()
        time.sleep(0.02)
        training.end_wait()
        time.sleep(0.03)
        training.step(number)
    assert steps.COUNTER.data_ns is not None
    assert 60e6 <= steps.COUNTER.data_ns < 90e6 + 60e6
    assert (steps.COUNTER.batches, steps.COUNTER.steps) == (3, 3)
    assert training.data_wait == "measured"


def test_validation_and_checkpoints_do_not_count_as_waiting() -> None:
    training = TrainingSession(record=False)
    training.begin()
    training.begin_wait()
    training.cancel_wait()
    time.sleep(0.02)
    training.end_wait()
    assert steps.COUNTER.data_ns is None


def test_a_watched_loader_is_not_counted_twice() -> None:
    training = TrainingSession(record=False)
    training.begin()
    for number, _ in enumerate(iotop_ai.watch(range(5))):  # type: ignore[attr-defined]
        training.end_wait()
        training.step(number)
        training.begin_wait()
        time.sleep(0.01)
    assert steps.COUNTER.batches == 5
    assert steps.COUNTER.data_ns is not None
    assert steps.COUNTER.data_ns < 5e6 + 40e6


def test_a_watched_validation_does_not_end_the_measurement() -> None:
    training = TrainingSession(record=False)
    training.begin()
    for number in range(4):
        if number == 2:
            training.cancel_wait()
            list(iotop_ai.watch(range(3)))  # type: ignore[attr-defined]
        training.begin_wait()
        time.sleep(0.02)
        training.end_wait()
        training.step(number)
    assert steps.COUNTER.batches == 4 + 3
    assert steps.COUNTER.data_ns is not None
    assert steps.COUNTER.data_ns >= 80e6


def test_a_wait_within_a_step_is_measured_only_by_a_watched_loader() -> None:
    training = TrainingSession(record=False, separable=False)
    training.begin()
    training.begin_wait()
    training.end_wait()
    training.step(1)
    assert (steps.COUNTER.data_ns, training.data_wait) == (None, "not separable")
    for _ in iotop_ai.watch(range(2)):  # type: ignore[attr-defined]
        pass
    assert training.data_wait == "measured"


class Answers:
    """A Monitor that gives these verdicts."""

    error = ""

    def __init__(self, *verdicts: Verdict | None) -> None:
        self.verdicts = list(verdicts)

    def verdict(self, wait: float = 0) -> Verdict | None:
        return self.verdicts.pop(0)

    def breakdown(self, wait: float = 0) -> Breakdown | None:
        return Breakdown({"compute": 0.25, "data_disk": 0.75}, 12.0, 0.75, None, None)


def verdict(state: str, class_id: str, text: str = "x", measuring: bool = False) -> Verdict:
    return Verdict(state, class_id, text, "", "", 0.5, 0.9, measuring, {})


def test_each_verdict_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "VERDICT_EVERY_NS", 0)
    lines: list[str] = []
    training = TrainingSession(record=False, log=lines.append)
    verdicts = [
        None,
        verdict("UNSURE", "unknown", measuring=True),
        verdict("STARVED", "storage_read", "waits 38 %"),
        verdict("STARVED", "storage_read", "waits 41 %"),
        verdict("OK", "gpu_bound"),
        verdict("STARVED", "storage_read", "waits 40 %"),
    ]
    training.monitor = Answers(*verdicts)  # type: ignore[assignment]
    for number in range(len(verdicts)):
        training.step(number)
    assert lines == ["iotop-ai: STARVED: waits 38 %", "iotop-ai: OK: x", "iotop-ai: STARVED: waits 40 %"]


def test_a_second_training_reports_its_first_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    training = TrainingSession(record=False, log=lines.append)
    for _ in range(2):
        training.begin()
        monkeypatch.setattr(training, "_verdict_due_ns", 0)
        training.monitor = Answers(verdict("OK", "gpu_bound"))  # type: ignore[assignment]
        training.step(0)
        training.monitor = None
    assert lines == ["iotop-ai: OK: x"] * 2


def test_only_the_first_rank_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "VERDICT_EVERY_NS", 0)
    monkeypatch.setenv("RANK", "1")
    lines: list[str] = []
    training = TrainingSession(record=False, log=lines.append)
    training.monitor = Answers(verdict("STARVED", "storage_read"))  # type: ignore[assignment]
    training.step(1)
    assert lines == []


@pytest.mark.parametrize(("local_rank", "marks"), [(None, ["epoch 3"]), ("0", ["epoch 3"]), ("1", [])])
def test_only_the_first_rank_of_a_machine_marks_an_epoch(
    monkeypatch: pytest.MonkeyPatch, local_rank: str | None, marks: list[str]
) -> None:
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    if local_rank is not None:
        monkeypatch.setenv("LOCAL_RANK", local_rank)
    got: list[str] = []
    steps.COUNTER.listeners.append(lambda message: got.append(message["text"]))
    keras_callback(monkeypatch, record=False).on_epoch_begin(3)
    lightning_callback(monkeypatch).on_train_epoch_start(SimpleNamespace(current_epoch=3), None)
    transformers_callback(monkeypatch).on_epoch_begin(None, SimpleNamespace(epoch=3.0), None)
    assert got == marks * 3


class Writer:
    """Keeps the scalars that a SummaryWriter would get."""

    def __init__(self) -> None:
        self.scalars: list[tuple[str, float, int]] = []

    def add_scalar(self, name: str, value: float, number: int) -> None:
        self.scalars.append((name, value, number))


def test_metrics_are_emitted_when_they_are_due(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "METRICS_EVERY_NS", 0)
    writer = Writer()
    training = TrainingSession(record=False, writer=writer)
    training.begin()
    training.monitor = Answers()  # type: ignore[assignment]
    training.begin_wait()
    training.end_wait()
    time.sleep(0.01)
    metrics = training.step(7)
    assert metrics is not None
    assert {name for name, _, _ in writer.scalars} == set(metrics)
    assert {number for _, _, number in writer.scalars} == {7}
    assert metrics["iotop_ai/time_data_disk_ratio"] == metrics["iotop_ai/data_seen_ratio"] == 0.75
    assert 0 < metrics["iotop_ai/steps_per_s"] < 100
    assert 0 <= metrics["iotop_ai/data_wait_ratio"] <= 1


@pytest.mark.parametrize("noticed", ["before", "by the request"])
def test_the_last_shares_of_an_ended_recording_are_not_repeated(noticed: str) -> None:
    class Ended(Answers):
        error = "the recorder has ended" if noticed == "before" else ""

        def breakdown(self, wait: float = 0) -> Breakdown | None:
            self.error = "the recorder has ended"
            return super().breakdown(wait)

    training = TrainingSession(record=False)
    training.begin()
    training.monitor = Ended()  # type: ignore[assignment]
    metrics = training.metrics(time.monotonic_ns())
    assert "iotop_ai/steps_per_s" in metrics
    assert not [name for name in metrics if name.startswith("iotop_ai/time_") or name == "iotop_ai/data_seen_ratio"]


def test_batches_before_the_training_are_not_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "METRICS_EVERY_NS", 0)
    list(iotop_ai.watch(range(50)))  # type: ignore[attr-defined]
    training = TrainingSession(record=False)
    training.begin()
    time.sleep(0.01)
    metrics = training.step(1)
    assert metrics is not None
    assert metrics["iotop_ai/steps_per_s"] > 0


def test_a_forked_child_has_no_negative_rates() -> None:
    steps.COUNTER.steps, steps.COUNTER.data_ns = 100, 10**9
    training = TrainingSession(record=False)
    training.begin()
    steps.COUNTER.reset()  # as after a fork
    steps.COUNTER.step()
    assert training.metrics(time.monotonic_ns() + 10**9) == {}
    steps.COUNTER.step()
    assert training.metrics(time.monotonic_ns() + 2 * 10**9)["iotop_ai/steps_per_s"] > 0


def test_a_logger_that_fails_does_not_end_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(metrics: Any, number: int) -> None:
        raise OSError("the server is gone")

    monkeypatch.setattr(session, "METRICS_EVERY_NS", 0)
    training = TrainingSession(record=False)
    training.begin()
    assert training.step(1, broken) is not None


class WandbRun:
    """A run of Weights & Biases, which drops what is logged for an earlier step than its own."""

    def __init__(self) -> None:
        self.step = 0
        self.rows: dict[int, dict[str, float]] = {}

    def log(self, data: dict[str, float], step: int | None = None, commit: bool | None = None) -> None:
        if step is not None and step < self.step:
            return
        self.step = self.step if step is None else step
        self.rows.setdefault(self.step, {}).update(data)
        self.step += commit if commit is not None else step is None


def test_the_metrics_do_not_raise_the_step_of_weights_and_biases(monkeypatch: pytest.MonkeyPatch) -> None:
    run, stand_in = WandbRun(), ModuleType("wandb")
    stand_in.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wandb", stand_in)
    monkeypatch.setitem(sys.modules, "mlflow", None)
    monkeypatch.setattr(session, "METRICS_EVERY_NS", 0)
    training = TrainingSession(record=False)
    training.begin()
    for number in range(6):
        time.sleep(0.001)
        training.step(number)
        if number % 3 == 2:
            run.log({"val_loss": 0.5}, step=number // 3)
    assert [number for number, row in run.rows.items() if "val_loss" in row] == [0, 1]
    assert "iotop_ai/steps_per_s" in run.rows[0]


class Stoppable(Answers):
    stopped = False

    def stop(self) -> None:
        self.stopped = True


def test_the_training_and_its_recorder_end_normally_if_no_line_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(line: str) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(session, "VERDICT_EVERY_NS", 0)
    training = TrainingSession(record=False, log=broken)
    training.monitor = monitor = Stoppable(verdict("OK", "gpu_bound"), verdict("STARVED", "storage_read"))  # type: ignore[assignment]
    training.step(1)
    training.end()
    assert monitor.stopped


def test_ctrl_c_before_the_last_verdict_still_ends_the_recording() -> None:
    class Interrupted(Stoppable):
        def verdict(self, wait: float = 0) -> Verdict | None:
            raise KeyboardInterrupt

    training = TrainingSession(record=False)
    training.monitor = monitor = Interrupted()  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        training.end()
    assert monitor.stopped


def loaded_callbacks(monkeypatch: pytest.MonkeyPatch, module: str, framework: str, **content: Any) -> Any:
    """Our module of callbacks for a framework, loaded with a stand-in for the framework that has this content."""
    stand_in, name = ModuleType(framework), f"iotop_ai.train.callbacks.{module}"
    vars(stand_in).update(content)
    monkeypatch.setitem(sys.modules, framework, stand_in)
    monkeypatch.setitem(sys.modules, name, stand_in)  # so that the module loaded here is removed again
    del sys.modules[name]
    return import_module(name)


def lightning_callback(monkeypatch: pytest.MonkeyPatch) -> Any:
    module = loaded_callbacks(monkeypatch, "lightning", "lightning.pytorch", Callback=object)
    return module.LightningCallback(record=False)


def transformers_callback(monkeypatch: pytest.MonkeyPatch) -> Any:
    module = loaded_callbacks(monkeypatch, "transformers", "transformers", TrainerCallback=object)
    return module.TransformersCallback(record=False)


def keras_callback(monkeypatch: pytest.MonkeyPatch, **options: Any) -> Any:
    module = loaded_callbacks(monkeypatch, "keras", "keras", callbacks=SimpleNamespace(Callback=object))
    return module.KerasCallback(**options)


OWN_SAMPLER = SimpleNamespace(num_replicas=2)


@pytest.mark.parametrize(
    ("ranks", "first", "watched", "sampler", "warned"),
    [(2, 1, 1, None, 1), (2, 1, 1, OWN_SAMPLER, 0), (2, 1, 0, None, 0), (2, 0, 1, None, 0), (1, 1, 1, None, 0)],
)
def test_a_watched_loader_of_several_ranks_is_warned_about_once(
    monkeypatch: pytest.MonkeyPatch, ranks: int, first: bool, watched: bool, sampler: object, warned: int
) -> None:
    loader: Any = SimpleNamespace(sampler=sampler)
    loader = iotop_ai.watch(loader) if watched else loader  # type: ignore[attr-defined]
    for loaders in (loader, {"a": range(3), "b": loader}):
        callback = lightning_callback(monkeypatch)
        trainer = SimpleNamespace(world_size=ranks, is_global_zero=first, train_dataloader=loaders)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                callback.on_train_start(trainer, None)
        assert [str(one.message)[:41] for one in caught] == ["Lightning gives a watched loader no Distr"] * warned
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            lightning_callback(monkeypatch).on_train_start(trainer, None)


def test_an_error_in_lightning_ends_the_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    callback = lightning_callback(monkeypatch)
    callback.session.monitor = monitor = Stoppable(None, None)
    callback.on_exception(None, None, RuntimeError("CUDA out of memory"))
    assert monitor.stopped
    callback.teardown(None, None, "fit")


def test_an_error_is_marked_by_the_rank_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_RANK", "1")
    got: list[str] = []
    steps.COUNTER.listeners.append(lambda message: got.append(message["text"]))
    lightning_callback(monkeypatch).on_exception(None, None, RuntimeError("CUDA out of memory"))
    lightning_callback(monkeypatch).on_exception(None, None, KeyboardInterrupt())
    assert got == ["ended by RuntimeError"]


def logs_of_an_epoch(callback: Any) -> dict[str, float]:
    logs = {"loss": 0.5}
    callback.on_epoch_begin(0)
    callback.on_train_batch_begin(0)
    callback.on_train_batch_end(0)
    callback.on_epoch_end(0, logs)
    return logs


@pytest.mark.parametrize(
    ("calls", "params", "steps_in_all"),
    [
        ([(0, 31), (32, 63)], {"steps": 64}, 64),
        ([(0, 31), (32, 63)], {"steps": 40}, 40),
        ([(0, 31), (32, 63)], {"steps": None}, 64),
        ([(0, 0), (1, 1), (2, 2)], {}, 3),
        ([(0, 0), (32, 32)], {"steps": 64}, 2),
    ],
)
def test_each_step_of_a_keras_execution_counts(
    calls: list[tuple[int, int]], params: dict[str, int | None], steps_in_all: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ``steps_per_execution=32``, Keras calls us once for 32 steps. Keras 3.0 to 3.10 passes only the first."""
    callback = keras_callback(monkeypatch, record=False)
    callback.params = params
    before = steps.COUNTER.steps or 0
    for first, last in calls:
        callback.on_train_batch_begin(first)
        callback.on_train_batch_end(last)
    assert (steps.COUNTER.steps or 0) - before == steps_in_all


def test_a_second_fit_of_keras_does_not_log_the_metrics_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    callback = keras_callback(monkeypatch, record=False)
    known = []
    for metrics_ns in (0, 10**12):
        monkeypatch.setattr(session, "METRICS_EVERY_NS", metrics_ns)
        callback.on_train_begin()
        logs = logs_of_an_epoch(callback)
        known.append({name for name, value in logs.items() if not math.isnan(value)})
        callback.on_train_end()
    assert "iotop_ai/steps_per_s" in known[0]
    assert known[1] == {"loss"}


@pytest.mark.parametrize("record", [False, True])
def test_each_epoch_of_keras_has_the_same_metrics(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, record: bool
) -> None:
    """If a metric came later, the lists of the History would differ in length, and no table could be made of them."""
    callback = keras_callback(monkeypatch, path=tmp_path / "run.iotop.jsonl", record=record)
    monkeypatch.setattr(session, "METRICS_EVERY_NS", 10**12)
    monitor = Answers(*[None] * 9)
    if record:
        monitor.start = monitor.stop = lambda: None  # type: ignore[attr-defined]
        callback.session.monitor = monitor
    callback.on_train_begin()
    epochs = [logs_of_an_epoch(callback)]
    callback.session._metrics_due_ns = 0
    epochs.append(logs_of_an_epoch(callback))
    monitor.error = "the recorder has ended"
    callback.session._metrics_due_ns = 0
    epochs.append(logs_of_an_epoch(callback))
    callback.on_train_end()
    assert [list(epoch) for epoch in epochs] == [list(epochs[0])] * 3
    known = [{name for name, value in epoch.items() if not math.isnan(value)} for epoch in epochs]
    assert known[0] == {"loss"}
    assert "iotop_ai/steps_per_s" in known[1] & known[2]
    assert ("iotop_ai/time_compute_ratio" in epochs[0], "iotop_ai/time_compute_ratio" in known[1]) == (record, record)
    assert "iotop_ai/time_compute_ratio" not in known[2]


def test_the_metrics_have_the_names_of_the_shares() -> None:
    assert answers.SHARES == time_shares.SHARES
    assert answers.DATA == time_shares.DATA


def test_the_recorder_of_a_failed_fit_ends_when_the_next_fit_begins(tmp_path: Path) -> None:
    """Keras and Transformers do not call on_train_end after an error."""
    others = [TrainingSession(tmp_path / f"{name}.iotop.jsonl", interval=0.2) for name in ("loop", "thread")]
    fits = [TrainingSession(tmp_path / f"fit{number}.iotop.jsonl", interval=0.2) for number in range(2)]
    others[0].begin()
    thread = threading.Thread(target=others[1].begin_fit)
    thread.start()
    thread.join()
    try:
        for fit in fits:
            fit.begin_fit()
        assert [is_recording(training) for training in fits] == [False, True]
        assert [is_recording(training) for training in others] == [True, True]
    finally:
        for training in (*fits, *others):
            training.end()
    assert session._OPEN_FITS == []


def is_recording(training: TrainingSession) -> bool:
    recorder = None if training.monitor is None else training.monitor._recorder
    return recorder is not None and os.path.exists(f"/proc/{recorder.pid}")


def test_a_plain_loop_is_recorded(tmp_path: Path) -> None:
    lines: list[str] = []
    with iotop_ai.TrainingLoop(tmp_path / "run.iotop.jsonl", interval=0.2, log=lines.append) as loop:  # type: ignore[attr-defined]
        for _ in loop(range(4)):
            loop.step()
            loop.session.monitor.verdict(wait=60)
    recording = iotop_ai.load(tmp_path / "run.iotop.jsonl", allow_root=True)  # type: ignore[attr-defined]
    assert [row for row in recording.steps if row["pid"] == os.getpid()][-1]["steps"] == 4
