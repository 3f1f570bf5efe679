"""The screen as an SVG, as it stands, but for command lines: of those no more than of anything that is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iotop_ai.store.redact import Redactor

if TYPE_CHECKING:
    from iotop_ai.tui.app import MonitorApp

TITLE = "iotop-ai"


def picture(app: MonitorApp) -> str:
    """The SVG of what is in front. While it is drawn the screen shows the redacted Frame to nobody else."""
    main = app.main
    shown = main.frame
    main.frame = shown._replace(snapshot=Redactor(main.view.cmdline).snapshot(shown.snapshot))
    message, main.view = main.view.message, main.view._replace(message="")
    try:
        _draw(app)
        return app.export_screenshot(title=TITLE)
    finally:
        main.frame = shown
        main.view = main.view._replace(message=message)
        _draw(app)


def _draw(app: MonitorApp) -> None:
    app.main.redraw()
    front = app.screen
    if front is not app.main and hasattr(front, "follow"):
        front.follow()
