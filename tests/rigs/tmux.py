"""A real terminal: tmux with a separate socket, to which keys are sent and whose screen is captured."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import pytest

from tests.rigs.tmux_control import TmuxControl

LONG_S = 20.0
"""The seconds to wait for a text on the screen; other programs may slow the machine down."""

STOPS = pytest.mark.xdist_group("a hung filesystem")
"""For tests that press Ctrl-Z: they must not run beside a test that hangs a filesystem, because the program refuses
Ctrl-Z while it waits for one."""


def why_no_tmux() -> str:
    """The reason why this rig cannot run here; "" if it can."""
    return "" if shutil.which("tmux") else "needs tmux"


class Terminal:
    """Use it as ``with Terminal(80, 24) as t: t.type("iotop-ai\\n"); t.wait_for(" q ?")``. The terminal runs ``sh``.

    environment: variables that the shell gets beside those of the caller; TERM and COLORTERM are those of a
    terminal with true colour. The view of an earlier terminal is not remembered, unless XDG_STATE_HOME names a folder
    to share. inside: the words before the shell's command.
    """

    def __init__(
        self, width: int, height: int, environment: Mapping[str, str] | None = None, inside: Sequence[str] = ()
    ) -> None:
        self.width, self.height = width, height
        self._inside = inside
        self._server = ("tmux", "-L", f"rig-{uuid.uuid4().hex[:10]}", "-f", "/dev/null")
        self._control: TmuxControl | None = None
        self._state = tempfile.TemporaryDirectory(prefix="iotop-ai-terminal-", ignore_cleanup_errors=True)
        self._environment = {
            "XDG_STATE_HOME": self._state.name,
            "TERM": "tmux-256color",
            "COLORTERM": "truecolor",
            "LC_ALL": "C.UTF-8",
            "PS1": "ready> ",
            **(environment or {}),
        }

    def tmux(self, *argv: str) -> str:
        """Run one tmux command, and return its output. Raises RuntimeError with tmux's message."""
        if self._control is not None and argv[0] != "kill-server":
            return self._control.run(argv)
        done = subprocess.run([*self._server, *argv], capture_output=True, env=self._client_environment())
        if done.returncode:
            raise RuntimeError(f"tmux {argv[0]}: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout.decode("utf-8", "replace")

    @staticmethod
    def _client_environment() -> dict[str, str]:
        return {**os.environ, "LC_ALL": "C.UTF-8"}

    def __enter__(self) -> Terminal:
        settings = [f"{key}={value}" for key, value in self._environment.items()]
        size = ("-x", str(self.width), "-y", str(self.height))
        # tmux sets TERM itself, so the variables are set by a command inside the pane.
        self.tmux("new-session", "-d", *size, *self._inside, "env", "-u", "TMUX", *settings, "sh", "-i")
        self._control = TmuxControl(self._server, self._client_environment())
        self.tmux("set-option", "-g", "status", "off")
        self.tmux("set-option", "-sg", "escape-time", "0")
        self.tmux("resize-window", "-x", str(self.width), "-y", str(self.height))
        self.wait_for("ready>")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(RuntimeError):
            self.tmux("kill-server")
        if self._control is not None:
            self._control.close()
        self._state.cleanup()

    def type(self, text: str) -> None:
        """Send text as if it were typed; "\\n" is Enter. Raw bytes, such as a mouse report, are sent alike."""
        for number, line in enumerate(text.split("\n")):
            if number:
                self.tmux("send-keys", "Enter")
            if line:
                self.tmux("send-keys", "-l", "--", line)

    def keys(self, *names: str) -> None:
        """Send keys, by the names of tmux: "q", "Tab", "F1", "Left", "Space", "Escape"."""
        self.tmux("send-keys", *names)

    def click(self, column: int, row: int) -> None:
        """Press and release the left mouse button at a cell, counted from 0, as an xterm in SGR mode reports it."""
        self.type(f"\x1b[<0;{column + 1};{row + 1}M")
        self.type(f"\x1b[<0;{column + 1};{row + 1}m")

    def screen(self) -> list[str]:
        """The rows as text without spaces at the end; there are always ``height`` rows."""
        rows = self.tmux("capture-pane", "-p").split("\n")[: self.height]
        return [row.rstrip() for row in rows] + [""] * (self.height - len(rows))

    def styled_screen(self) -> str:
        """The screen with its colours and attributes, as escape sequences."""
        return self.tmux("capture-pane", "-e", "-p")

    def text(self) -> str:
        """The whole screen as one string."""
        return "\n".join(self.screen())

    def mode(self) -> dict[str, str]:
        """The modes that a program must restore (alternate screen, cursor, mouse, cursor keys), and the shell's pid."""
        names = ("alternate_on", "cursor_flag", "mouse_any_flag", "mouse_sgr_flag", "keypad_cursor_flag", "pane_pid")
        values = self.tmux("display-message", "-p", " ".join(f"#{{{n}}}" for n in names)).split()
        return dict(zip(names, values, strict=True))

    def wait_app(self) -> None:
        """Wait until the app enables the mouse, because its first frame is painted before the app is loaded.

        A click is lost until the app has its layout, so before a click, wait for the app's answer to a key instead.
        """
        self.wait_until(lambda _: self.mode()["mouse_any_flag"] == "1", what="the app asks for the mouse")

    def cleared(self) -> None:
        """Clear the shell's screen, so that earlier text is not taken for new text."""
        self.type("clear\n")
        self.wait_until(lambda text: text.strip() == "ready>", what="an empty screen")

    def resize(self, width: int, height: int) -> None:
        """Change the size of the terminal."""
        self.width, self.height = width, height
        self.tmux("resize-window", "-x", str(width), "-y", str(height))

    def children(self) -> list[int]:
        """The pids of the programs that the shell runs at the moment."""
        shell = self.mode()["pane_pid"]
        text = Path(f"/proc/{shell}/task/{shell}/children").read_text()
        return [int(pid) for pid in text.split()]

    def _threads(self) -> str:
        """The state and wait channel of each thread of the terminal's programs, for the message of a failure."""
        lines: list[str] = []
        with contextlib.suppress(OSError):  # a thread may end meanwhile
            for pid in self.children():
                for task in sorted(Path(f"/proc/{pid}/task").iterdir()):
                    name, _, rest = (task / "stat").read_text().rpartition(")")
                    lines.append(f"{name}) {rest.split()[0]} {(task / 'wchan').read_text()}")
        return "\n".join(lines)

    def record(self, path: Path) -> None:
        """From now on, append every byte that programs write to the terminal to this file."""
        self.tmux("pipe-pane", "-O", f"exec cat >> '{path}'")

    def _painted(self, text: str, seen: Callable[[str], object]) -> str:
        """The screen after it stopped changing, because it is painted in pieces; ``seen`` must be true for it."""
        for _ in range(10):
            time.sleep(0.02)
            later = self.text()
            if later == text or not seen(later):
                break
            text = later
        return text

    def wait_until(self, seen: Callable[[str], object], timeout_s: float = LONG_S, what: str = "") -> str:
        """The first painted screen for which ``seen`` is true. Raises AssertionError with the last screen."""
        end = time.monotonic() + timeout_s
        while True:
            text = self.text()
            if seen(text):
                return self._painted(text, seen)
            if time.monotonic() > end:
                raise AssertionError(f"not seen within {timeout_s} s: {what or seen}\n{text}\n{self._threads()}")
            time.sleep(0.03)

    def wait_for(self, text: str, timeout_s: float = LONG_S) -> str:
        """The first screen that contains ``text``."""
        return self.wait_until(lambda screen: text in screen, timeout_s, repr(text))

    def wait_for_match(self, pattern: str, timeout_s: float = LONG_S) -> re.Match[str]:
        """The first match of a regular expression on the screen (multi-line)."""
        compiled = re.compile(pattern, re.MULTILINE)
        screen = self.wait_until(compiled.search, timeout_s, pattern)
        found = compiled.search(screen)
        assert found
        return found

    def wait_gone(self, text: str, timeout_s: float = LONG_S) -> str:
        """The first screen that does not contain ``text``."""
        return self.wait_until(lambda screen: text not in screen, timeout_s, f"gone: {text!r}")
