"""Every stored recording is diagnosed again, so that a test fails if a changed rule makes a verdict wrong."""

from __future__ import annotations

import pytest

from iotop_ai.model.verdict_class import PRECEDENCE
from tests.judged import KEPT, judged
from tests.scenarios.keep import INDEX, VERDICTS, wrong
from tests.scenarios.registry import all_causes

MOST_BYTES = 6_000_000


@pytest.mark.parametrize("name", sorted(KEPT))
def test_a_stored_recording_still_gets_the_right_verdict(name: str) -> None:
    error = wrong(KEPT[name], judged(name).ticks)
    assert not error, f"recorded as {KEPT[name]['label']}: {error}"


def test_a_wrong_label_is_found() -> None:
    name, kept = next((name, kept) for name, kept in KEPT.items() if kept["label"] == "object_stream")
    assert wrong({**kept, "label": "cpu_prep"}, judged(name).ticks).startswith("named object_stream")


def test_the_stored_recordings_have_known_causes_and_are_small() -> None:
    causes = all_causes()
    assert {name: kept["label"] for name, kept in KEPT.items()} == {name: causes[name].label for name in KEPT}
    assert {kept["label"] for kept in KEPT.values()} <= {*PRECEDENCE, "unknown"}
    files = {path.name for path in VERDICTS.iterdir()} - {INDEX}
    assert files == {kept["file"] for kept in KEPT.values()}
    assert sum(path.stat().st_size for path in VERDICTS.iterdir()) < MOST_BYTES
