"""A small picture of a run as HTML: one bar that shows how the time was spent, and the verdict below the bar."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iotop_ai.train.answers import Breakdown, Verdict

WIDTH, HEIGHT = 640, 26
_LEAST_SHARE = 0.005
"""The smallest share of time that is drawn."""
_COLOURS = {
    "compute": "#3a8f5c",
    "data_disk": "#c0504d",
    "data_network": "#d98032",
    "data_cpu": "#c9a227",
    "data_other": "#a8765a",
    "host": "#6f7fb5",
    "checkpoint": "#8a5fa8",
    "unexplained": "#9a9a9a",
}
_OTHER_COLOUR = "#5f9ea0"
"""The colour of all other shares."""
_NAMES = {
    "data_disk": "data: disk",
    "data_network": "data: network",
    "data_cpu": "data: CPU",
    "data_other": "data: other",
}


def picture(verdict: Verdict | None, breakdown: Breakdown | None, seconds: float, path: str, error: str = "") -> str:
    """Return HTML that suits light and dark pages, runs no script and sends no request.

    seconds: how long the run was watched. path: the recording's file. error: why nothing is recorded, or why the
    recording ended early; "" without an error.
    """
    parts = [f'<div style="font-family:sans-serif;max-width:{WIDTH}px">']
    if breakdown is not None:
        parts += [_bar(breakdown), _legend(breakdown)]
    parts += [f"<p><b>{escape(verdict.state)}</b> {escape(verdict.text)}</p>"] if verdict is not None else []
    for label, text in (("because", verdict.because), ("do", verdict.advice)) if verdict is not None else ():
        parts += [f'<p><span style="opacity:.7">{label}</span> {escape(text)}</p>'] if text else []
    if verdict is None and breakdown is None:
        parts.append(f"<p>{escape(f'not recorded: {error}' if error else 'no answer from the recorder')}</p>")
        path = "" if error else path
    elif breakdown is None:
        parts.append("<p>no training job was recognised: where the time went is not known</p>")
    if error and (verdict is not None or breakdown is not None):
        parts.append(f"<p>the recording ended early: {escape(error)}</p>")
    recorded_in = f", recorded in {escape(path)}" if path else ""
    parts.append(f'<p style="opacity:.7">watched {seconds:.0f} s{recorded_in}</p></div>')
    return "".join(parts)


def _visible(breakdown: Breakdown) -> list[tuple[str, float]]:
    """Return the shares that are large enough to be seen, in the order of the bar."""
    return [(name, share) for name, share in breakdown.shares.items() if share >= _LEAST_SHARE]


def _bar(breakdown: Breakdown) -> str:
    shares = _visible(breakdown)
    label = ", ".join(f"{_NAMES.get(name, name)} {share * 100:.0f} %" for name, share in shares)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="100%" role="img" '
        f'aria-label="{escape(label)}">'
    ]
    whole, at = sum(share for _, share in shares) or 1.0, 0.0
    for name, share in shares:
        width = share / whole * WIDTH
        title = f"<title>{escape(_NAMES.get(name, name))} {share * 100:.1f} %</title>"
        fill = _COLOURS.get(name, _OTHER_COLOUR)
        out.append(f'<rect x="{at:.1f}" y="0" width="{width:.1f}" height="{HEIGHT}" fill="{fill}">{title}</rect>')
        if width > 90:  # wide enough for the text
            text = f"{_NAMES.get(name, name)} {share * 100:.0f} %"
            out.append(
                f'<text x="{at + width / 2:.1f}" y="17" font-size="12" fill="#fff" text-anchor="middle" '
                f'font-family="sans-serif">{escape(text)}</text>'
            )
        at += width
    return "".join((*out, "</svg>"))


def _legend(breakdown: Breakdown) -> str:
    entries = [
        f'<span style="white-space:nowrap"><span style="color:{_COLOURS.get(name, _OTHER_COLOUR)}">&#9632;</span> '
        f"{escape(_NAMES.get(name, name))} {share * 100:.0f} %</span>"
        for name, share in sorted(_visible(breakdown), key=lambda item: -item[1])
    ]
    if breakdown.measured_data_wait is not None:
        entries.append(f"<span>data wait as the loop measures it {breakdown.measured_data_wait * 100:.0f} %</span>")
    return f'<p style="font-size:90%">{" &nbsp; ".join(entries)}</p>'
