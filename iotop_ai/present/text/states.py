"""How each state of the verdict looks: its colour, and its character in bars and timelines."""

from __future__ import annotations

from collections.abc import Mapping

from iotop_ai.model.verdict_class import LOSING, State

HUE: Mapping[str, str] = {
    State.STARVED: "bad",
    State.BLOCKED: "bad",
    State.SLOWED: "warn",
    State.FAILING: "bad",
    State.WASTED: "warn",
    State.STARTING: "info",
    State.CALM: "dim",
    State.BUSY: "warn",
    State.OK: "ok",
    State.UNSURE: "unsure",
}
"""The colour of each state, as a hue of present/text/theme.py."""
GLYPHS: Mapping[str, str] = {
    state: "╌" if state is State.UNSURE else "━" if state in (*LOSING, State.WASTED) else "─" for state in State
}
"""The character of a cell of each state, so that bars and timelines can be read without colours."""
