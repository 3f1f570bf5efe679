"""The examples in README.md and docs/api.md run as they are printed."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

import iotop_ai
from iotop_ai.export.tables.recording import Recording
from tests.scenarios.stacks.install import python_of, why_no_stack

pytestmark = pytest.mark.xdist_group("marks")  # the group is shared because a mark reaches every monitor of the user

TOP = Path(iotop_ai.__file__).parent.parent


def blocks(page: str, language: str = "python") -> list[str]:
    """The code blocks on a page."""
    return re.findall(rf"```{language}\n(.*?)```", (TOP / page).read_text(), flags=re.DOTALL)


(README,) = blocks("README.md")
MONITOR, LOAD, DISKS, CALLBACK = README.strip().split("\n\n")
(NOTEBOOK,) = blocks("README.md", "ipython")
(LOOP,) = (block for block in blocks("docs/api.md") if "m.step()" in block)


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))

    class Loader:
        def __iter__(self) -> Iterator[int]:
            for number in range(5):
                time.sleep(0.02)
                yield number

    return {"iotop_ai": iotop_ai, "loader": Loader(), "train": lambda batch: time.sleep(0.01)}


def printed(code: str, names: dict[str, Any]) -> str:
    with redirect_stdout(io.StringIO()) as out:
        exec(compile(code, "example", "exec"), names)
    return out.getvalue()


def test_a_training_records_itself(names: dict[str, Any]) -> None:
    assert printed(MONITOR, names).split(":")[0] in ("UNSURE", "BUSY", "CALM", "OK", "FAILING", "BLOCKED")
    assert list(Recording("run.iotop.jsonl", allow_root=True).steps)[-1]["batches"]


def test_a_loop_has_epochs(names: dict[str, Any]) -> None:
    printed(LOOP, names)
    assert [row["text"] for row in Recording("run.iotop.jsonl", allow_root=True).marks] == [
        "epoch 0",
        "epoch 1",
        "epoch 2",
    ]


def test_a_table_of_all_disks_is_printed(names: dict[str, Any]) -> None:
    out = printed(DISKS.replace("interval=2, duration=20", "interval=0.5, duration=1.6"), names)
    assert out.count("r_await") >= 2


@pytest.mark.slow
@pytest.mark.skipif(bool(why_no_stack("frames")), reason=why_no_stack("frames"))
def test_a_recording_becomes_a_data_frame(names: dict[str, Any], tmp_path: Path) -> None:
    printed(MONITOR, names)
    code = f"import iotop_ai\nprint({LOAD}.columns.tolist())".replace('.jsonl")', '.jsonl", allow_root=True)')
    environment = {"PYTHONPATH": str(TOP), "PATH": os.defpath}
    found = subprocess.run(
        [python_of("frames"), "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert "r_await" in found.stdout


@pytest.mark.slow
@pytest.mark.skipif(bool(why_no_stack("lightning")), reason=why_no_stack("lightning"))
def test_a_trainer_takes_the_callback(tmp_path: Path) -> None:
    code = f"import iotop_ai\nfrom lightning.pytorch import Trainer\nprint(len({CALLBACK}.callbacks))"
    environment = {"PYTHONPATH": str(TOP), "PATH": os.defpath, "HOME": str(tmp_path)}
    found = subprocess.run(
        [python_of("lightning"), "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr[-2000:]
    assert int(found.stdout) >= 1


def test_the_notebook_lines_of_the_readme_are_tested() -> None:
    tested = Path(__file__).with_name("test_notebook.py").read_text()
    assert all(line in tested for line in NOTEBOOK.splitlines())


@pytest.mark.skipif(sys.version_info < (3, 11), reason="needs the monitor's own Python")
def test_a_gate_in_ci_answers_with_its_exit_code(tmp_path: Path) -> None:
    """Runs the lines in docs/recipes.md with a short command as the training. Other trainings may run beside it."""
    shell = [line for block in blocks("docs/recipes.md", "yaml") for line in block.splitlines() if "- run: " in line]
    record, gate = (line.partition("- run: ")[2] for line in shell)
    script = f"{record}\n{gate}".replace("python train.py --max-steps 200", "sleep 3")
    script = script.replace("iotop-ai ", f"{sys.executable} -m iotop_ai ")
    script = script.replace("diagnose ", "diagnose --allow-root ")
    found = subprocess.run(
        ["bash", "-ec", script], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(TOP)},
    )  # fmt: skip
    answer = found.stderr.splitlines()[-1] + found.stdout
    expected = 0 if "%: not met:" in answer else 1 if "%: met:" in answer else 2
    assert found.returncode == expected, answer
    assert expected != 2 or "unknown: " in answer
