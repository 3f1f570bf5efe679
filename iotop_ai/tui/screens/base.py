"""Base classes of the app's screens."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from textual.app import ComposeResult
from textual.screen import Screen

from iotop_ai.present.screen.actions import Action
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.line import Line
from iotop_ai.tui.styles import ThemeStyles
from iotop_ai.tui.widgets.lines import LinePanel


class MonitorScreen(Screen[None]):
    """A screen of the app, with the methods that the app calls on every screen."""

    ACTIONS: ClassVar[tuple[Action, ...]] = ()
    """The actions that the palette offers here; () where it does not open."""

    @property
    def captures_keys(self) -> bool:
        """Whether keys are typed text now, for example in a search field."""
        return False

    def follow(self) -> None:
        """Draw the main screen's current Frame, where this screen shows it."""

    def leave(self) -> None:
        """Return to the screen below, unless an earlier key or click of the same read already did."""
        if self.is_current:
            self.app.pop_screen()

    def update_front(self) -> None:
        """Call ``follow`` of the screen in front. An app that is ending may have none."""
        stack = self.app.screen_stack
        if stack and isinstance(stack[-1], MonitorScreen):
            stack[-1].follow()


class RootScreen(MonitorScreen):
    """The screen at the bottom of an app's stack. theme_styles: the colours in which it is painted."""

    theme_styles: ThemeStyles

    @property
    @abstractmethod
    def view(self) -> View:
        """The user's choices of what is shown, and how."""

    @abstractmethod
    def use_theme(self, theme_styles: ThemeStyles) -> None:
        """Repaint every screen in another theme."""

    @abstractmethod
    def answer(self, text: str) -> None:
        """Show a short answer to a key on the screen in front."""


class PanelScreen(MonitorScreen):
    """A screen of one panel, drawn over the whole terminal."""

    DEFAULT_CSS = "PanelScreen { overflow: hidden; } PanelScreen LinePanel { height: 1fr; }"

    def __init__(self, theme_styles: ThemeStyles, panel_id: str) -> None:
        super().__init__()
        self.panel = LinePanel(theme_styles, id=panel_id)

    @abstractmethod
    def rows(self, width: int, height: int) -> list[Line]:
        """Exactly ``height`` lines of ``width`` columns."""

    def compose(self) -> ComposeResult:
        """Compose the panel, drawn before it is mounted, so that the first paint is complete."""
        self.draw()
        yield self.panel

    def draw(self) -> None:
        """Show the rows; only changed ones are painted."""
        self.panel.show(self.rows(*self.app.size))

    def on_resize(self) -> None:
        """Fit the rows to the new size."""
        self.draw()


class LiveScreen(PanelScreen):
    """A PanelScreen that follows the main screen's Frame."""

    def follow(self) -> None:
        """Draw the main screen's current Frame."""
        self.draw()

    def on_screen_resume(self) -> None:
        """Catch up with Frames that came while another screen was in front."""
        self.follow()
