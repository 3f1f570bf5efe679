"""The labelled recordings, each judged once for all tests."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, NamedTuple

from iotop_ai.model.frame import Frame
from iotop_ai.pipeline import frames
from tests.scenarios.keep import INDEX, VERDICTS, row, snapshots

KEPT: dict[str, dict[str, Any]] = json.loads((VERDICTS / INDEX).read_text())


class Judged(NamedTuple):
    """A recording judged by the current rules. decided: the Frames in which a new verdict was decided."""

    ticks: tuple[dict[str, Any], ...]
    decided: tuple[Frame, ...]


@cache
def judged(name: str) -> Judged:
    """Judge one labelled recording."""
    ticks, decided = [], []
    for frame in frames(snapshots(VERDICTS / KEPT[name]["file"])):
        ticks.append(row(frame))
        if not decided or frame.verdict is not decided[-1].verdict:
            decided.append(frame)
    return Judged(tuple(ticks), tuple(decided))
