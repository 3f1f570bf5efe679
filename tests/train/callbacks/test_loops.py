"""Each callback in a real loop of its framework: the wait that it measures is the wait in the framework's loader."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from iotop_ai.export.tables.recording import Recording
from tests.bench.callbacks import OUTSIDE_WITHIN, WITHIN, waits_of
from tests.scenarios.stacks.install import python_of, why_no_stack
from tests.train.callbacks.run_loop import PROGRAM, TOP, run_loop

METRICS = ("iotop_ai/steps_per_s", "iotop_ai/data_wait_ratio", "iotop_ai/time_compute_ratio")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.alone,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not os.access(PROGRAM, os.X_OK), reason="iotop-ai is not installed as a program"),
]


def run(stack: str, loop: str, folder: Path, backend: str = "") -> dict[str, Any]:
    if why := why_no_stack(stack):
        pytest.skip(why)
    result = run_loop(stack, loop, folder, backend)
    assert result["steps"] == result["true_steps"]
    return result


@pytest.mark.parametrize(
    ("stack", "loop", "backend"),
    [
        ("lightning", "plain", ""),
        ("lightning", "lightning", ""),
        ("transformers", "transformers", ""),
        ("keras", "keras_torch", "torch"),
    ],
)
def test_the_measured_wait_is_that_of_the_frameworks_loader(
    stack: str, loop: str, backend: str, tmp_path: Path
) -> None:
    found = run(stack, loop, tmp_path, backend)
    assert found["data_wait"] == "measured"
    assert found["truth"] > 0.2, "the loader was not slow"
    waits = waits_of(found)
    assert waits.callback == pytest.approx(waits.truth, abs=WITHIN)
    assert waits.outside == pytest.approx(waits.asleep, abs=OUTSIDE_WITHIN)
    assert [line for line in found["lines"] if line.startswith("iotop-ai: ")], "the verdict is not in the log"
    if loop in ("plain", "lightning", "transformers"):
        assert (found["loader"]["num_workers"], found["loader"]["prefetch_factor"]) == (1, 2)
    if loop == "keras_torch":
        (names,) = (line.split() for line in found["lines"] if line.startswith("history: "))
        assert {*METRICS} <= {*names}
    else:
        events = b"".join(path.read_bytes() for path in tmp_path.rglob("events.out.tfevents.*"))
        assert all(name.encode() in events for name in METRICS), "TensorBoard lacks metrics"
    steps = list(Recording(found["path"], allow_root=True).steps)
    assert steps[-1]["steps"] == found["steps"]


@pytest.mark.parametrize(
    ("stack", "loop", "backend"),
    [("keras", "keras", "jax"), ("tensorflow", "keras", ""), ("tensorflow", "tf_keras", "")],
)
def test_a_wait_during_a_step_cannot_be_separated(stack: str, loop: str, backend: str, tmp_path: Path) -> None:
    found = run(stack, loop, tmp_path, backend)
    assert (found["data_wait"], found["measured"]) == ("not separable", None)
    assert found["truth"] > 0.2


def test_a_watched_generator_measures_what_the_back_end_hides(tmp_path: Path) -> None:
    found = run("tensorflow", "keras_watched", tmp_path)
    assert found["data_wait"] == "measured"
    assert found["measured"] == pytest.approx(found["truth"], abs=WITHIN)


LOGGERS = """
import json, os, sys
import mlflow, wandb
from iotop_ai.train.callbacks import session
from iotop_ai import TrainingLoop
session.METRICS_EVERY_NS = 0
folder = sys.argv[1]
mlflow.set_tracking_uri(f"file://{folder}/mlruns")
run = wandb.init(mode="offline", dir=folder, project="x", settings=wandb.Settings(console="off"))
with mlflow.start_run() as active, TrainingLoop(record=False) as loop:
    for batch in loop(range(3)):
        loop.step()
        run.log({"loss": 0.5}, step=batch)
    run.log({}, step=3)
history = mlflow.MlflowClient().get_metric_history(active.info.run_id, "iotop_ai/steps_per_s")
summary = dict(run.summary)
run.finish()
print(json.dumps([[point.step for point in history], summary]))
"""


def test_open_runs_of_mlflow_and_wandb_get_metrics(tmp_path: Path) -> None:
    if why := why_no_stack("lightning"):
        pytest.skip(why)
    found = subprocess.run(
        [python_of("lightning"), "-c", LOGGERS, str(tmp_path)],
        env={"PATH": os.defpath, "PYTHONPATH": str(TOP), "HOME": str(tmp_path), "WANDB_SILENT": "true",
             "MLFLOW_ALLOW_FILE_STORE": "true"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr[-3000:]
    steps, summary = json.loads(found.stdout.splitlines()[-1])
    assert steps == [1, 2, 3]
    assert summary["iotop_ai/steps_per_s"] > 0
    assert (summary["_step"], summary["loss"]) == (2, 0.5)
