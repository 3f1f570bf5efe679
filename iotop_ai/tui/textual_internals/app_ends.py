"""Keeps the exception that ends an app, and restores the terminal even if the event loop is stuck."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from textual.app import App

from iotop_ai.collectors.io.with_timeout import call_with_timeout
from iotop_ai.tui.textual_internals.driver import LEAVE_WAIT_S, MonitorDriver


class ExceptionKeepingApp(App[None], inherit_bindings=False):
    """An app that keeps the exception that ended it, so that one line can be printed after the terminal is restored.
    Textual would print a long traceback.

    Textual calls ``_fatal_error`` when it handles an exception. A release of Textual without that call would print its
    traceback.
    """

    failure: BaseException | None = None
    """The exception that ended the app; None if there was none."""

    def _fatal_error(self) -> None:
        if self.failure is None:  # while the app closes, its handlers may fail again, because no screen is left
            self.failure = sys.exc_info()[1]
        close = getattr(self, "_close_messages_no_wait", None)
        if close is None:
            super()._fatal_error()
        else:
            close()


def restore_terminal(app: App[Any]) -> None:
    """Restore the terminal, even if the event loop is stuck. Does nothing for an app without a driver.

    Call it in a thread that ends soon, because a signal may be blocked in the thread afterwards.
    """
    driver = getattr(app, "_driver", None)
    if isinstance(driver, MonitorDriver):
        driver.leave_by_force()
    elif driver is not None:

        def leave() -> None:
            driver.stop_application_mode()
            driver.close()  # waits for the thread that writes to the terminal

        with contextlib.suppress(Exception):  # the caller ends the process anyway
            call_with_timeout(LEAVE_WAIT_S, "terminal", leave)
