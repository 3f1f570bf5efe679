"""Writes docs/metrics.md from the Metric of each field: ``python -m tests.metrics_doc [--check]``."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from pathlib import Path

import iotop_ai.model
from iotop_ai.model.metric import Metric, metrics_of
from tests.pages import write_or_check

PAGE = Path(__file__).resolve().parent.parent / "docs" / "metrics.md"
HEAD = """\
# Metrics

Every derived figure, as declared in `iotop_ai/model/`. Written by `python -m tests.metrics_doc`; change the
declaration, not the page.

*Field* is the name in Python and JSON, and ends in its unit; without one it is a ratio or a count. It is followed by
its name in other tools (`iostat -x`, `pidstat -d`, `nfsiostat`, `nvidia-smi`). `snapshot --json` lists devices under
iostat's names and units (kB is 1024 B, shares are percent); elsewhere ratios are 0..1 and bytes are bytes. `null` is
unknown or undefined (a mean over no requests).
"""
ENDINGS = {"1/s": "per_s", "B/s": "bytes_per_s", "B": "bytes", "s/s": "s_per_s", "W": "watts", "MHz": "mhz"}
"""For each unit, the ending of the names of fields in that unit, if the ending is not the unit itself."""
UNNAMED = ("ratio", "count")
"""The units that need not be in the name."""


def records() -> list[tuple[type, dict[str, Metric]]]:
    """Every record class of the model that declares metrics, sorted by module and line."""
    found = []
    for module in sorted(m.name for m in pkgutil.walk_packages(iotop_ai.model.__path__, "iotop_ai.model.")):
        loaded = importlib.import_module(module)
        classes = [
            value
            for value in vars(loaded).values()
            if inspect.isclass(value) and value.__module__ == loaded.__name__ and metrics_of(value)
        ]
        found += sorted(classes, key=lambda record: inspect.getsourcelines(record)[1])
    return [(record, metrics_of(record)) for record in found]


def page() -> str:
    """The whole page as Markdown."""
    parts = [HEAD]
    for record, metrics in records():
        words = " ".join((inspect.getdoc(record) or "").split("\n\n")[0].split())
        parts.append(f"\n## {record.__name__}\n\n{words}\n\n| field | meaning |\n|---|---|\n")
        for name, m in metrics.items():
            unit = "" if m.unit in UNNAMED or name.endswith(ENDINGS.get(m.unit, m.unit)) else f" ({m.unit})"
            term = f", `{m.term}`" if m.term else ""
            parts.append(f"| `{name}`{unit}{term} | {m.text} |\n")
    return "".join(parts)


if __name__ == "__main__":
    sys.exit(write_or_check("tests.metrics_doc", PAGE, page()))
