"""A learned baseline is kept when the monitor ends, and later counts only as history."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from iotop_ai.diagnosis.memory.read_latency_baseline import baseline_ms, with_earlier_baselines
from iotop_ai.model.block.counters import BlockInfo
from iotop_ai.model.block.read_latency_baseline import MINUTE_NS, PART_NS, PARTS, Baseline, DeviceBaseline, with_minute
from iotop_ai.model.frame import Frame
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.pipeline import frames
from iotop_ai.sources.live.source import LiveSource
from iotop_ai.sources.recorded.source import ReplaySource
from iotop_ai.store.baselines import FILE, MOST_DEVICES, OLDEST_S, Baselines
from tests.store.scenario import session
from tests.tui.recorded import record

INFO = BlockInfo("sda", 8, 0, "disk", "sda", transport="ata", serial="S1")
INFOS = {"sda": INFO}
WALL_S = 1_795_000_000
HOUR_NS = 3600 * 10**9


def learned(minutes: int = 20, await_ms: float = 2.0, at_ns: int = 100 * HOUR_NS) -> DeviceBaseline:
    """The baseline of a disk whose 128 KiB reads took ``await_ms`` in each of the last ``minutes``."""
    one = Baseline()
    for i in range(minutes):
        one = with_minute(one, at_ns - (minutes - i) * MINUTE_NS, await_ms)
    return DeviceBaseline(sizes=(Baseline(), one, Baseline()))


def test_a_baseline_is_read_back_after_a_reboot(tmp_path: Path) -> None:
    store = Baselines(tmp_path / "state")
    assert store.read(0, WALL_S) == {}
    assert store.keep({"S1": learned()}, INFOS, 100 * HOUR_NS, WALL_S)
    now_ns = 5 * MINUTE_NS
    found = store.read(now_ns, WALL_S + 600)
    assert baseline_ms(found, INFO, 128 * 1024) == baseline_ms({"S1": learned()}, INFO, 128 * 1024) != None  # noqa: E711
    assert found["S1"].sizes[1].minutes == 20
    path = tmp_path / "state" / FILE
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_an_old_baseline_counts_until_there_is_a_new_one(tmp_path: Path) -> None:
    store = Baselines(tmp_path)
    store.keep({"S1": learned()}, INFOS, 100 * HOUR_NS, WALL_S)
    now_ns = 50 * HOUR_NS
    one = store.read(now_ns, WALL_S + 5 * 86_400)["S1"].sizes[1]
    assert (one.minutes, [part for part, _ in one.parts]) == (20, [now_ns // PART_NS - PARTS + 1])
    assert with_minute(one, now_ns, 9.0).minutes == 21
    assert with_minute(one, now_ns + PART_NS, 9.0).minutes == 1
    assert store.read(now_ns, WALL_S + OLDEST_S + 60) == {}
    # If the clock was set back, times in the future count as now.
    assert store.read(now_ns, WALL_S - 86_400)["S1"].sizes[1].parts[-1][0] == now_ns // PART_NS


def test_baselines_of_other_disks_are_kept_and_none_without_a_serial_number(tmp_path: Path) -> None:
    store = Baselines(tmp_path)
    assert not store.keep({"sda": learned()}, {"sda": INFO._replace(serial="")}, HOUR_NS, WALL_S)
    assert not store.keep({"S1": DeviceBaseline()}, INFOS, HOUR_NS, WALL_S)
    assert not (tmp_path / FILE).exists()
    store.keep({"S1": learned()}, INFOS, HOUR_NS, WALL_S)
    second_disk = {"sdb": INFO._replace(name="sdb", serial="S2")}
    store.keep({"S2": learned(), "vda": learned()}, second_disk, HOUR_NS, WALL_S + 9)
    assert store.read(HOUR_NS, WALL_S + 9).keys() == {"S1", "S2"}
    many = {f"T{i}": learned(1) for i in range(MOST_DEVICES + 5)}
    store.keep(many, {name: INFO._replace(name=name, serial=name) for name in many}, HOUR_NS, WALL_S + 20)
    assert len(store.read(HOUR_NS, WALL_S + 20)) == MOST_DEVICES


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{", "{}", '{"format":2,"devices":{}}', '{"format":1,"devices":[1]}', "[" * 20_000,
        '{"format":1,"devices":{"a":[1,[[],[]]]}}', '{"format":1,"devices":{"a":["x",[[],[],[]]]}}',
        '{"format":1,"devices":{"a":[1,[[[1,[[9999,1]]]],[],[]]]}}',
        '{"format":1,"devices":{"a":[1,[[[1,[[1,-1]]]],[],[]]]}}',
        '{"format":1,"devices":{"a":[1,[[[1,[[1.5,1]]]],[],[]]]}}',
    ],
)  # fmt: skip
def test_a_file_of_another_kind_is_refused_and_replaced(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    store = Baselines(tmp_path)
    with pytest.raises(ValueError, match="not a file of this program"):
        store.read(0, WALL_S)
    assert store.keep({"S1": learned()}, INFOS, HOUR_NS, WALL_S)
    assert store.read(0, WALL_S).keys() == {"S1"}


def test_the_baseline_of_this_session_takes_precedence() -> None:
    here, before = learned(15, 9.0), learned(20, 2.0)
    assert with_earlier_baselines({"S1": here}, {"S1": before}) == {"S1": here}
    running = DeviceBaseline(minute=7, reads=3)
    assert with_earlier_baselines({"S1": running}, {"S1": before})["S1"] == running._replace(sizes=before.sizes)
    known = {"sda": here}
    assert with_earlier_baselines(known, {}) is known


def snapshots(known: dict[str, DeviceBaseline]) -> list[Snapshot]:
    """A session whose second Snapshot contains the earlier baselines."""
    out = []
    for number, made in enumerate(session(31, 90)):
        infos = {name: info._replace(serial="S1") for name, info in (made.disks.value or {}).items()}
        made = made._replace(disks=made.disks._replace(value=infos if made.disks.value else None))
        if number == 1:
            made = made._replace(baselines=Reading(known, Status.OK, at_ns=made.at_ns))
        out.append(made)
    return out


def test_a_replay_has_the_baselines_of_the_live_screen(tmp_path: Path) -> None:
    live: list[Frame] = list(frames(snapshots({"S1": learned(20, 0.3)})))
    assert "S1" not in live[0].carry.learned
    sizes = [sum(size.minutes for size in frame.carry.learned["S1"].sizes) for frame in live[1:]]
    assert min(sizes) == sizes[0] == 20
    path = record(tmp_path / "a.iotop.jsonl", live, keyframe_every=20)
    shown = list(frames(ReplaySource(path, allow_root=True)))
    assert shown == live
    unknown = list(frames(snapshots({})))
    assert not any(size.minutes for one in unknown[1].carry.learned.values() for size in one.sizes)


def test_the_live_source_reports_baselines_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from iotop_ai.model.settings import Settings

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    import time

    Baselines(tmp_path / "iotop-ai").keep({"S1": learned()}, INFOS, time.monotonic_ns(), int(time.time()))
    for remember in (True, False):
        source = LiveSource(Settings(smart=False, remember=remember))
        try:
            first, second = source.snapshot(), source.snapshot()
        finally:
            source.close()
        assert (first.baselines.value is not None) is remember
        assert second.baselines == Reading()
    os.chmod(tmp_path / "iotop-ai" / FILE, 0o600)
    (tmp_path / "iotop-ai" / FILE).write_text(json.dumps({"format": 9}))
    source = LiveSource(Settings(smart=False))
    try:
        assert source.snapshot().baselines.status is Status.FAILED
    finally:
        source.close()
