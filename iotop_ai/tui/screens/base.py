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
    """What the app can ask of any of its screens."""

    ACTIONS: ClassVar[tuple[Action, ...]] = ()
    """The actions that the palette offers here; () where it does not open."""

    @property
    def captures_keys(self) -> bool:
        """Whether every key is typed text at the moment."""
        return False

    def follow(self) -> None:
        """Draw the main screen's current Frame, where this screen shows it."""

    def leave(self) -> None:
        """Return to the screen below. Of two keys or clicks in one read, the second finds the screen closed."""
        if self.is_current:
            self.app.pop_screen()

    def update_front(self) -> None:
        """Let the screen in front follow. The app may be leaving and have none."""
        stack = self.app.screen_stack
        if stack and isinstance(stack[-1], MonitorScreen):
            stack[-1].follow()


class RootScreen(MonitorScreen):
    """The screen at the bottom of an app. theme_styles: what it is painted in."""

    theme_styles: ThemeStyles

    @property
    @abstractmethod
    def view(self) -> View:
        """How everything is shown."""

    @abstractmethod
    def use_theme(self, theme_styles: ThemeStyles) -> None:
        """Paint everything in another theme."""

    @abstractmethod
    def answer(self, text: str) -> None:
        """Answer a key on the screen in front."""


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
