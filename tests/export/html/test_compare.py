"""A comparison as HTML: the colours of its changes."""

from __future__ import annotations

import pytest

from iotop_ai.export.compare.bootstrap import Interval
from iotop_ai.export.compare.comparison import Change
from iotop_ai.export.html.compare import _hue


@pytest.mark.parametrize(
    ("name", "hue"), [("data_disk", "bad"), ("data_wait", "bad"), ("compute", "ok"), ("unexplained", "")]
)
def test_the_growth_of_a_share_is_coloured_as_worse_better_or_neutral(name: str, hue: str) -> None:
    assert _hue(Change(name, name, "ratio", 0.1, 0.4, Interval(0.25, 0.35))) == hue
