"""The style of each token in each theme, as data for the app, the tests, and the first frame, which cli/start paints.

A foreground or background is "#rrggbb", an ANSI colour number "0" to "15", or "" for the terminal's default. Nothing is
shown by colour alone: a word, ``>``, ``?`` or the weight shows it too.
"""

from __future__ import annotations

from functools import cache

from iotop_ai.lazy.namedtuple import NamedTuple


class TextStyle(NamedTuple):
    """The style of a span. fg, bg: the foreground and background colour."""

    fg: str = ""
    bg: str = ""
    bold: bool = False
    dim: bool = False
    underline: bool = False
    reverse: bool = False


HUES = ("bad", "warn", "ok", "info", "unsure", "dim")
TOKENS = (
    *("text", "strong", "dim", "faint", "zero", "none", "bad", "warn", "ok", "info", "unsure", "graph", "hot"),
    *("title", "title-focus", "rule", "rule-focus", "key", "mode", "cursor", "mute", "behind"),
    *(f"block-{hue}" for hue in HUES),
    *(f"edge-{hue}" for hue in HUES),
    *("tint-bad", "tint-bad-strong", "tint-warn", "tint-warn-strong"),
)
"""All tokens that a row of the screen can use."""

BACKGROUNDS = ("", "sel", "panel")
"""All backgrounds that a Line may have. ``text_styles`` calls them "bg", "bg-sel" and "bg-panel"."""

_DARK = {
    "bg": "#0f1317",
    "text": "#c5cdd5",
    "strong": "#f4f7fa",
    "dim": "#8794a1",
    "faint": "#3b4652",
    "bad": "#ff6a60",
    "warn": "#e8b04a",
    "ok": "#6cc0a0",
    "info": "#78b0ea",
    "unsure": "#c3a2f2",
    "graph": "#6d93b8",
    "hot": "#d75f5f",
    "tint-bad": "#6a211e",
    "tint-warn": "#4a370f",
    "sel": "#22344a",
    "panel": "#1a2129",
    "mute": "#5a6571",
    "block": "#0f1317",
}
_LIGHT = {
    "bg": "#fbfbf9",
    "text": "#30373e",
    "strong": "#0b0e11",
    "dim": "#5d6873",
    "faint": "#c3cad1",
    "bad": "#b3261e",
    "warn": "#7d5200",
    "ok": "#1b6b4d",
    "info": "#0f5ca8",
    "unsure": "#6a3fa5",
    "graph": "#557a9e",
    "hot": "#c4443a",
    "tint-bad": "#f9d8d3",
    "tint-warn": "#f6e6c4",
    "sel": "#d5e4f4",
    "panel": "#f1f3f4",
    "mute": "#8d979f",
    "block": "#ffffff",
}
# Colours that people with a colour-vision deficiency can tell apart.
_CVD = _DARK | {
    "bad": "#ff9340",
    "hot": "#c97a3a",
    "warn": "#f2e05c",
    "ok": "#5fb4f0",
    "info": "#b9c4d0",
    "unsure": "#e6a3cf",
    "tint-bad": "#52300f",
    "tint-warn": "#47420f",
}


def _exact(palette: dict[str, str]) -> dict[str, TextStyle]:
    """The styles of a theme with exact colours. palette: the colours by name."""
    bg = palette["bg"]
    out = {
        name: TextStyle(palette[name], bg)
        for name in ("text", "dim", "faint", "ok", "info", "unsure", "graph", "hot", "mute")
    }
    for name in ("strong", "bad", "warn"):
        out[name] = TextStyle(palette[name], bg, bold=True)
    out |= {"zero": out["dim"], "none": out["dim"], "title": out["text"], "rule": out["faint"], "behind": out["mute"]}
    out |= {"title-focus": out["strong"], "rule-focus": out["dim"], "key": TextStyle(palette["strong"], bg)}
    out |= {"mode": TextStyle(palette["info"], bg, bold=True), "cursor": TextStyle(bg, palette["strong"])}
    for hue in HUES:
        out[f"block-{hue}"] = TextStyle(palette["block"], palette[hue], bold=True)
        out[f"edge-{hue}"] = TextStyle(palette[hue], bg)
    for hue in ("bad", "warn"):
        out[f"tint-{hue}"] = TextStyle(palette["text"], palette[f"tint-{hue}"])
        out[f"tint-{hue}-strong"] = TextStyle(palette["strong"], palette[f"tint-{hue}"], bold=True)
    return out | {
        "bg": TextStyle(palette["text"], bg),
        "bg-sel": TextStyle(palette["text"], palette["sel"]),
        "bg-panel": TextStyle(palette["text"], palette["panel"]),
    }


