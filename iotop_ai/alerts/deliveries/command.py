"""Delivers an alert by running a program without a shell.

The program gets the alert only as environment variables and as JSON on standard input.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from typing import NamedTuple

from iotop_ai.alerts.deliveries.message import alert_object
from iotop_ai.alerts.deliveries.outbox import NotDelivered
from iotop_ai.alerts.rules import Alert
from iotop_ai.collectors.io.programs import SYSTEM_PATH
from iotop_ai.collectors.io.spawn import start
from iotop_ai.model.clean import clean

_POLL_S = 0.1
_END_S = 2.0
"""The longest wait for a killed command to exit, in seconds."""
_INHERITED = ("HOME", "USER", "LOGNAME", "LANG", "PATH", "XDG_RUNTIME_DIR")
_PREFIX = "IOTOP_AI_ALERT_"


class CommandDelivery(NamedTuple):
    """Runs a command for each alert.

    argv: the words of the command. The first word is an absolute path, and no word comes from the alert. at_most: the
    maximum number of messages per hour.
    """

    name: str
    argv: tuple[str, ...]
    timeout_s: float
    at_most: int

    @property
    def per_object(self) -> bool:
        """Whether an alert about several objects is sent as one message for each object."""
        return True

    def describe(self) -> str:
        """Return the word "command" and the program's path."""
        return f"command {clean(self.argv[0])}"

    def send(self, alert: Alert, stop: threading.Event) -> None:
        """Run the command. At the timeout, or when ``stop`` is set, the command is killed with its children.

        Raises NotDelivered if the command cannot run, is killed, or ends with an exit code other than 0.
        """
        data = json.dumps(alert_object(alert), ensure_ascii=True).encode() + b"\n"
        try:
            child = start(
                self.argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment(alert),
                start_new_session=True,
            )
        except OSError as error:
            raise NotDelivered(f"cannot run {clean(self.argv[0])}: {error.strerror}") from None
        # The input is written on another thread, because a program that does not read it would block this one.
        writer = threading.Thread(target=_write, args=(child, data), daemon=True)
        try:
            writer.start()
        except RuntimeError as error:
            raise NotDelivered(f"{clean(self.argv[0])} got no input and {_end(child)}: {error}") from None
        left_s = self.timeout_s
        while child.poll() is None and left_s > 0 and not stop.is_set():
            stop.wait(_POLL_S)
            left_s -= _POLL_S
        if child.poll() is None:
            why = f"took longer than {self.timeout_s:g} s" if left_s <= 0 else "still ran when the monitor ended"
            raise NotDelivered(f"{clean(self.argv[0])} {why} and {_end(child)}")
        if child.returncode:
            raise NotDelivered(f"{clean(self.argv[0])} ended with status {child.returncode}")


def environment(alert: Alert) -> dict[str, str]:
    """Return the program's environment: a few of the monitor's variables, and one variable per field of the alert."""
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    if os.geteuid() == 0:
        inherited["PATH"] = SYSTEM_PATH
    fields = {name: "" if value is None else str(value) for name, value in alert_object(alert).items()}
    return {"PATH": SYSTEM_PATH, **inherited, **{_PREFIX + name.upper(): value for name, value in fields.items()}}


def _end(child: subprocess.Popen[bytes]) -> str:
    """Kill the command with its children; return the outcome, worded as the end of a sentence."""
    try:
        os.killpg(child.pid, signal.SIGKILL)  # the child is not reaped yet, so no other process group has its id
        child.wait(_END_S)
    except PermissionError:  # the command has become root, for example through sudo
        return "cannot be killed, as it runs as another user"
    except subprocess.TimeoutExpired:  # the command waits in the kernel, for example for a disk that does not answer
        return "does not exit"
    return "was killed"


def _write(child: subprocess.Popen[bytes], data: bytes) -> None:
    assert child.stdin is not None
    try:
        child.stdin.write(data)
        child.stdin.close()
    except OSError:  # the program does not read its input
        return
