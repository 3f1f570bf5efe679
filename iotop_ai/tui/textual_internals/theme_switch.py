"""Another theme while the app runs."""

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
"""Our themes that leave the colours to the terminal, with the Textual theme that does the same."""
RGB_THEME = "textual-dark"


def switch_textual_theme(app: App[Any], theme: str) -> None:
    """Set Textual's own theme for one of ours. The user's choice of a theme also overrides NO_COLOR.

    A Textual without the list of filters keeps the screen without colours.
    """
    filters = getattr(app, "_filters", None)
    if isinstance(filters, list):
        filters[:] = [one for one in filters if not isinstance(one, NoColor | Monochrome)]
    ansi = ANSI_THEMES.get(theme)
    app.ansi_color = True if ansi else None
    app.theme = ansi or RGB_THEME
