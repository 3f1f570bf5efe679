"""Looks as Rich styles, made once per token and background."""

from __future__ import annotations

from rich.color import Color
from rich.style import Style

from iotop_ai.present.theme import Look, painted

UNDERLINED = "_"
"""Before a token's name: the same look, underlined."""


class Styles:
    """One theme's styles. base: plain text on the screen's own background."""

    def __init__(self, theme: str) -> None:
        self._theme = theme
        self._made: dict[tuple[str, str], Style] = {}
        self.base = self.style("text")

    def style(self, token: str, background: str = "") -> Style:
        """The style of a token on a row's background; "_" before the token underlines it."""
        known = self._made.get((token, background))
        if known is None:
            look = painted(self._theme, token.removeprefix(UNDERLINED), background)
            if token.startswith(UNDERLINED):
                look = look._replace(underline=True)
            known = self._made[token, background] = rich_style(look)
        return known


def rich_style(look: Look) -> Style:
    """The look for Rich; what is not set is left to the terminal."""
    # A flag that is False would be sent as "off"; None leaves it out of the sequence.
    made = Style(
        bold=look.bold or None,
        dim=look.dim or None,
        underline=look.underline or None,
        reverse=look.reverse or None,
    )
    return made + Style.from_color(_rich_colour(look.fg), _rich_colour(look.bg))


def _rich_colour(colour: str) -> Color:
    if not colour:
        return Color.default()
    return Color.parse(colour) if colour.startswith("#") else Color.from_ansi(int(colour))
