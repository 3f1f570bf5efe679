"""Another theme while the app runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.filter import Monochrome, NoColor

from iotop_ai.model.settings import THEMES
from iotop_ai.present.theme import looks
from iotop_ai.tui.widgets.styles import Styles

if TYPE_CHECKING:
    from iotop_ai.tui.app import MonitorApp

ANSI_THEMES = {
    "ansi": "ansi-dark",
    "ansi-console": "ansi-dark",
    "ansi-light": "ansi-light",
    "mono": "ansi-dark",
}
"""Our themes that leave the colours to the terminal, and Textual's theme that does."""
RGB_THEME = "textual-dark"


def theme_after(theme: str) -> str:
    """The next theme, round the end."""
    at = THEMES.index(theme) if theme in THEMES else -1
    return THEMES[(at + 1) % len(THEMES)]


def use_theme(app: MonitorApp, theme: str) -> Styles:
    """Paint everything in this theme; its styles. Chosen by hand, it also wins over NO_COLOR."""
    ansi = ANSI_THEMES.get(theme)
    book = Styles(theme)
    with app.batch_update():
        app._filters = [one for one in app._filters if not isinstance(one, NoColor | Monochrome)]
        app.ansi_color = True if ansi else None
        app.theme = ansi or RGB_THEME
        ground = looks(theme)["bg"].bg or None
        app.styles.background = app.main.styles.background = ground
        app.main.use(book)
    return book
