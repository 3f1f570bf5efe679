"""The styles of a theme as Rich styles, made once for each token and background."""

from __future__ import annotations

from rich.color import Color
from rich.style import Style

from iotop_ai.present.text.theme import TextStyle, text_style_of

UNDERLINE_PREFIX = "_"
"""A token with this prefix has the style of the token without it, but underlined."""


class ThemeStyles:
    """The styles of one theme. base: the style of plain text on the screen's background."""

    def __init__(self, theme: str) -> None:
        self._theme = theme
        self._styles: dict[tuple[str, str], Style] = {}
        self.base = self.style("text")

    def style(self, token: str, background: str = "") -> Style:
        """The style of a token on a row with this background. A token that begins with "_" is underlined."""
        style = self._styles.get((token, background))
        if style is None:
            text_style = text_style_of(self._theme, token.removeprefix(UNDERLINE_PREFIX), background)
            if token.startswith(UNDERLINE_PREFIX):
                text_style = text_style._replace(underline=True)
            style = self._styles[token, background] = rich_style(text_style)
        return style


def rich_style(text_style: TextStyle) -> Style:
    """The text style as a Rich style. Attributes that are not set are left to the terminal."""
    # False would send a sequence that switches the attribute off; None sends nothing.
    style = Style(
        bold=text_style.bold or None,
        dim=text_style.dim or None,
        underline=text_style.underline or None,
        reverse=text_style.reverse or None,
    )
    return style + Style.from_color(_rich_colour(text_style.fg), _rich_colour(text_style.bg))


def _rich_colour(colour: str) -> Color:
    if not colour:
        return Color.default()
    return Color.parse(colour) if colour.startswith("#") else Color.from_ansi(int(colour))
