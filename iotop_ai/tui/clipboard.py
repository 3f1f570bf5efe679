"""Copies text to the user's clipboard, by OSC 52 or by tmux, and to a file.

The file is needed because a terminal does not report whether it accepted OSC 52. In a browser, no file is written,
because the user may not have access to files of the server. Sources: xterm's ctlseqs, "OSC 52";
tmux(1), load-buffer -w.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from iotop_ai.collectors.io.programs import find_user_program
from iotop_ai.collectors.io.spawn import run
from iotop_ai.collectors.io.trust import in_browser
from iotop_ai.collectors.state.folder import keep_file, state_folder

FILE = "copied.txt"
LARGEST_BYTES = 74_000
"""The largest text that is copied. Common terminals accept this much by OSC 52."""
_TERMS_WITHOUT_OSC52 = ("linux", "vt100", "vt102", "vt220", "vt320", "dumb")
_TMUX_S = 2.0
"""The longest time in seconds that tmux may take."""


def copy_text(
    text: str, osc52: Callable[[str], None], environ: Mapping[str, str] = os.environ, folder: Path | None = None
) -> str:
    """Copy the text, and return the answer for the user, which begins with "done: " or "failed: ".

    It may block, so do not call it on the UI's thread. osc52: sends the text to the terminal by OSC 52.
    folder: where the file is written; None for the state folder.
    """
    browser = in_browser(environ)
    path = None if browser else _write_file(text, folder or state_folder())
    sent = _send(text, osc52, environ)
    if sent:
        return f"done: copied{f', also in {path}' if path else ''}"
    if path:
        return f"done: the text is in {path} ({_why_not_copied(text)})"
    return f"failed: {_why_not_copied(text)}{'' if browser else ', and the state folder cannot be written to'}"


def _send(text: str, osc52: Callable[[str], None], environ: Mapping[str, str]) -> bool:
    """Send the text to the clipboard by tmux or by OSC 52; returns whether it was sent."""
    if len(text.encode()) > LARGEST_BYTES:
        return False
    if environ.get("TMUX") and _send_by_tmux(text):
        return True
    if environ.get("TERM", "") in _TERMS_WITHOUT_OSC52:
        return False
    osc52(text)
    return True


def _why_not_copied(text: str) -> str:
    return "too long for the clipboard" if len(text.encode()) > LARGEST_BYTES else "no clipboard in this terminal"


def _send_by_tmux(text: str) -> bool:
    """Load the text into tmux's buffer and, by -w, into the terminal's clipboard; returns whether that worked."""
    program = find_user_program("tmux")
    if not program:
        return False
    try:
        result = run(
            [program, "load-buffer", "-w", "-"],
            input_bytes=text.encode(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_TMUX_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return result.returncode == 0


def _write_file(text: str, folder: Path) -> Path | None:
    """Write the text into a file that only the user can read; returns its path, or None if it could not be written."""
    try:
        keep_file(folder, FILE, text.encode())
    except OSError:
        return None
    return folder / FILE
