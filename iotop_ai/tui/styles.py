"""A theme's looks as Rich styles, made once per token and background."""

from __future__ import annotations

from rich.color import Color
from rich.style import Style

from iotop_ai.present.text.theme import Look, look_of

UNDERLINED = "_"
"""Prefix of a token: the same look, underlined."""


class ThemeStyles:
    """One theme's styles. base: plain text on the screen's own background."""

    def __init__(self, theme: str) -> None:
        self._theme = theme
        self._styles: dict[tuple[str, str], Style] = {}
        self.base = self.style("text")

    def style(self, token: str, background: str = "") -> Style:
        """The style of a token on a row's background; a token that begins with "_" is underlined."""
        style = self._styles.get((token, background))
        if style is None:
            look = look_of(self._theme, token.removeprefix(UNDERLINED), background)
            if token.startswith(UNDERLINED):
                look = look._replace(underline=True)
            style = self._styles[token, background] = rich_style(look)
        return style


def rich_style(look: Look) -> Style:
    """The look as a Rich style; everything that is not set is up to the terminal."""
    # False sends an explicit "off" sequence; None sends nothing.
    style = Style(
        bold=look.bold or None,
        dim=look.dim or None,
        underline=look.underline or None,
        reverse=look.reverse or None,
    )
    return style + Style.from_color(_rich_colour(look.fg), _rich_colour(look.bg))


def _rich_colour(colour: str) -> Color:
    if not colour:
        return Color.default()
    return Color.parse(colour) if colour.startswith("#") else Color.from_ansi(int(colour))
