"""The live source while the user's home hangs: only readings from the home fail, and ticks come in time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotop_ai.collectors.health.history import FOLDER_WAIT_S, HealthHistory
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.state.acknowledged import Acknowledged
from iotop_ai.model.health.smart import SmartState
from iotop_ai.model.reading import Status
from iotop_ai.model.settings import Settings
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.sources.live.source import LiveSource
from tests.rigs.home import Home, why_no_home

pytestmark = [pytest.mark.alone, pytest.mark.skipif(bool(why_no_home()), reason=why_no_home())]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    with Home(tmp_path) as made:
        monkeypatch.setenv("XDG_STATE_HOME", str(made.path / "state"))
        yield made


def test_only_readings_that_need_the_home_fail_while_it_hangs(home: Home) -> None:
    acknowledged = Acknowledged(home.path / "state/iotop-ai")
    acknowledged.add("failing_disk:S1", "critical reallocated=3", 100)
    home.hang()
    source = LiveSource(Settings(smart=False, interval_s=0.5))
    taken: list[Snapshot] = []
    begun = time.monotonic()
    for snapshot in source:
        taken.append(snapshot)
        if len(taken) == 12:
            home.release()
        if len(taken) == 18:
            source.close()
    assert time.monotonic() - begun < 12
    first, late, last = taken[0], taken[11], taken[-1]
    assert first.baselines.status is Status.PENDING
    assert late.baselines.status is Status.FAILED
    assert late.baselines.reason == f"{home.path}/state/iotop-ai: no answer"
    assert late.baselines.remedy
    full = (late.filesystems.value or {})[str(home.path)]
    assert full.status is Status.FAILED
    assert full.reason.startswith("no answer for")
    for snapshot in taken:
        assert snapshot.processes.status is Status.OK
        assert snapshot.block.status is Status.OK
        assert snapshot.memory.status is Status.OK
    assert not [e for s in taken[:12] for e in s.events if e.kind == "ack"]
    # The read of the acknowledged findings ends when the server answers again.
    assert [e.text for s in taken[12:] for e in s.events if e.kind == "ack"] == [
        "failing_disk:S1 critical reallocated=3"
    ]
    assert last.baselines.status is not Status.FAILED
    assert source.in_flight() is None


def test_the_health_of_a_disk_is_shown_without_its_history(home: Home) -> None:
    history = HealthHistory(home.path / "state/iotop-ai", Clock())
    state = SmartState(
        device="/dev/nvme0",
        protocol="NVMe",
        model="M1",
        serial="S1",
        firmware="",
        assessment="",
        severity="ok",
        reasons=(),
    )
    assert history.with_history(state).history_note == ""
    home.hang()
    begun = time.monotonic()
    state_with_past = history.with_history(state)
    again = history.with_history(state._replace(serial="S2"))
    assert time.monotonic() - begun < FOLDER_WAIT_S + 1
    assert state_with_past.history_note == f"no history: {home.path}/state/iotop-ai/health: no answer for 5 s"
    assert again.history_note.endswith("no answer")
    assert state_with_past.serial == "S1"
