"""The magics of a notebook, which nbclient executes in a real kernel, and the picture that they show."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sysconfig
import threading
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import iotop_ai
from iotop_ai.export.tables.recording import Recording
from iotop_ai.train import notebook
from iotop_ai.train.answers import Breakdown, Verdict
from iotop_ai.train.monitor import MonitorWarning
from iotop_ai.train.notebook import Magics, Session, escape_html
from iotop_ai.train.picture import picture
from tests.scenarios.stacks.install import python_of, why_no_stack
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("marks")  # the group is shared because a mark reaches every monitor of the user

TOP = Path(iotop_ai.__file__).parent.parent
PROGRAM = os.path.join(sysconfig.get_path("scripts"), "iotop-ai")

RUN = """
import json, sys
import nbformat
from nbclient import NotebookClient
cells = json.load(sys.stdin)
book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
NotebookClient(book, timeout=100, kernel_name="python3", allow_errors=True).execute()
print(json.dumps([cell.outputs for cell in book.cells]))
"""
TRAIN = """
import time, torch, iotop_ai
from torch.utils.data import DataLoader, Dataset
class Slow(Dataset):
    def __len__(self): return 64
    def __getitem__(self, i): time.sleep(0.02); return torch.ones(4)
torch.set_num_threads(1)
def train(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for batch in iotop_ai.watch(DataLoader(Slow(), batch_size=8, num_workers=1)):
            batch.sum()
"""


def executed(cells: list[str], folder: Path) -> list[list[dict[str, Any]]]:
    found = subprocess.run(
        [python_of("notebook"), "-c", RUN],
        input=json.dumps(cells), cwd=folder, capture_output=True, text=True, check=False,
        env={"PATH": os.defpath, "PYTHONPATH": str(TOP), "IOTOP_AI_PROGRAM": PROGRAM, "HOME": str(folder),
             "XDG_RUNTIME_DIR": str(folder)},
    )  # fmt: skip
    assert found.returncode == 0, found.stderr[-3000:]
    outputs: list[list[dict[str, Any]]] = json.loads(found.stdout.splitlines()[-1])
    return outputs


def html_of(outputs: list[dict[str, Any]]) -> str:
    return "".join(one["data"].get("text/html", "") for one in outputs if "data" in one)


def text_of(outputs: list[dict[str, Any]]) -> str:
    return "".join(one.get("text", "") for one in outputs)


@pytest.mark.slow
@pytest.mark.timeout(200)
@pytest.mark.skipif(bool(why_no_stack("notebook")), reason=why_no_stack("notebook"))
@pytest.mark.skipif(not os.access(PROGRAM, os.X_OK), reason="iotop-ai is not installed as a program")
def test_a_notebook_records_and_shows_its_picture(tmp_path: Path) -> None:
    outputs = executed(
        [
            "%load_ext iotop_ai",
            "%monitor_io report",
            TRAIN,
            "%%monitor_io cell.iotop.jsonl\ntrain(25)\nprint('trained')",
            "%monitor_io start own.iotop.jsonl",
            "%monitor_io start again.iotop.jsonl",
            "train(2)",
            "%monitor_io report",
            "%monitor_io stop",
            "%monitor_io dance",
            "%%monitor_io failing.iotop.jsonl\nraise LookupError('no such sample')",
            "%%monitor_io awaits.iotop.jsonl\nimport asyncio\nawait asyncio.sleep(0)",
        ],
        tmp_path,
    )
    assert text_of(outputs[1]) == "monitor_io: nothing is recorded yet\n"
    cell = html_of(outputs[3])
    assert text_of(outputs[3]) == "trained\n"
    assert "<svg " in cell
    assert "data: " in cell
    assert f"recorded in {tmp_path / 'cell.iotop.jsonl'}" in cell
    assert "monitor_io 0:" not in cell, "the report did not replace the progress"
    assert text_of(outputs[4]) == "monitor_io: recording\n"
    assert "already recording" in text_of(outputs[5])
    assert "watched" in html_of(outputs[7])
    assert "own.iotop.jsonl" in html_of(outputs[8])
    assert text_of(outputs[9]).startswith("usage: ")
    assert "LookupError" in json.dumps(outputs[10])
    assert any(one["output_type"] == "error" for one in outputs[10]), "a run of all cells does not stop there"
    (refused,) = outputs[11]
    assert "use %monitor_io start and stop" in json.dumps(refused)
    assert not (tmp_path / "awaits.iotop.jsonl").exists()
    for name in ("cell", "own", "failing"):
        assert len(Recording(tmp_path / f"{name}.iotop.jsonl", allow_root=True).system) > 0
    if keep := os.environ.get("IOTOP_AI_KEEP_PICTURE"):
        Path(keep).write_text(cell)


SHARES = {"compute": 0.41, "data_disk": 0.52, "data_cpu": 0.003, "unexplained": 0.067}


def verdict(**changes: Any) -> Verdict:
    values = {"state": "STARVED", "class_id": "storage_read", "text": "waits 52 %", "because": "disk sda", "advice": ""}
    return Verdict(**{**values, "lost_ratio": 0.5, "confidence": 0.9, "measuring": False, "finding": {}, **changes})


def test_the_bar_has_each_share_that_is_large_enough() -> None:
    shown = picture(verdict(), Breakdown(SHARES, 60.0, 0.52, 0.5, 0.02), 61.0, "/tmp/x.iotop.jsonl")
    svg = ET.fromstring(shown[shown.index("<svg") : shown.index("</svg>") + 6])
    rects = [one for one in svg if one.tag.endswith("rect")]
    assert [one[0].text for one in rects] == ["compute 41.0 %", "data: disk 52.0 %", "unexplained 6.7 %"]
    widths = [float(one.attrib["width"]) for one in rects]
    assert sum(widths) == pytest.approx(640, abs=0.2)
    assert widths[1] / widths[0] == pytest.approx(52 / 41, rel=0.01)
    assert "data wait as the loop measures it 50 %" in shown
    assert "<b>STARVED</b> waits 52 %" in shown


def test_hostile_names_are_escaped() -> None:
    shown = picture(verdict(text="<script>alert(1)</script>", because='"&'), None, 1.0, "/tmp/<b>.iotop.jsonl")
    assert "<script" not in shown
    assert "&lt;script&gt;" in shown
    assert "&lt;b&gt;" in shown
    assert "where the time went is not known" in shown


def test_a_missing_answer_is_reported() -> None:
    assert "no answer from the recorder" in picture(None, None, 1.0, "")
    shown = picture(None, None, 1.0, "/tmp/x.iotop.jsonl", "No such file <b>")
    assert "not recorded: No such file &lt;b&gt;" in shown
    assert "/tmp/x" not in shown
    shown = picture(verdict(), None, 60.0, "/tmp/x.iotop.jsonl", "killed by <b>")
    assert "recorded in /tmp/x" in shown
    assert "the recording ended early: killed by &lt;b&gt;" in shown
    assert "ended early" not in picture(verdict(), None, 60.0, "/tmp/x.iotop.jsonl")


def test_a_recorder_that_dies_stops_the_clock_and_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(notebook, "_html", str)
    path = tmp_path / "run.iotop.jsonl"
    run = Session(str(path), show_progress=False)
    try:
        assert run.monitor.verdict(wait=60) is not None
        recorder = run.monitor._recorder
        assert recorder is not None
        os.kill(recorder.pid, signal.SIGKILL)
        with pytest.warns(MonitorWarning):
            until(lambda: run._progress() and run.monitor.error, "the end of the recorder")
        assert escape_html(run.monitor.error) in run._progress()
        watched = run._seconds()
        time.sleep(0.1)
        assert run._seconds() == watched
    finally:
        run.stop()
    shown = run.report()
    assert f"the recording ended early: {escape_html(run.monitor.error)}" in shown
    assert f"watched {watched:.0f} s, recorded in {path}" in shown


def test_a_cell_is_recorded_although_no_thread_can_show_its_progress(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class NoThread(threading.Thread):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    monkeypatch.setenv("IOTOP_AI", "0")
    monkeypatch.setattr(notebook, "_html", str)
    monkeypatch.setattr(notebook, "_display", lambda content, **options: None)
    monkeypatch.setattr(threading, "Thread", NoThread)
    run = Session(str(tmp_path / "run.iotop.jsonl"), show_progress=True)
    run.stop()
    assert run.ended


class FakeSession:
    """A Session that records nothing."""

    def __init__(self, path: str | None, show_progress: bool) -> None:
        self.path = path
        self.ended = False
        self.monitor = SimpleNamespace(error="")

    def stop(self) -> None:
        self.ended = True

    def report(self) -> str:
        return f"{self.path}: {'ended' if self.ended else 'running'}"

    def replace_progress(self) -> None:
        pass


def test_a_path_may_begin_with_a_tilde_as_in_a_shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(notebook, "Session", FakeSession)
    magics = Magics(SimpleNamespace(run_cell=lambda cell: SimpleNamespace(success=True)))
    magics.monitor_io("~/cell.iotop.jsonl", "1 + 1")
    assert magics.monitor_io("report") == f"{tmp_path}/cell.iotop.jsonl: ended"
    magics.monitor_io("start ~/long.iotop.jsonl")
    assert magics.monitor_io("report") == f"{tmp_path}/long.iotop.jsonl: running"


def test_a_monitored_cell_does_not_affect_a_running_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "Session", FakeSession)
    magics = Magics(SimpleNamespace(run_cell=lambda cell: SimpleNamespace(success=True)))
    magics.monitor_io("cell.iotop.jsonl", "1 + 1")
    assert magics.monitor_io("report") == "cell.iotop.jsonl: ended"
    magics.monitor_io("start long.iotop.jsonl")
    magics.monitor_io("", "1 + 1")
    assert magics.monitor_io("report") == "long.iotop.jsonl: running"
    assert magics.monitor_io("stop") == "long.iotop.jsonl: ended"
