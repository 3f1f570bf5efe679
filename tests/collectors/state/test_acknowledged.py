"""The file of acknowledged findings: it is private, written whole, and its changes are reported."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from iotop_ai.collectors.state.acknowledged import MOST_ENTRIES, Acknowledged, parse_acknowledged
from iotop_ai.model.settings import Settings
from iotop_ai.sources.live.source import LiveSource
from iotop_ai.sources.live.state_files import READ_EVERY_NS
from tests.clocks import ShiftedClock
from tests.rigs.nobody import UID
from tests.waiting import until


def test_entries_are_added_read_and_removed(tmp_path: Path) -> None:
    store = Acknowledged(tmp_path / "state")
    assert store.read() == {}
    store.add("failing_disk:S1", "critical reallocated=3", 100)
    store.add("gpu_fault:GPU-1", "warning", 101)
    assert store.read() == {"failing_disk:S1": "critical reallocated=3", "gpu_fault:GPU-1": "warning"}
    assert store.remove("failing_disk:S1")
    assert not store.remove("failing_disk:S1")
    assert list(store.read()) == ["gpu_fault:GPU-1"]
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path / "state") == ["acknowledged.json"]


def test_a_value_with_many_rules_is_kept_whole(tmp_path: Path) -> None:
    store, value = Acknowledged(tmp_path), "critical " + " ".join(f"is:rule-{number}=1" for number in range(40))
    store.add("failing_disk:S1", value, 100)
    assert store.read() == {"failing_disk:S1": value}


def test_the_oldest_entries_are_dropped_so_that_the_file_stays_readable(tmp_path: Path) -> None:
    store = Acknowledged(tmp_path)
    entries = {f"a:{number}": {"value": "critical", "wall_s": number} for number in range(MOST_ENTRIES)}
    store.path.write_text(json.dumps({"format": 1, "acknowledged": entries}))
    store.add("a:0", "critical", 900)
    store.add("b:1", "warning", 901)
    assert len(store.read()) == MOST_ENTRIES
    assert {"a:0", "b:1"} <= store.read().keys()
    assert "a:1" not in store.read()


def test_each_change_is_reported_once(tmp_path: Path) -> None:
    store, watcher = Acknowledged(tmp_path), Acknowledged(tmp_path)
    assert watcher.changes() == []
    store.add("a:1", "critical", 1)
    assert watcher.changes() == [("a:1", "critical")]
    assert watcher.changes() == []
    store.add("a:1", "critical x=2", 2)
    store.add("b:2", "warning", 2)
    assert watcher.changes() == [("a:1", "critical x=2"), ("b:2", "warning")]
    store.add("b:2", "warning", 3)
    assert watcher.changes() == [("b:2", "warning")], "it was acknowledged again after it had ended"
    store.remove("a:1")
    assert watcher.changes() == [("a:1", None)]
    store.path.unlink()
    assert watcher.changes() == [("b:2", None)]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file to another user")
def test_a_file_is_read_once_the_user_owns_it(tmp_path: Path) -> None:
    store, watcher = Acknowledged(tmp_path), Acknowledged(tmp_path)
    store.add("a:1", "critical", 1)
    os.chown(store.path, UID, UID)
    assert watcher.changes() == []
    os.chown(store.path, os.geteuid(), os.getegid())
    assert watcher.changes() == [("a:1", "critical")]


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", '{"format": 2, "acknowledged": {}}', '{"format": 1, "acknowledged": []}',
        '{"format": 1, "acknowledged": {"a b": {"value": "x"}}}', '{"format": 1, "acknowledged": {"a": {"value": 3}}}',
        "[" * 100_000,
    ],
)  # fmt: skip
def test_an_invalid_file_is_refused_and_kept(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_acknowledged(text.encode())
    store = Acknowledged(tmp_path)
    store.path.write_text(text)
    assert store.changes() == []
    with pytest.raises(ValueError, match=r"."):
        store.add("a:1", "critical", 1)
    assert store.path.read_text() == text


def test_text_from_outside_is_cleaned(tmp_path: Path) -> None:
    raw = json.dumps({"format": 1, "acknowledged": {"a\x1b:1": {"value": "x\x07"}}})
    ((name, value),) = parse_acknowledged(raw.encode()).items()
    assert (name + value).isprintable()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "real").write_text('{"format": 1, "acknowledged": {"a:1": {"value": "x"}}}')
    store = Acknowledged(tmp_path)
    store.path.symlink_to(tmp_path / "real")
    with pytest.raises(OSError, match="symbolic"):
        store.read()
    assert store.changes() == []


def test_a_folder_in_place_of_the_file_keeps_no_descriptor_open(tmp_path: Path) -> None:
    store = Acknowledged(tmp_path)
    store.path.mkdir()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        assert store.changes() == []
    assert len(os.listdir("/proc/self/fd")) == before


def test_acknowledgements_become_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tick waits only 5 ms for the file: on a busy machine the event comes with a later tick, but only once."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    store = Acknowledged(tmp_path / "iotop-ai")
    store.add("failing_disk:S1", "critical reallocated=3", 100)
    clock = ShiftedClock()
    source = LiveSource(Settings(smart=False), clock=clock)
    seen: list[tuple[str, str]] = []

    def number_after_a_tick() -> int:
        seen.extend((e.kind, e.text) for e in source.snapshot().events if e.kind.startswith("ack"))
        return len(seen)

    try:
        until(lambda: number_after_a_tick() >= 1, "the acknowledgement")
        assert number_after_a_tick() == 1
        store.remove("failing_disk:S1")
        clock.ahead_ns = READ_EVERY_NS
        until(lambda: number_after_a_tick() >= 2, "its end")
        assert number_after_a_tick() == 2
    finally:
        source.close()
    assert seen == [("ack", "failing_disk:S1 critical reallocated=3"), ("ack_undone", "failing_disk:S1")]
