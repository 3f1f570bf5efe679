"""Record iotop-ai.cast of this folder: ``python screenshots/cast.py`` (needs tmux and asciinema 2 in the PATH).

A recording of a real job is replayed in a real terminal while keys are pressed: the verdict appears, its reasons are
opened, the disk is picked from the list, and the main screen returns. The cast must hold nothing of the machine on
which it was made. A cast in which the machine's name or one of its paths occurs is not kept.
"""

from __future__ import annotations

import argparse
import json
import shlex
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from tests.rigs.tmux import Terminal  # noqa: E402

WIDTH, HEIGHT = 80, 24
CAST = HERE / "iotop-ai.cast"
RECORDING = HERE.parent / "tests" / "data" / "verdicts" / "storage_read_torch.iotop.jsonl.gz"
TITLE = "iotop-ai: why is my training slow?"
WAIT_S = 60.0


class Step(NamedTuple):
    """Keys by tmux's names, the text to wait for after them, and the seconds for which it stays on the screen."""

    keys: tuple[str, ...]
    awaited_text: str
    show_s: float


STEPS = (
    Step((), "REPLAY paused", 1.5),
    Step(("Space", "+"), "STARVED  ", 5.0),
    Step(("Space",), "REPLAY paused", 1.0),
    Step(("Enter",), "why storage_read", 4.5),
    Step(("PageDown",), "last hour", 3.0),
    Step(("Escape",), "Enter:why", 1.0),
    Step(("d",), "── devices", 1.5),
    Step(("l", "o", "o"), "> loo", 1.0),
    Step(("Enter",), "disk pinned", 1.0),
    Step(("Tab", "Tab", "Tab", "Tab"), "Enter:open loop0", 1.0),
    Step(("Enter",), "because  a read took", 5.0),
    Step(("Escape",), "Enter:open loop0", 1.0),
    Step(("Space",), "REPLAY 2x", 3.0),
)


def record(asciinema: str, recording: Path, out: Path, folder: Path) -> None:
    """Press the keys of STEPS in a terminal whose output asciinema writes to ``out``."""
    environment = {
        "PYTHONPATH": str(HERE.parent),
        "XDG_STATE_HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder),
        "ASCIINEMA_CONFIG_HOME": str(folder),
    }
    program = shlex.join([sys.executable, "-m", "iotop_ai", "replay", "--allow-root", str(recording)])
    with Terminal(WIDTH, HEIGHT, environment) as terminal:
        terminal.type(shlex.join([asciinema, "rec", "-q", "--overwrite", "-c", program, str(out)]) + "\n")
        for step in STEPS:
            for key in step.keys:
                terminal.keys(key)
                time.sleep(0.25)
            terminal.wait_until(lambda text, awaited=step.awaited_text: awaited in text, WAIT_S, what=step.awaited_text)
            time.sleep(step.show_s)
        terminal.keys("q")
        terminal.wait_until(lambda _: not terminal.children(), WAIT_S, what="the end")


def cleaned(text: str) -> str:
    """Return the cast without the time, the command and the shell, which describe this machine.

    Times that are rounded to milliseconds, and characters without escapes, make the cast a third smaller.
    """
    header, *events = (json.loads(line) for line in text.splitlines())
    new_header = {"version": 2, "width": header["width"], "height": header["height"], "title": TITLE}
    lines = [new_header, *([round(at, 3), kind, data] for at, kind, data in events)]
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def main() -> int:
    """Record the cast; keep it, or return 1 if it names this machine or its paths."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--asciinema", default="asciinema", help="the program that records")
    parser.add_argument("--recording", type=Path, default=RECORDING, help="what is replayed")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cast = Path(folder) / "new.cast"
        record(args.asciinema, args.recording.resolve(), cast, Path(folder))
        text = cleaned(cast.read_text(encoding="utf-8"))
    found = [word for word in (socket.gethostname(), str(HERE.parent), tempfile.gettempdir()) if word in text]
    if found:
        sys.stderr.write(f"not kept: it holds {', '.join(found)}\n")
        return 1
    CAST.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{CAST}: {len(text) // 1024} KiB\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
