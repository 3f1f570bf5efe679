"""At the end of a session, the acknowledgements whose findings have ended are removed from the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotop_ai.cli.commands.monitor.remove_ended import remove_ended_acknowledgements
from iotop_ai.collectors.state.acknowledged import Acknowledged
from iotop_ai.diagnosis.verdict.acknowledge import ENDED
from iotop_ai.model.settings import Settings
from tests.diagnosis.build import IDLE, last


@pytest.mark.parametrize("remember", [True, False])
def test_an_ended_acknowledgement_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remember: bool) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    store = Acknowledged(tmp_path / "iotop-ai")
    store.add("gpu_fault:GPU-1", "critical answers=0", 100)
    store.add("gpu_fault:GPU-2", "critical xid=79", 101)
    acked = {"gpu_fault:GPU-1": ENDED, "gpu_fault:GPU-2": "critical xid=79", "gpu_fault:GPU-3": ENDED}
    frame = last(IDLE)
    remove_ended_acknowledgements(Settings(remember=remember), frame._replace(carry=frame.carry._replace(acked=acked)))
    kept = {"gpu_fault:GPU-2": "critical xid=79"}
    assert store.read() == (kept if remember else {"gpu_fault:GPU-1": "critical answers=0", **kept})


def test_an_invalid_file_is_left_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    store = Acknowledged(tmp_path / "iotop-ai")
    store.add("gpu_fault:GPU-1", "critical answers=0", 100)
    store.path.write_text("{")
    frame = last(IDLE)
    remove_ended_acknowledgements(
        Settings(), frame._replace(carry=frame.carry._replace(acked={"gpu_fault:GPU-1": ENDED}))
    )
    assert store.path.read_text() == "{"
