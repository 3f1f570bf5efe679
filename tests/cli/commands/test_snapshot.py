from __future__ import annotations

import argparse

import pytest

from iotop_ai.cli.commands import snapshot
from iotop_ai.cli.commands.snapshot import judged_frame, with_late_parts
from iotop_ai.model.finding import Severity
from iotop_ai.model.health.smart import SmartState
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.settings import Settings
from iotop_ai.sources.live.late import late_parts
from tests.export.make import frame, ok, pair

PENDING: Reading[object] = Reading(None, Status.PENDING, "asked")


def test_slow_parts_come_from_a_later_snapshot_and_counters_do_not() -> None:
    before, after = pair()
    waiting = after._replace(smart=PENDING, filesystems=ok({"/": PENDING}, after.at_ns))
    assert late_parts(waiting) == ("smart", "filesystems")
    later = before._replace(smart=ok({}, 9), filesystems=ok({"/": ok(1, 9)}, 9))
    done = with_late_parts(waiting, later)
    assert done == after._replace(smart=later.smart, filesystems=later.filesystems)
    assert late_parts(done) == ()


def test_without_slow_parts_nothing_changes() -> None:
    before, after = pair()
    assert late_parts(after) == ("filesystems",)
    complete = after._replace(filesystems=ok({}, after.at_ns))
    assert with_late_parts(complete, before) == complete


def test_the_verdict_over_a_short_interval_uses_the_state_at_its_end() -> None:
    before, after = pair()
    soon = after._replace(at_ns=before.at_ns + 300_000_000)
    state = SmartState("sda", "ata", "Spinner", "S1", "F1", "FAIL", "critical", ("312 reallocated sectors",))
    failing = soon._replace(smart=ok({"sda": ok(state, soon.at_ns)}, soon.at_ns))
    found = [(finding.class_id, finding.severity) for finding in judged_frame(before, failing).verdict.findings]
    assert ("failing_disk", Severity.CRITICAL) in found
    assert "failing_disk" not in [finding.class_id for finding in judged_frame(before, soon).verdict.findings]


@pytest.mark.parametrize(("level", "shown"), [("names", "train.py\n"), ("full", "--token s3cret\n")])
def test_the_text_has_as_much_of_a_command_as_the_settings_say(
    level: str, shown: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(snapshot, "resolve_devices", lambda settings: settings)
    monkeypatch.setattr(snapshot, "settings_of", lambda _: Settings(cmdline=level))
    monkeypatch.setattr(snapshot, "take_frame", lambda _: frame())
    snapshot.run(argparse.Namespace(json=False))
    assert shown in capsys.readouterr().out
