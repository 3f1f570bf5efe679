"""The theme, colours and glyphs of this terminal, derived from the settings and the environment."""

from __future__ import annotations

from collections.abc import Mapping

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.settings import Settings

COLOURLESS_TERMS = ("vt100", "vt102", "vt220", "vt320")
TRUE_COLOUR_WORDS = ("truecolor", "24bit")
PALETTE_TERMS = ("256color", "kitty")
"""The suffixes of TERM for which Rich assumes 256 colours. The first frame must use the same colours as the app."""
LIGHT_BACKGROUNDS = ("7", "15")
"""The numbers of the palette's light grey and white, as COLORFGBG names a background."""


class Terminal(NamedTuple):
    """The capabilities of a terminal.

    theme: the name of a theme in present.text.theme
    colours: the number of colours: 2**24, 256, 16 or 0
    ascii_only: whether only ASCII glyphs are shown
    """

    theme: str
    colours: int
    ascii_only: bool


def terminal(settings: Settings, environ: Mapping[str, str]) -> Terminal:
    """Return the capabilities of this terminal. A theme in the settings overrides the environment, even NO_COLOR."""
    if settings.theme:
        environ = {name: value for name, value in environ.items() if name != "NO_COLOR"}
    colours = _colours(environ)
    theme = settings.theme or _theme(colours, environ)
    return Terminal(theme, colours, settings.ascii_only or not draws_glyphs(environ))


def _colours(environ: Mapping[str, str]) -> int:
    term = environ.get("TERM", "").lower()
    if "NO_COLOR" in environ or term in COLOURLESS_TERMS:
        return 0
    if environ.get("COLORTERM", "").strip().lower() in TRUE_COLOUR_WORDS:
        return 2**24
    return 256 if term.rpartition("-")[2] in PALETTE_TERMS else 16


def _theme(colours: int, environ: Mapping[str, str]) -> str:
    # rxvt, konsole and some others set COLORFGBG to "foreground;background", as numbers of palette entries.
    light = environ.get("COLORFGBG", "").rsplit(";", 1)[-1] in LIGHT_BACKGROUNDS
    if colours == 0:
        return "mono"
    if colours == 16:
        if environ.get("TERM") == "linux":
            return "ansi-console"
        return "ansi-light" if light else "ansi"
    return "light" if light else "dark"


def draws_glyphs(environ: Mapping[str, str]) -> bool:
    """Whether the locale and the terminal can show braille and line characters."""
    if environ.get("TERM") == "linux":  # the font of the Linux console has no braille
        return False
    locale = next((value for name in ("LC_ALL", "LC_CTYPE", "LANG") if (value := environ.get(name))), "")
    return "utf-8" in locale.lower() or "utf8" in locale.lower()