_ANSI_DARK = {"bad": "9", "warn": "11", "ok": "10", "info": "14", "unsure": "13", "graph": "6", "hot": "9"}
_ANSI_LIGHT = {"bad": "1", "warn": "3", "ok": "2", "info": "4", "unsure": "5", "graph": "4", "hot": "1"}
_ANSI_BLOCKS = {
    "bad": ("15", "1"),
    "warn": ("0", "3"),
    "ok": ("0", "2"),
    "info": ("0", "6"),
    "unsure": ("15", "5"),
    "dim": ("0", "7"),
}


def _ansi(hues: dict[str, str], *, console: bool = False) -> dict[str, TextStyle]:
    """The styles of a theme with the terminal's 16 colours. hues: the colour numbers by token. console: whether the
    terminal is the Linux console, on which dim text (SGR 2) and colour 8 are unreadable.
    """
    dim = TextStyle(dim=not console)
    faint = dim if console else TextStyle("8")
    out = {
        "text": TextStyle(),
        "strong": TextStyle(bold=True),
        "dim": dim,
        "faint": faint,
        "zero": dim,
        "none": dim,
        "mute": dim,
    }
    out["behind"] = dim
    out |= {name: TextStyle(hues[name], bold=name in ("bad", "warn")) for name in hues}
    out |= {"title": TextStyle(), "title-focus": TextStyle(bold=True), "rule": faint, "rule-focus": TextStyle()}
    out |= {"key": TextStyle(bold=True), "mode": TextStyle(hues["info"], bold=True), "cursor": TextStyle(reverse=True)}
    for hue, (fg, bg) in _ANSI_BLOCKS.items():
        out[f"block-{hue}"] = TextStyle(fg, bg, bold=True)
        out[f"edge-{hue}"] = TextStyle("" if hue == "dim" else bg)
        if hue in ("bad", "warn"):
            out[f"tint-{hue}"] = TextStyle(fg, bg)
            out[f"tint-{hue}-strong"] = TextStyle(fg, bg, bold=True)
    return out | {"bg": TextStyle(), "bg-sel": TextStyle("15", "4"), "bg-panel": TextStyle()}


def _mono() -> dict[str, TextStyle]:
    """The styles without colours: only weight, underline and inverse."""
    dim = TextStyle(dim=True)
    out = dict.fromkeys(("text", "ok", "info", "unsure", "graph", "hot", "title"), TextStyle())
    out |= dict.fromkeys(("dim", "faint", "zero", "none", "rule", "mute", "behind"), dim)
    out |= dict.fromkeys(("strong", "warn", "key", "title-focus", "mode"), TextStyle(bold=True))
    out |= {"rule-focus": TextStyle(), "cursor": TextStyle(reverse=True), "bad": TextStyle(bold=True, underline=True)}
    for hue in HUES:
        out[f"block-{hue}"] = TextStyle(bold=True, reverse=True)
        out[f"edge-{hue}"] = dim if hue == "dim" else TextStyle()
    for hue in ("bad", "warn"):
        out[f"tint-{hue}"] = TextStyle(reverse=True)
        out[f"tint-{hue}-strong"] = TextStyle(bold=True, reverse=True)
    return out | {"bg": TextStyle(), "bg-sel": TextStyle(reverse=True), "bg-panel": TextStyle()}


@cache
def text_styles(theme: str) -> dict[str, TextStyle]:
    """The style of each token in this theme: dark, light, ansi, ansi-light, ansi-console, mono or cvd. Raises KeyError
    for any other theme.
    """
    themes = {
        "dark": lambda: _exact(_DARK),
        "light": lambda: _exact(_LIGHT),
        "cvd": lambda: _exact(_CVD),
        "ansi": lambda: _ansi(_ANSI_DARK),
        "ansi-light": lambda: _ansi(_ANSI_LIGHT),
        "ansi-console": lambda: _ansi(_ANSI_DARK, console=True),
        "mono": _mono,
    }
    return themes[theme]()


def text_style_of(theme: str, token: str, background: str = "") -> TextStyle:
    """The style of a span on a row with this background.

    On a selected row, dim text becomes normal text, and a theme without colours inverts the row. Blocks, tints, the
    cursor and the rows behind a dialog keep their own colours on every background.
    """
    table = text_styles(theme)
    if background == "sel" and token in ("dim", "zero", "none", "faint"):
        token = "text"
    style = table[token]
    under = table[f"bg-{background}"] if background else None
    if under is None or token.startswith(("block-", "tint-", "cursor", "behind")):
        return style
    if under.reverse:
        return style._replace(reverse=True, dim=False)
    if not under.bg:
        return style
    return style._replace(bg=under.bg, fg=style.fg or under.fg)
