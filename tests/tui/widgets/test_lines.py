"""The widget for lines: only changed rows are painted again, and text from outside is never markup."""

import pytest
from textual.app import App
from textual.geometry import Region

from iotop_ai.model.clean import clean
from iotop_ai.present.text.line import Line, Span
from iotop_ai.tui.styles import ThemeStyles
from iotop_ai.tui.widgets.lines import LinePanel, RowClicked

WIDTH = 40


def line(text: str, key: str = "", token: str = "text") -> Line:
    return Line((Span(text.ljust(WIDTH), token),), "", key)


class Host(App[None]):
    CSS = "LinePanel { height: 10; }"

    def __init__(self, theme: str = "dark") -> None:
        super().__init__(ansi_color=True if theme in ("ansi", "mono") else None)
        self.panel = LinePanel(ThemeStyles(theme))
        self.clicked: list[str] = []

    def compose(self):
        yield self.panel

    def on_row_clicked(self, event: RowClicked) -> None:
        self.clicked.append(event.key)


async def test_only_changed_rows_are_painted_again() -> None:
    app = Host()
    async with app.run_test(size=(WIDTH, 10)) as pilot:
        rows = [line(f"row {n}") for n in range(10)]
        app.panel.show(rows)
        await pilot.pause()
        before = app.panel.rows_repainted
        kept = [app.panel.render_line(y) for y in range(10)]
        app.panel.show([*rows[:3], line("new"), *rows[4:8], line("other"), rows[9]])
        assert app.panel.rows_repainted - before == 2
        assert app.panel._repaint_regions == {Region(0, 3, WIDTH, 1), Region(0, 8, WIDTH, 1)}
        await pilot.pause()
        assert [app.panel.render_line(y) is kept[y] for y in range(10)] == [y not in (3, 8) for y in range(10)]
        app.panel.show(app.panel.lines)
        assert app.panel.rows_repainted - before == 2
        assert app.panel.render_line(3).text.rstrip() == "new"


async def test_removed_rows_become_blank() -> None:
    app = Host()
    async with app.run_test(size=(WIDTH, 10)) as pilot:
        app.panel.show([line(f"row {n}") for n in range(10)])
        await pilot.pause()
        app.panel.show([line("alone")])
        await pilot.pause()
        assert [app.panel.render_line(y).text.strip() for y in range(10)] == ["alone"] + [""] * 9
        assert [strip.cell_length for strip in app.panel.render_lines(Region(0, 0, WIDTH, 10))] == [WIDTH] * 10


@pytest.mark.parametrize("name", ["[/x]", "[bold]", "[@click=app.quit]", "a\x1b]0;owned\x07b", "\u202egpj", "\x9b2J"])
async def test_text_from_outside_is_not_markup(name: str) -> None:
    app = Host()
    async with app.run_test(size=(WIDTH, 10)) as pilot:
        shown = clean(name)
        app.panel.show([line(shown, key="process:1")])
        await pilot.click(app.panel, offset=(1, 0))
        strip = app.panel.render_line(0)
        assert strip.text.rstrip() == shown
        assert strip.text.isprintable()
        assert all(not segment.control for segment in strip)
        assert all(segment.style is None or not segment.style.meta for segment in strip)
        assert app.is_running


async def test_a_click_names_its_row_and_the_mouse_underlines_clickable_text() -> None:
    app = Host()
    async with app.run_test(size=(WIDTH, 10)) as pilot:
        app.panel.show([line("title"), line(">sda  /data  735", key="disk:sda")])
        await pilot.click(app.panel, offset=(3, 1))
        await pilot.click(app.panel, offset=(3, 0))
        await pilot.click(app.panel, offset=(3, 5))
        assert app.clicked == ["disk:sda"]
        await pilot.hover(app.panel, offset=(3, 1))
        await pilot.pause()
        underlined = [s.text for s in app.panel.render_line(1) if s.style is not None and s.style.underline]
        assert underlined == ["sda"]
        await pilot.hover(app.panel, offset=(3, 0))
        await pilot.pause()
        assert not any(s.style is not None and s.style.underline for s in app.panel.render_line(1))


async def test_a_cropped_row_is_a_part_of_the_row() -> None:
    app = Host()
    async with app.run_test(size=(WIDTH, 10)) as pilot:
        app.panel.show([line("0123456789")])
        await pilot.pause()
        assert [s.text for s in app.panel.render_lines(Region(3, 0, 4, 1))] == ["3456"]


async def test_with_no_color_there_is_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = Host("mono")
    async with app.run_test(size=(WIDTH, 10)) as pilot:
        app.panel.show([line("FAILING", token="bad"), line("x", token="block-bad")])
        await pilot.pause()
        styles = [s.style for y in range(2) for s in app.panel.render_line(y) if s.style is not None]
        assert all(c is None or c.is_default for style in styles for c in (style.color, style.bgcolor))
        assert styles[0].bold
        assert styles[0].underline
