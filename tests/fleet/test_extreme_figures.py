"""A machine with absurd figures does not affect the others on the fleet's screen, in its text or in its JSON."""

from __future__ import annotations

import json
import re

import pytest

from iotop_ai.export.json.fleet import render_fleet_json
from iotop_ai.export.text.fleet import fleet_lines
from iotop_ai.fleet.answer import parse_vector
from iotop_ai.fleet.machines import fleet_of
from iotop_ai.model.fleet.records import Fleet
from iotop_ai.present.fleet.jobs_screen import jobs_screen_rows
from iotop_ai.present.fleet.screen import fleet_screen_rows
from iotop_ai.present.fleet.view import FleetView
from iotop_ai.present.screen.view import View
from tests.rigs.fleet.small import WINDOW_S, kept_answers

ANSWERS = kept_answers()
SHOWN = FleetView(View(), "lost", "server", WINDOW_S, 10.0)


def fleet_with(value: str) -> Fleet:
    """The recorded fleet, in which every figure of gpu03 is this value."""

    def body(name: str) -> bytes:
        found = ANSWERS[name]
        result = [
            {
                "metric": dict(one.labels),
                "value": [found.at_s, value if one.label("instance").startswith("gpu03") else str(one.value)],
            }
            for one in found.series
        ]
        return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()

    return fleet_of({name: parse_vector(body(name)) for name in ANSWERS}, WINDOW_S)


@pytest.mark.parametrize(
    "value", ["1.7e308", "-1.7e308", str(2.0**64), str(-(2.0**64)), "5e-324", "1e-308", "-0", "NaN"]
)
def test_an_absurd_figure_affects_only_its_machine(value: str) -> None:
    fleet, usual = fleet_with(value), fleet_with("1")
    others = [[one for one in found.machines if one.name != "gpu03"] for found in (fleet, usual)]
    assert others[0] == others[1]
    rows = [*fleet_screen_rows(fleet, SHOWN, 160, 48), *jobs_screen_rows(fleet, SHOWN, 160, 48)]
    text = "\n".join([*(row.text for row in rows), *fleet_lines(fleet, fleet.machines)])
    assert "gpu01" in text
    assert not re.search(r"\b(inf|nan)\b", text, re.IGNORECASE)
    assert len(json.loads(render_fleet_json(fleet, fleet.machines))["machines"]) == len(fleet.machines)
