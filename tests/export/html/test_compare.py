"""A comparison as HTML: the colours of its changes."""

from __future__ import annotations

import re

import pytest

from iotop_ai.export.compare.bootstrap import Interval
from iotop_ai.export.compare.comparison import Change
from iotop_ai.export.html.compare import _hue, render_compare_html
from tests.export.compare.kept import comparison


@pytest.mark.parametrize(
    ("name", "hue"),
    [("data_disk", "bad"), ("data_wait", "bad"), ("steps_per_s", "ok"), ("compute", ""), ("unexplained", "")],
)
def test_the_growth_of_a_figure_is_coloured_as_worse_better_or_neutral(name: str, hue: str) -> None:
    assert _hue(Change(name, name, "ratio", 0.1, 0.4, Interval(0.25, 0.35))) == hue


@pytest.mark.xdist_group("comparison")  # the tests of this group share cached comparisons
@pytest.mark.parametrize(
    ("before", "after", "steps", "state"),
    [
        ("slow", "memory", True, ("ok", "FASTER")),
        ("memory", "slow", True, ("bad", "SLOWER")),
        ("slow", "memory", False, ("info", "COMPUTES MORE")),
        ("memory", "slow", False, ("info", "COMPUTES LESS")),
        ("slow", "again", True, ("dim", "UNCLEAR")),
    ],
)
def test_only_steps_show_which_run_is_faster(before: str, after: str, steps: bool, state: tuple[str, str]) -> None:
    html = render_compare_html(comparison(before, after, steps))
    assert re.findall(r'class="state h-(\w+)">([^<]+)<', html) == [state]
