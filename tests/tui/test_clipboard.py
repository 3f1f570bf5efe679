from __future__ import annotations

from pathlib import Path

from iotop_ai.tui.clipboard import LARGEST_BYTES, copy_text
from iotop_ai.tui.textual_internals.web_packets import web_driver_environment


def test_in_a_browser_no_file_is_written(tmp_path: Path) -> None:
    session, sent = {"TERM": "xterm-256color", **web_driver_environment(80, 24)}, list[str]()
    assert copy_text("x\n", sent.append, session, tmp_path) == "done: copied"
    assert sent == ["x\n"]
    big = "y" * (LARGEST_BYTES + 1)
    assert copy_text(big, sent.append, session, tmp_path) == "failed: too long for the clipboard"
    assert not [*tmp_path.iterdir()]
