"""HTML from text, each piece escaped where it is written."""

from __future__ import annotations

from html import escape


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def text(value: str) -> Markup:
    """Text escaped as markup; Markup is left as it is."""
    return value if isinstance(value, Markup) else Markup(escape(value, quote=True))


def tag(name: str, *children: str, **attributes: str | float | None) -> Markup:
    """An element. Children are escaped unless they are Markup. A trailing ``_`` of an attribute's name is dropped.

    None: without the attribute.
    """
    inner = "".join(text(child) for child in children)
    return Markup(f"<{name}{_attributes(attributes)}>{inner}</{name}>")


def single(name: str, **attributes: str | float | None) -> Markup:
    """An element of SVG without children."""
    return Markup(f"<{name}{_attributes(attributes)}/>")


def joined(parts: list[Markup]) -> Markup:
    """The pieces one after the other as one Markup."""
    return Markup("".join(parts))


def _attributes(found: dict[str, str | float | None]) -> str:
    out = []
    for name, value in found.items():
        if value is not None:
            shown = value if isinstance(value, str) else short(value)
            out.append(f' {name.rstrip("_").replace("_", "-")}="{escape(shown, quote=True)}"')
    return "".join(out)


def short(value: float) -> str:
    """A number in a few characters: a tenth of a pixel is enough."""
    rounded = round(value, 1)
    return str(int(rounded)) if rounded == int(rounded) else f"{rounded:.1f}"
