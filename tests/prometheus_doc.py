"""Writes the table of docs/prometheus.md from the exporter's families: ``python -m tests.prometheus_doc [--check]``."""

from __future__ import annotations

import sys
from pathlib import Path

from iotop_ai.export.prometheus.exposition import SUFFIX, every_family
from iotop_ai.pipeline import unjudged_frame
from tests.bench.server import Server
from tests.pages import write_or_check

PAGE = Path(__file__).resolve().parent.parent / "docs" / "prometheus.md"
HEADING = "## Metrics\n"


def page() -> str:
    """The page with its table newly written."""
    rows = [
        f"| `{one.name}{SUFFIX.get(one.kind, '')}` | {one.kind} | {one.text} |\n"
        for one in every_family(unjudged_frame(Server("idle").snapshot()))
    ]
    head = PAGE.read_text().partition(HEADING)[0]
    note = "\nWritten by `python -m tests.prometheus_doc` from the declarations in `iotop_ai/model/`.\n"
    return f"{head}{HEADING}{note}\n| name | type | meaning |\n|---|---|---|\n{''.join(rows)}"


if __name__ == "__main__":
    sys.exit(write_or_check("tests.prometheus_doc", PAGE, page()))
