"""Writes pages of docs/: whole pages from declarations, sections from measurements."""

from __future__ import annotations

import re
import sys
from pathlib import Path


def written(program: str, page: Path, text: str) -> int:
    """Write the page, or with --check print whether it is fresh; returns the exit code."""
    if sys.argv[1:] == ["--check"]:
        fresh = page.read_text() == text
        print("fresh" if fresh else f"stale: run python -m {program}")
        return 0 if fresh else 1
    page.write_text(text)
    return 0


def put_section(page: Path, heading: str, section: str) -> None:
    """Put a section at the page's end; it replaces an earlier section of the same heading."""
    kept = re.sub(rf"\n*{re.escape(heading)}\n.*?(?=\n## |\Z)", "", page.read_text(), flags=re.DOTALL)
    page.write_text(kept.rstrip("\n") + "\n\n" + section)
