"""Writes docs/export.md from the tables' declarations: ``python -m tests.export_doc [--check]``."""

from __future__ import annotations

import sys
from pathlib import Path

from iotop_ai.export.tidy import tables
from tests.pages import written

PAGE = Path(__file__).resolve().parent.parent / "docs" / "export.md"
HEAD = """\
# Exports and imports

```sh
iotop-ai export run.iotop.jsonl -o run.sqlite                    # all tables in one database
iotop-ai export run.iotop.jsonl --table gpus -o gpus.csv         # one table as CSV (devices without --table)
iotop-ai export run.iotop.jsonl --format parquet -o run/         # one file a table in a folder
iotop-ai export run.iotop.jsonl --begin 14:32 --end -3m | head   # CSV on standard output
iotop-ai export run.iotop.jsonl --format jsonl --table devices,gpus | jq 'select(.util > 90)'
zcat run.20261121T143205.iotop.jsonl.gz | iotop-ai export -      # - is standard input
iotop-ai import --iostat iostat.txt -o old.iotop.jsonl           # what iostat -x logged, as a recording
iotop-ai import --nvidia-smi smi.csv -o old.iotop.jsonl          # what nvidia-smi --query-gpu logged
```

**What is read.** A recording under its live name stands for the parts that it was rotated into. `--begin` and `--end`
take `14:32` (the last within the recording), `2026-11-21T14:32:05Z`, `-3m` (before the end), `+3m` (after the start)
and `45%`; a row is the same whether the export begins before it or at it. Root is refused without `--allow-root`,
because root may read files that the one who asked may not.

**What is written.** One row per interval and object; the first Snapshot of a session ends no interval and has no
rates. Times are RFC 3339 in UTC (a timestamp in Parquet). Unknown is an empty cell, NULL or null, and never 0; a mean
time over no request is unknown too. Devices carry the names and units of `iostat -x` (kB is 1024 B, shares are
percent; JSON Lines use the keys of its JSON, `util` for `%util`); everything else is snake_case with its unit at the
end, base units, ratios 0..1. Only processes that did something are listed. Command lines are the program and script
name alone unless `--cmdline redacted` or `full`; what was not recorded cannot be written.

In CSV a text that begins with `= + - @` gets a `'` before it, so that no spreadsheet takes it for a formula; numbers
are never touched, and `--raw` leaves it out. SQLite has the units in the table `columns` and what the recording is in
`recording`; Parquet has both as metadata and needs `pip install 'iotop-ai[parquet]'`. A file appears when it is
whole, and an existing one is kept unless `--force`.

**Imports.** `iostat -x` as text or `-o JSON`, of sysstat 10.1 and newer, with or without `-t -k -m -N -p -y -z`, and
`nvidia-smi --query-gpu=… --format=csv`. The recording says where it comes from (`origin`), and whatever the log does
not tell stays unknown. iostat's first report is its mean since boot and is left out; `--keep-first` takes it as an
interval, for logs of `iostat -y`. A log without times needs `--start` and `--interval`. Rates become counters with
their fractions carried on, so that the same rates come back: to half a request, half a sector and half a millisecond
an interval.

## Tables

Written by `python -m tests.export_doc`; change the declarations, not this part.
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for table in tables():
        cells = (f"`{c.name}`" + (f" {c.unit}" if c.unit and c.key else "") for c in table.columns)
        parts.append(f"\n**{table.name}**: {', '.join(cells)}.\n")
    return "".join(parts)


if __name__ == "__main__":
    sys.exit(written("tests.export_doc", PAGE, page()))
