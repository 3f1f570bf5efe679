from __future__ import annotations

import re

import pytest

from iotop_ai.model.settings import THEMES
from iotop_ai.present.text.theme import TOKENS, text_style_of, text_styles

ALL = (*THEMES, "ansi-console")


@pytest.mark.parametrize("theme", ALL)
def test_every_theme_has_every_style(theme: str) -> None:
    assert set(text_styles(theme)) == {*TOKENS, "bg", "bg-sel", "bg-panel"}


@pytest.mark.parametrize("theme", ["dark", "light", "cvd"])
def test_exact_themes_have_rgb_colours(theme: str) -> None:
    for token, style in text_styles(theme).items():
        assert re.fullmatch(r"#[0-9a-f]{6}", style.fg), token
        assert re.fullmatch(r"#[0-9a-f]{6}", style.bg), token


@pytest.mark.parametrize("theme", ["ansi", "ansi-light", "ansi-console"])
def test_ansi_themes_use_the_sixteen_colours_of_the_terminal(theme: str) -> None:
    for style in text_styles(theme).values():
        assert style.fg in ("", *map(str, range(16)))
        assert style.bg in ("", *map(str, range(16)))


def test_the_console_gets_neither_colour_8_nor_dim() -> None:
    for style in text_styles("ansi-console").values():
        assert style.fg != "8"
        assert not style.dim


def test_the_mono_theme_has_no_colour_but_bad_differs_from_text() -> None:
    table = text_styles("mono")
    assert all(style.fg == style.bg == "" for style in table.values())
    assert table["bad"] != table["text"]
    assert table["block-bad"].reverse


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


@pytest.mark.parametrize("theme", ["dark", "light", "cvd"])
def test_words_can_be_read_on_their_background(theme: str) -> None:
    for token, style in text_styles(theme).items():
        if token in ("faint", "rule", "mute", "behind") or token.startswith("edge-"):
            continue
        high, low = sorted((_luminance(style.fg), _luminance(style.bg)), reverse=True)
        assert (high + 0.05) / (low + 0.05) >= (4.0 if token in ("graph", "hot") else 5.0), token


def test_a_selected_row_keeps_its_colours_and_dim_text_stays_visible() -> None:
    assert text_style_of("dark", "dim", "sel").fg == text_styles("dark")["text"].fg
    assert text_style_of("dark", "bad", "sel") == text_styles("dark")["bad"]._replace(
        bg=text_styles("dark")["bg-sel"].bg
    )
    assert text_style_of("dark", "block-bad", "sel") == text_styles("dark")["block-bad"]
    assert text_style_of("mono", "text", "sel").reverse
    assert text_style_of("ansi", "text", "panel") == text_styles("ansi")["text"]


def test_an_unknown_theme_is_an_error() -> None:
    with pytest.raises(KeyError):
        text_styles("solarized")
