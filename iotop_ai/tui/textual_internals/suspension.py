"""Suspends all programs of a pipe, as Ctrl-Z does in a program that leaves this key to the terminal."""

from __future__ import annotations

import os
import signal
from typing import Any

from textual.app import App

_OWN_GROUP = 0


def suspend_group(app: App[Any]) -> None:
    """Send SIGTSTP to our process group, if the app's driver can give the terminal back and take it again.

    Textual would only stop this process. The shell waits until each process of a pipe has stopped. In this process, the
    driver's handler gives the terminal back and then sends SIGSTOP, to this process only.
    """
    driver = app._driver
    if driver is not None and driver.can_suspend:
        app.app_suspend_signal.publish(app)
        os.kill(_OWN_GROUP, signal.SIGTSTP)
