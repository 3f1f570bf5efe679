"""Each promise of docs/security.md names tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]


def test_each_promise_has_its_tests() -> None:
    rows = [row for row in (TOP / "docs" / "security.md").read_text().splitlines() if row.startswith("| ")]
    promises = [row for row in rows if not row.startswith("| boundary ")]
    assert len(promises) > 15
    for row in promises:
        named = re.findall(r"tests/[\w/]+\.py(?:::\w+)?", row.split("|")[3])
        assert named, row
        for name in named:
            path, _, function = name.partition("::")
            tree = ast.parse((TOP / path).read_text())
            tests = {n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}
            assert function in tests if function else any(test.startswith("test_") for test in tests), name
