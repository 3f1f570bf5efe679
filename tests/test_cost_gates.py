"""The cost of a process, of a device and of a picture in instructions, whose number does not depend on other load."""

from __future__ import annotations

import json

import pytest

from tests.bench.callgrind import LIMIT_S, RECORDED, instructions, python_version, why_not

SLACK = 1.10


@pytest.mark.timeout(LIMIT_S)
def test_parts_take_no_more_instructions_than_recorded() -> None:
    if why := why_not():
        pytest.skip(why)
    recorded = json.loads(RECORDED.read_text())
    if recorded["python"] != python_version():
        pytest.skip(
            f"recorded with Python {recorded['python']}: `python -m tests.bench.callgrind --record` renews them"
        )
    found = instructions()
    assert found.keys() == recorded["instructions"].keys()
    costlier = {
        name: f"{cost:,.0f} instead of {recorded['instructions'][name]:,}"
        for name, cost in found.items()
        if cost > SLACK * recorded["instructions"][name]
    }
    assert not costlier
