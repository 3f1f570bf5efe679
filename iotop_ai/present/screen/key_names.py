"""Names of keys: as users write them, as the screen shows them, and as Textual calls them."""

from __future__ import annotations

from unicodedata import name as unicode_name

from iotop_ai.lazy.regex import pattern

_ALIASES = {"esc": "escape", "return": "enter", "del": "delete", "pgup": "pageup", "pgdn": "pagedown", "ins": "insert"}
_LABELS = {
    "escape": "Esc",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "delete": "Del",
    "insert": "Ins",
    "question_mark": "?",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "left_curly_bracket": "{",
    "right_curly_bracket": "}",
    "apostrophe": "'",
    "plus": "+",
    "minus": "-",
    "slash": "/",
    "at": "@",
    "greater_than_sign": ">",
    "less_than_sign": "<",
}
_TEXTUAL_SIGNS = {
    "solidus": "slash",
    "reverse_solidus": "backslash",
    "commercial_at": "at",
    "hyphen_minus": "minus",
    "plus_sign": "plus",
    "low_line": "underscore",
}
"""The names of Unicode characters that Textual shortens."""
SENT_AS = {"ctrl+h": "backspace", "ctrl+i": "tab", "ctrl+m": "enter", "ctrl+left_square_bracket": "escape"}
"""Keys that a terminal sends as another key, unless it has the Kitty keyboard protocol."""
CTRL_AT = "ctrl+at"
"""A key that does not arrive under this name: most terminals send it as Ctrl+Space, others as Ctrl+Shift+2."""
_WORDS = (
    *("escape", "enter", "tab", "space", "backspace", "delete", "insert", "home", "end", "pageup", "pagedown"),
    *("up", "down", "left", "right", *(f"f{n}" for n in range(1, 25))),
)
_SEPARATOR = pattern(r"(?<=[a-z])[+-]")
_MODIFIERS = ("ctrl", "shift", "alt")


def parse_key(text: str) -> str | None:
    """Textual's name of a key that a user wrote as "F6", "ctrl+t", "Space", ">" or "R"; None if it is not a key."""
    text = text.strip() if len(text) > 1 else text
    if len(text) == 1:
        return _character(text)
    if not text:
        return None
    *modifiers, last = (*_SEPARATOR.split(text[:-1].lower()),)
    last += text[-1].lower()
    if any(modifier not in _MODIFIERS for modifier in modifiers) or len(set(modifiers)) < len(modifiers):
        return None
    if len(last) == 1:
        # Shift changes a letter into its capital, and a symbol into another symbol that depends on the keyboard.
        key = _character(last) if modifiers and "shift" not in modifiers else None
    else:
        last = _ALIASES.get(last, last)
        key = last if last in _WORDS or _symbol(last) else None
    return "+".join((*sorted(modifiers, key=("alt", "ctrl", "shift").index), key)) if key else None


def key_label(key: str) -> str:
    """The name of a key as the screen shows it: "F6", "Ctrl-T", "Space", ">"."""
    *modifiers, last = key.split("+")
    label = _LABELS.get(last) or (last if len(last) == 1 else _symbol(last) or last.capitalize())
    if modifiers and len(label) == 1:
        label = label.upper()
    return "-".join((*(modifier.capitalize() for modifier in modifiers), label))


def _character(text: str) -> str | None:
    if text == " ":
        return "space"
    if not text.isprintable():
        return None
    if text.isalnum():
        return text
    name = unicode_name(text, "").lower().replace("-", "_").replace(" ", "_")
    return _TEXTUAL_SIGNS.get(name, name) or None


def _symbol(name: str) -> str:
    """The ASCII symbol with this Textual name; "" if there is none."""
    for code in range(0x21, 0x7F):
        if _character(chr(code)) == name:
            return chr(code)
    return ""
