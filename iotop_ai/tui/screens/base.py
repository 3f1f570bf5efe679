"""The base classes of the apps' screens."""

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
    """A screen with the methods that the app calls on all screens."""

    ACTIONS: ClassVar[tuple[Action, ...]] = ()
    """The actions that the palette offers on this screen; () if the palette does not open on it."""

    @property
    def captures_keys(self) -> bool:
        """Whether keys are text that is being typed, for example in a search field."""
        return False

    def follow(self) -> None:
        """Draw the newest state of the app, if this screen shows it."""

    def leave(self) -> None:
        """Return to the screen below, unless an earlier key or click in the same burst of input already did."""
        if self.is_current:
            self.app.pop_screen()

    def update_front(self) -> None:
        """Call ``follow`` of the screen in front. While the app ends, there may be no screen."""
        stack = self.app.screen_stack
        if stack and isinstance(stack[-1], MonitorScreen):
            stack[-1].follow()


class RootScreen(MonitorScreen):
    """The screen at the bottom of an app's stack. theme_styles: the styles in which it is painted."""

    theme_styles: ThemeStyles

    @property
    @abstractmethod
    def view(self) -> View:
        """The user's choices of what is shown and how."""

    @abstractmethod
    def use_theme(self, theme_styles: ThemeStyles) -> None:
        """Paint all panels in another theme."""

    @abstractmethod
    def show_answer(self, text: str) -> None:
        """Show, on the screen in front, a short message that answers a key: what it did, or why it did nothing."""


class PanelScreen(MonitorScreen):
    """A screen that consists of one panel over the whole terminal."""

    DEFAULT_CSS = "PanelScreen { overflow: hidden; } PanelScreen LinePanel { height: 1fr; }"

    def __init__(self, theme_styles: ThemeStyles, panel_id: str) -> None:
        super().__init__()
        self.panel = LinePanel(theme_styles, id=panel_id)

    @abstractmethod
    def rows(self, width: int, height: int) -> list[Line]:
        """The screen as exactly ``height`` lines of ``width`` columns."""

    def compose(self) -> ComposeResult:
        """Compose the panel. It is drawn before it is mounted, so that the first paint is complete."""
        self.draw()
        yield self.panel

    def draw(self) -> None:
        """Show the rows; only those that changed are painted."""
        self.panel.show(self.rows(*self.app.size))

    def on_resize(self) -> None:
        """Fit the rows to the new size."""
        self.draw()


class LiveScreen(PanelScreen):
    """A PanelScreen that is drawn again whenever the state that it shows changes."""

    def follow(self) -> None:
        """Draw the newest state."""
        self.draw()

    def on_screen_resume(self) -> None:
        """Draw the newest state after another screen was in front."""
        self.follow()
