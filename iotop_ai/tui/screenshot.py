"""The screen as an SVG, with command lines redacted as in all files that the monitor writes."""

from __future__ import annotations

from iotop_ai.store.format.redact import Redactor
from iotop_ai.tui.screens.main.screen import MainScreen
from iotop_ai.tui.terminal_app import TITLE


def screenshot(main: MainScreen) -> str:
    """The SVG of the screen in front. While it is made, the screens hold the redacted Frame, but do not show it to the
    user.
    """
    state = main.state
    frame, message = state.received, state.view.message
    state.frame = frame._replace(snapshot=Redactor(state.view.cmdline).snapshot(frame.snapshot))
    state.update(message="", unredacted=frame.snapshot)
    try:
        _draw(main)
        return main.app.export_screenshot(title=TITLE)
    finally:
        state.frame = frame
        state.update(message=message, unredacted=None)
        _draw(main)


def _draw(main: MainScreen) -> None:
    main.redraw()
    main.update_front()
