"""Code that runs in a training process: it needs only the standard library and Python 3.8, and loads quickly."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import iotop_ai
from iotop_ai.export.tables.recording import Recording
from tests.test_structure import MODULES, import_graph, imports, reachable
from tests.train.old_python import old_python

pytestmark = pytest.mark.xdist_group("marks")  # the group is shared because a mark reaches every monitor of the user

TOP = Path(iotop_ai.__file__).parent.parent
PROGRAM = os.path.join(sysconfig.get_path("scripts"), "iotop-ai")
OPTIONAL = {
    "torch",
    "lightning",
    "pytorch_lightning",
    "transformers",
    "keras",
    "tensorflow",
    "IPython",
    "mlflow",
    "wandb",
}
"""Frameworks that are already loaded when a callback for them is used."""


def in_training() -> set[str]:
    """Every module of ours that a training process may load."""
    graph = import_graph()
    starts = {name for name in MODULES if name.startswith("iotop_ai.train")} | {"iotop_ai"}
    return starts | {one for start in starts for one in reachable(graph, start)}


def test_every_module_parses_as_python_3_8() -> None:
    assert len(in_training()) > 10
    for name in in_training():
        ast.parse(MODULES[name].read_text(), feature_version=(3, 8))


def test_every_module_imports_only_the_standard_library() -> None:
    outside = {
        (name, top)
        for name in in_training()
        for top in {other.split(".")[0] for other in imports()[name]}
        if top not in sys.stdlib_module_names and top != "iotop_ai"
    }
    assert {top for _, top in outside} <= OPTIONAL


def test_ruff_checks_these_modules_for_python_3_8() -> None:
    import tomllib

    patterns = tomllib.loads((TOP / "pyproject.toml").read_text())["tool"]["ruff"]["per-file-target-version"]
    assert set(patterns.values()) == {"py38"}
    listed = {
        path for pattern in patterns for one in _braces(pattern) for path in TOP.glob(one) if path.suffix == ".py"
    }
    empty = {"iotop_ai.collectors", "iotop_ai.collectors.io", "iotop_ai.model"}
    assert {MODULES[name] for name in in_training() - empty} <= listed


def _braces(pattern: str) -> list[str]:
    """Expand a pattern once for each word between { and }."""
    before, _, rest = pattern.partition("{")
    words, _, after = rest.partition("}")
    return [f"{before}{word}{after}" for word in words.split(",")] if rest else [pattern.replace("/**", "/**/*")]


def test_the_import_loads_no_library_and_takes_little_time() -> None:
    found = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "import iotop_ai, sys; print(*sys.modules)"],
        capture_output=True, text=True, check=True, cwd=TOP,
    )  # fmt: skip
    assert not {"textual", "pySMART", "plotext", "psutil", "pynvml", "json", "subprocess"} & set(found.stdout.split())
    own_us = [int(line.split("|")[1]) for line in found.stderr.splitlines() if line.endswith("iotop_ai")]
    assert own_us[0] <= 30_000


ALL_NAMES = """
import inspect, json, pydoc, sys
sys.path.insert(0, sys.argv[1])
import iotop_ai
from iotop_ai import *
whys = {}
for name in ("LightningCallback", "TransformersCallback", "KerasCallback", "tf_keras_callback", "load"):
    try:
        getattr(iotop_ai, name)
    except ImportError as error:
        whys[name] = str(error)
help = pydoc.render_doc(iotop_ai)
print(json.dumps([help, [name for name, _ in inspect.getmembers(iotop_ai)], whys, Monitor.__name__]))
"""


@pytest.mark.parametrize("python", [sys.executable, old_python()], ids=["this Python", "an old Python"])
def test_help_and_a_star_import_work_without_frameworks(python: str) -> None:
    if not python:
        pytest.skip("no Python 3.8 to 3.10 on this machine")
    found = subprocess.run([python, "-I", "-S", "-c", ALL_NAMES, str(TOP)], capture_output=True, text=True, check=True)
    text, names, whys, monitor = json.loads(found.stdout)
    assert "iotop-ai: why is my training slow?" in text
    assert {"Monitor", "watch", "TrainingLoop"} <= set(names)
    assert set(names).isdisjoint(whys)
    assert whys["LightningCallback"] == "iotop_ai.LightningCallback needs lightning: pip install lightning"
    assert whys["tf_keras_callback"].endswith("pip install tensorflow")
    assert ("load" in whys) == (python != sys.executable)
    assert monitor == "Monitor"


TRAINING = """
import json, sys, time
import iotop_ai
def loader():
    for i in range(12):
        time.sleep(0.1)
        yield i
with iotop_ai.Monitor(sys.argv[1], interval=0.2) as m:
    for batch in iotop_ai.watch(loader()):
        time.sleep(0.05)
        m.step()
    m.mark("done")
    verdict = m.verdict(wait=60)
print(json.dumps([list(sys.version_info[:2]), m.error, verdict.state, m.path]))
"""


@pytest.mark.skipif(not os.access(PROGRAM, os.X_OK), reason="iotop-ai is not installed as a program")
def test_an_old_python_can_train_with_a_monitor_in_another_environment(tmp_path: Path) -> None:
    if not old_python():
        pytest.skip("no Python 3.8 to 3.10 on this machine")
    path = tmp_path / "run.iotop.jsonl"
    found = subprocess.run(
        [old_python(), "-c", TRAINING, str(path)],
        env={"PATH": os.defpath, "PYTHONPATH": str(TOP), "IOTOP_AI_PROGRAM": PROGRAM, "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True, text=True, timeout=100, check=True,
    )  # fmt: skip
    version, error, state, written = json.loads(found.stdout)
    assert version < [3, 11]
    assert (error, written) == ("", str(path))
    assert state in ("UNSURE", "BUSY", "CALM", "OK", "FAILING")
    recording = Recording(path, allow_root=True)
    assert "done" in [one["text"] for one in recording.marks]  # other programs of this user can set marks, too
    last = list(recording.steps)[-1]
    assert last["steps"] == 12
    assert 1.0 < float(str(last["data_wait_s"])) < 6.0
