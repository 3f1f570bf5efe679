"""Any text from outside stays text in the HTML."""

from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from iotop_ai.export.html.markup import Markup, empty_tag, short, tag, text


class ParsedHtml(HTMLParser):
    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data


@given(st.text(alphabet=st.characters(min_codepoint=32, blacklist_categories=("Cs", "Cc")), max_size=40))
def test_text_and_attributes_are_parsed_back_unchanged(words: str) -> None:
    parsed = ParsedHtml(tag("p", words, title=words))
    assert parsed.tags == [("p", {"title": words})]
    assert parsed.words == words


def test_children_that_are_markup_stay_markup() -> None:
    assert tag("b", tag("i", "<"), ">") == "<b><i>&lt;</i>&gt;</b>"
    assert isinstance(text("x"), Markup)
    assert text(Markup("<i>")) == "<i>"


def test_attributes_are_written() -> None:
    assert (
        empty_tag("rect", x=1.04, class_="a", text_anchor=None, stroke_width=2)
        == '<rect x="1" class="a" stroke-width="2"/>'
    )
    assert [short(value) for value in (0.0, -0.04, 12.34, 100.0)] == ["0", "0", "12.3", "100"]
