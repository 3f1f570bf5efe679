"""Every stored recording is diagnosed again, so that a change of a rule that makes a verdict wrong fails here."""

from __future__ import annotations

import json
from typing import Any

import pytest

from iotop_ai.model.verdict_class import PRECEDENCE
from tests.scenarios.keep import INDEX, VERDICTS, wrong
from tests.scenarios.registry import all_causes

KEPT: dict[str, dict[str, Any]] = json.loads((VERDICTS / INDEX).read_text())
MOST_BYTES = 6_000_000


@pytest.mark.parametrize("name", sorted(KEPT))
def test_a_stored_recording_still_gets_the_right_verdict(name: str) -> None:
    kept = KEPT[name]
    error = wrong(kept, VERDICTS / kept["file"])
    assert not error, f"recorded as {kept['label']}: {error}"


def test_a_wrong_label_is_found() -> None:
    kept = next(kept for kept in KEPT.values() if kept["label"] == "object_stream")
    assert wrong({**kept, "label": "cpu_prep"}, VERDICTS / kept["file"]).startswith("named object_stream")


def test_the_stored_recordings_are_of_known_causes_and_small() -> None:
    causes = all_causes()
    assert {name: kept["label"] for name, kept in KEPT.items()} == {name: causes[name].label for name in KEPT}
    assert {kept["label"] for kept in KEPT.values()} <= {*PRECEDENCE, "unknown"}
    files = {path.name for path in VERDICTS.iterdir()} - {INDEX}
    assert files == {kept["file"] for kept in KEPT.values()}
    assert sum(path.stat().st_size for path in VERDICTS.iterdir()) < MOST_BYTES
