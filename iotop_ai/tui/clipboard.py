"""Copying text to the user's clipboard: by OSC 52, by tmux where that stands between, and always into a file too.

No terminal says whether it took OSC 52, so that the file is what can be relied on. Sources: xterm's ctlseqs, "OSC 52";
tmux(1), load-buffer -w.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from iotop_ai.collectors.state_folder import keep_file, state_folder

FILE = "copied.txt"
LARGEST = 74_000
"""Bytes that terminals take by OSC 52."""
_WITHOUT = ("linux", "vt100", "vt102", "vt220", "vt320", "dumb")
_TMUX_S = 2.0


def copied(
    text: str, osc52: Callable[[str], None], environ: Mapping[str, str] = os.environ, folder: Path | None = None
) -> str:
    """Copy and say what came of it. osc52: writes the sequence to the terminal. May take a moment: not on its thread.

    The answer begins with "done: " or "failed: ".
    """
    path = _kept(text, folder or state_folder())
    sent = _send(text, osc52, environ)
    if sent:
        return f"done: copied{f', also in {path}' if path else ''}"
    if path:
        return f"done: no clipboard in this terminal: it is in {path}"
    return "failed: no clipboard in this terminal, and the state folder cannot be written"


def _send(text: str, osc52: Callable[[str], None], environ: Mapping[str, str]) -> bool:
    if len(text.encode()) > LARGEST:
        return False
    if environ.get("TMUX") and _by_tmux(text):
        return True
    if environ.get("TERM", "") in _WITHOUT:
        return False
    osc52(text)
    return True


def _by_tmux(text: str) -> bool:
    """Into tmux's own buffer, from which it also sets the terminal's clipboard; whether it did."""
    program = shutil.which("tmux")
    if program is None:
        return False
    try:
        done = subprocess.run(
            [program, "load-buffer", "-w", "-"],
            input=text.encode(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_TMUX_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _kept(text: str, folder: Path) -> Path | None:
    """Where the text was written, private to its owner; None where it cannot be."""
    try:
        keep_file(folder, FILE, text.encode())
    except OSError:
        return None
    return folder / FILE
