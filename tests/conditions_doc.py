"""Writes docs/conditions.md from the figures that conditions can use: ``python -m tests.conditions_doc [--check]``."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

from iotop_ai.model.condition.figures import FAMILIES, SHARE_NAMES, Family, fields_of
from iotop_ai.model.metric import metrics_of
from tests import metrics_doc
from tests.pages import write_or_check

PAGE = Path(__file__).resolve().parent.parent / "docs" / "conditions.md"
HEAD = """\
# Conditions

A condition is what a gate for CI or an alert asks. Written by `python -m tests.conditions_doc`.

```sh
iotop-ai diagnose run.iotop.jsonl --fail-if "data_wait > 10%"
iotop-ai diagnose run.iotop.jsonl --fail-if "gpus.*.temperature_celsius > 85 for 30s"
iotop-ai diagnose run.iotop.jsonl --fail-if "disks.nvme*.r_await > 5ms and data_disk > 20%"
iotop-ai diagnose run.iotop.jsonl --fail-if "finding failing_disk" --fail-if "finding job_died"
```

Exit code 1: a condition is met; 0: none is; 2: an answer is missing, because a figure was not recorded or the
condition is not valid (stderr has the reason). The verdict's own exit code plays no part then. `--json` has the answers
in `fail_if`.

## Grammar

```
condition  = clause { "and" clause }
clause     = figure ( ">" | ">=" | "<" | "<=" ) number [ unit ] [ "for" duration ]
           | "finding" class [ "for" duration ]
figure     = share | family "." name "." field | "memory." field | "cpu." field | "tcp." field | "clocks." field
```

In names and classes `*` stands for any text and `?` for any character; one matching object that meets the clause is
enough. A pattern that matches a disk leaves out its partitions and paths, and `disks.*` leaves out memory (ram, zram).
A number without a unit is in the field's own unit. Units: `%`; `us ms s min h d`; `B K M G T` (also `KB`, `MiB`, and
with `/s`; powers of 1,024, as in `iostat -m`); `C W MHz GHz rpm /s`. A class may also be a state (`finding STARVED`).

With `for 30s` the clause asks whether one object met it for that long without a break at some time; a gap, an unknown
value and the object's end are breaks. Without it, it asks about the whole period: a share of the job's whole time, a
finding that stood at all, the mean of any other figure (of a time per request, the mean over requests). `for 1s` finds
peaks. All this holds for `--fail-if`. In an [alert](alerts.md), a clause without `for` asks about the newest reading,
and one with `for 30s` about the last 30 s.

A clause is unknown where the figure of every object that it names is unknown, and where no object meets it but one
failed whenever it was read (a GPU, a disk's SMART, a filesystem), or was never measured (a disk whose statistics are
off). Any other object without the figure is left out: it has none (a GPU without the sensor, `r_await` of a disk
without a read), or it is memory, or a part of a disk that is listed itself.

## Figures

**Shares** of the time of the job that the verdict is about (of one job:
`jobs.PID.data_wait`, `jobs.train.py.data_wait`):
{shares}.
`data_wait` is the sum of `data_*`, `goodput` is `compute`, `lost` is all but `compute` and `unexplained`.

A family has the fields of its tables of [metrics.md](metrics.md), and those named here. Disks also have iostat's terms
(`disks.sda.r_await`). GPUs go by NVML's index, jobs by pid or script, filesystems by mount point, `cpu.busy_ratio` is
the mean of all cores.

| family | fields |
|---|---|
"""


@functools.cache
def documented() -> frozenset[type]:
    """The records that have a table in docs/metrics.md. Finding them takes a while, so it is done once."""
    return frozenset(record for record, _ in metrics_doc.records())


def fields(name: str, family: Family) -> str:
    """Links to the tables in docs/metrics.md that have a family's fields, then the fields that are in no table."""
    tables = {record.__name__: metrics_of(record) for record, _ in family.records if record in documented()}
    listed = {field for metrics in tables.values() for field in metrics}
    others = dict.fromkeys(field for field, _ in fields_of(name).values() if field not in listed)
    return ", ".join([f"[{table}](metrics.md#{table.lower()})" for table in tables] + [f"`{one}`" for one in others])


def page() -> str:
    """The whole page as Markdown."""
    rows = [
        f"| `{name}.{'' if family.alone else 'NAME.'}` | {fields(name, family)} |\n"
        for name, family in FAMILIES.items()
        if name != "jobs"
    ]
    return HEAD.replace("{shares}", ", ".join(f"`{name}`" for name in SHARE_NAMES)) + "".join(rows)


if __name__ == "__main__":
    sys.exit(write_or_check("tests.conditions_doc", PAGE, page()))
