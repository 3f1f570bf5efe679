"""The base class of all panels: it shows rows of Lines, and paints only the rows that changed.

Textual's usual way, through Rich renderables and the styles cache, takes about ten times as long per refresh. A
DirectPainter paints changes in place; for everything else, Textual calls ``render_lines``.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from textual.errors import NoWidget
from textual.events import Click, Leave, MouseMove, MouseScrollDown, MouseScrollUp
from textual.filter import ANSIToTruecolor
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from iotop_ai.present.text.line import Line, Span
from iotop_ai.tui.styles import UNDERLINE_PREFIX, ThemeStyles
from iotop_ai.tui.textual_internals.cell_diff import CellDiff, Row
from iotop_ai.tui.textual_internals.direct_paint import painter_of

WHEEL_ROWS = 3
"""The number of rows by which one step of the mouse wheel scrolls."""


class RowClicked(Message):
    """A row with a key was clicked."""

    def __init__(self, panel: LinePanel, key: str) -> None:
        self.panel = panel
        self.key = key
        super().__init__()


class PlaceClicked(Message):
    """A row without a key was clicked. y: the row in the panel. x: the column."""

    def __init__(self, panel: LinePanel, line: Line, y: int, x: int) -> None:
        self.panel = panel
        self.line = line
        self.y = y
        self.x = x
        super().__init__()


class Wheeled(Message):
    """The mouse wheel moved over a panel. step: the number of rows; positive is down."""

    def __init__(self, panel: LinePanel, step: int) -> None:
        self.panel = panel
        self.step = step
        super().__init__()


class LinePanel(Widget, can_focus=True):
    """Shows Lines, one per row, each as wide as the panel. Text reaches the terminal as Segments, not as markup."""

    ALLOW_SELECT = False
    DEFAULT_CSS = "LinePanel { width: 1fr; height: 1; }"

    def __init__(self, theme_styles: ThemeStyles, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.lines: tuple[Line, ...] = ()
        self.rows_repainted = 0
        """The number of rows repainted so far, for the tests of cost."""
        self._theme_styles = theme_styles
        self._strips: list[Strip | None] = []
        self._painted: list[Row | None] = []
        """For each row, the cells that the direct painter wrote last; None if Textual painted the row last."""
        self._cell_diff: CellDiff | None = None
        """The CellDiff that made the rows of ``_painted``."""
        self._changed: set[int] = set()
        """The rows that wait for the direct painter."""
        self._hovered: int | None = None
        """The row whose name is underlined, because the mouse is over it; None for none."""

    def show(self, lines: Sequence[Line]) -> None:
        """Show these rows. Only those that differ from the rows shown are painted."""
        old, new = self.lines, tuple(lines)
        self.lines = new
        if len(old) != len(new):
            self._clear()
            self._repaint(range(max(len(old), len(new))))
            return
        changed = [y for y, line in enumerate(new) if line is not old[y] and line != old[y]]
        if not changed:
            return
        for y in changed:
            self._strips[y] = None
        painter = painter_of(self.app, self._theme_styles) if self.is_mounted else None
        if painter is not None and painter.can_paint:
            self.rows_repainted += len(changed)
            self._changed.update(changed)
            painter.add(self)
        else:
            self._repaint(changed)

    def _clear(self) -> None:
        """Forget what was painted."""
        self._strips = [None] * len(self.lines)
        self._painted = [None] * len(self.lines)
        self._changed.clear()

    def visible_region(self) -> Region | None:
        """The panel's region on the terminal; None unless all of it is visible on the screen in front.

        A screen that is not in front is left to Textual, because the screen over it may be transparent.
        """
        screen = self.screen
        if self.app.screen is not screen:
            return None
        try:
            place = screen.find_widget(self)
        except NoWidget:
            return None
        return place.region if place.clip.contains_region(place.region) else None

    def collect_changes(self, cell_diff: CellDiff, height: int, width: int) -> list[tuple[int, Row | None, Row]] | None:
        """The changed rows as (row, old cells or None, new cells), which then count as painted; None if a row is not as
        wide as the panel.
        """
        if cell_diff is not self._cell_diff:
            self._cell_diff, self._painted = cell_diff, [None] * len(self.lines)
        out: list[tuple[int, Row | None, Row]] = []
        for y in sorted(self._changed):
            if y < height:
                new = cell_diff.row(self._line_at(y))
                if not new.jagged and len(new.text) != width:
                    return None
                out.append((y, self._painted[y], new))
        for y, _, new in out:
            self._painted[y] = new
        self._changed.clear()
        return out

    def fall_back(self) -> None:
        """Let Textual paint the changed rows."""
        rows = sorted(self._changed)
        self._changed.clear()
        self.rows_repainted -= len(rows)
        self._repaint(rows)

    def use_theme(self, theme_styles: ThemeStyles) -> None:
        """Paint all rows in another theme."""
        self._theme_styles = theme_styles
        self._clear()
        self.refresh()

    def _repaint(self, rows: Sequence[int]) -> None:
        """Let Textual paint these rows, given in ascending order; adjacent rows become one region."""
        if not rows:
            return
        self.rows_repainted += len(rows)
        width = max(1, self.size.width)
        regions: list[Region] = []
        start = rows[0]
        for y, after in zip(rows, [*rows[1:], -1], strict=True):
            if after != y + 1:
                regions.append(Region(0, start, width, y + 1 - start))
                start = after
        self.refresh(*regions)

    def render_line(self, y: int) -> Strip:
        """The whole row at ``y``; a blank row below the last."""
        return self._row(y, self.size.width)

    def render_lines(self, crop: Region) -> list[Strip]:
        """The rows of ``crop``, without Textual's styles cache, because a panel has no border, padding or blended
        colour.
        """
        width = self.size.width
        rows = [self._row(y, width) for y in range(crop.y, crop.y + crop.height)]
        if crop.x == 0 and crop.width == width:
            return rows
        return [strip.crop(crop.x, crop.x + crop.width) for strip in rows]

    def _row(self, y: int, width: int) -> Strip:
        """The row for Textual, which paints it now."""
        if not 0 <= y < len(self.lines):
            return Strip.blank(width, self._theme_styles.base)
        self._painted[y] = None
        strip = self._strips[y]
        if strip is None or strip.cell_length != width:
            strip = self._strips[y] = self._strip(self._line_at(y), width)
        return strip

    def _line_at(self, y: int) -> Line:
        """The row, with its name underlined while the mouse is over it."""
        line = self.lines[y]
        return line._replace(spans=_underline_name(line.spans)) if y == self._hovered and line.key else line

    def _strip(self, line: Line, width: int) -> Strip:
        style = self._theme_styles.style
        background = line.background
        segments = [Segment(span.text, style(span.token, background)) for span in line.spans if span.text]
        strip = Strip(segments).adjust_cell_length(width, style("text", background))
        for line_filter in self.app.get_line_filters():
            # All colours are either true colours or the terminal's colours, so this filter has nothing to translate.
            if not isinstance(line_filter, ANSIToTruecolor):
                strip = strip.apply_filter(line_filter, self.background_colors[1])
        return strip

    def _hover(self, y: int | None) -> None:
        """Move the underline to the row at ``y`` if it has a key; otherwise remove the underline."""
        if y is not None and not (0 <= y < len(self.lines) and self.lines[y].key):
            y = None
        if y == self._hovered:
            return
        for row in (self._hovered, y):
            if row is not None and row < len(self._strips):
                self._strips[row] = None
                self._repaint([row])
        self._hovered = y

    def on_mouse_move(self, event: MouseMove) -> None:
        """Underline the name of the row under the mouse."""
        self._hover(event.y)

    def on_leave(self, event: Leave) -> None:
        """Remove the underline."""
        self._hover(None)

    def on_click(self, event: Click) -> None:
        """Post a message about the row that was clicked."""
        if not 0 <= event.y < len(self.lines):
            return
        line = self.lines[event.y]
        if line.key:
            self.post_message(RowClicked(self, line.key))
        elif line.text.strip():  # a blank row below the last row of a panel is not a place
            self.post_message(PlaceClicked(self, line, event.y, event.x))

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        """Post the message that the wheel was turned down."""
        event.stop()
        self.post_message(Wheeled(self, WHEEL_ROWS))

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        """Post the message that the wheel was turned up."""
        event.stop()
        self.post_message(Wheeled(self, -WHEEL_ROWS))


def _underline_name(spans: Sequence[Span]) -> tuple[Span, ...]:
    """The spans with the row's name underlined: the first word, without what precedes its first letter or digit."""
    out = list(spans)
    for i, span in enumerate(spans):
        first = next((k for k, c in enumerate(span.text) if c.isalnum()), None)
        if first is None:
            continue
        end = first + len(span.text[first:].split(" ", 1)[0])
        parts = (
            Span(span.text[:first], span.token),
            Span(span.text[first:end], UNDERLINE_PREFIX + span.token),
            Span(span.text[end:], span.token),
        )
        out[i : i + 1] = [part for part in parts if part.text]
        break
    return tuple(out)
