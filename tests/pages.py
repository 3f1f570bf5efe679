"""Writes pages in docs/: whole pages from declarations, and sections from measurements."""

from __future__ import annotations

import re
import sys
from pathlib import Path


def write_or_check(program: str, page: Path, text: str) -> int:
    """Write the page, or with --check print whether it is up to date. Returns the exit code."""
    if sys.argv[1:] == ["--check"]:
        fresh = page.read_text() == text
        print("fresh" if fresh else f"stale: run python -m {program}")
        return 0 if fresh else 1
    page.write_text(text)
    return 0


def put_section(page: Path, heading: str, section: str) -> None:
    """Put a section at the end of the page, in place of any earlier section with this heading."""
    kept = re.sub(rf"\n*{re.escape(heading)}\n.*?(?=\n## |\Z)", "", page.read_text(), flags=re.DOTALL)
    page.write_text(kept.rstrip("\n") + "\n\n" + section)
