"""Changes the theme while the app runs."""

from __future__ import annotations

from typing import Any

from textual.app import App
from textual.filter import Monochrome, NoColor

ANSI_THEMES = {
    "ansi": "ansi-dark",
    "ansi-console": "ansi-dark",
    "ansi-light": "ansi-light",
    "mono": "ansi-dark",
}
"""The themes of iotop-ai that leave the colours to the terminal, each with the theme of Textual that does so too."""
RGB_THEME = "textual-dark"
"""The theme of Textual for all other themes of iotop-ai."""


def switch_textual_theme(app: App[Any], theme: str) -> None:
    """Set the theme of Textual that belongs to this theme. A theme chosen by the user also overrides NO_COLOR.

    If Textual lacks the list of filters, NO_COLOR stays in force.
    """
    filters = getattr(app, "_filters", None)
    if isinstance(filters, list):
        filters[:] = [line_filter for line_filter in filters if not isinstance(line_filter, NoColor | Monochrome)]
    ansi = ANSI_THEMES.get(theme)
    app.ansi_color = True if ansi else None
    app.theme = ansi or RGB_THEME
