"""Makes HTML from text; each text is escaped where it is inserted."""

from __future__ import annotations

from html import escape


class Markup(str):
    """Text that is already markup, so it is not escaped again."""

    __slots__ = ()


def text(value: str) -> Markup:
    """The text escaped for HTML; Markup is returned unchanged."""
    return value if isinstance(value, Markup) else Markup(escape(value, quote=True))


def tag(name: str, *children: str, **attributes: str | float | None) -> Markup:
    """An element with an opening and a closing tag. Children are escaped unless they are Markup.

    An attribute that is None is omitted. In an attribute's name, a trailing ``_`` is removed, as in ``class_``, and any
    other ``_`` becomes ``-``, as in ``aria_label``.
    """
    inner = "".join(text(child) for child in children)
    return Markup(f"<{name}{_attributes(attributes)}>{inner}</{name}>")


def empty_tag(name: str, **attributes: str | float | None) -> Markup:
    """An SVG element without children."""
    return Markup(f"<{name}{_attributes(attributes)}/>")


def joined(parts: list[Markup]) -> Markup:
    """The parts as one Markup."""
    return Markup("".join(parts))


def _attributes(attributes: dict[str, str | float | None]) -> str:
    out = []
    for name, value in attributes.items():
        if value is not None:
            value_text = value if isinstance(value, str) else short(value)
            out.append(f' {name.rstrip("_").replace("_", "-")}="{escape(value_text, quote=True)}"')
    return "".join(out)


def short(value: float) -> str:
    """A number in few characters, rounded to a tenth, which is precise enough for pixels."""
    rounded = round(value, 1)
    return str(int(rounded)) if rounded == int(rounded) else f"{rounded:.1f}"
