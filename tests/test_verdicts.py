"""Every kept recording is diagnosed again: a change of a rule that breaks one fails here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from iotop_ai.diagnosis.rules import PRECEDENCE
from iotop_ai.pipeline import frames
from tests.scenarios.keep import INDEX, VERDICTS, snapshots
from tests.scenarios.registry import all_causes
from tests.scenarios.score import score
from tests.scenarios.watch import row_of

KEPT: dict[str, dict[str, Any]] = json.loads((VERDICTS / INDEX).read_text())
MOST_BYTES = 6_000_000


def rows(path: Path) -> list[dict[str, Any]]:
    """The ticks of a recording, as the rules of today see them."""
    return [{**row_of(frame, 0), "truth": None} for frame in frames(snapshots(path))]


@pytest.mark.parametrize("name", sorted(KEPT))
def test_a_kept_recording_is_still_named_rightly(name: str) -> None:
    kept = KEPT[name]
    ticks = rows(VERDICTS / kept["file"])
    out = score(kept["label"], ticks, window_s=kept["window_s"], started=kept["started"], also=tuple(kept["also"]))
    said = [(row["classes"][:3], row["because"]) for row in ticks[-3:]]
    assert out.got == kept["label"], said
    assert out.late_s is not None
    assert not (kept["negative"] and out.alarms > out.decided * 0.1), said


def test_the_kept_recordings_are_known_causes_and_small() -> None:
    causes = all_causes()
    assert {name: kept["label"] for name, kept in KEPT.items()} == {name: causes[name].label for name in KEPT}
    assert {kept["label"] for kept in KEPT.values()} <= {*PRECEDENCE, "unknown"}
    files = {path.name for path in VERDICTS.iterdir()} - {INDEX}
    assert files == {kept["file"] for kept in KEPT.values()}
    assert sum(path.stat().st_size for path in VERDICTS.iterdir()) < MOST_BYTES
