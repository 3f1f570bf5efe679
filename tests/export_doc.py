"""Writes docs/export.md from the tables' declarations: ``python -m tests.export_doc [--check]``."""

from __future__ import annotations

import sys
from pathlib import Path

from iotop_ai.export.tables.frames import tables
from tests.pages import write_or_check

PAGE = Path(__file__).resolve().parent.parent / "docs" / "export.md"
HEAD = """\
# Exports and imports

```sh
iotop-ai export run.iotop.jsonl -o run.sqlite                    # all tables in one database
iotop-ai export run.iotop.jsonl --table gpus -o gpus.csv         # one table as CSV (devices without --table)
iotop-ai export run.iotop.jsonl --format parquet -o run/         # one file a table in a folder
iotop-ai export run.iotop.jsonl --begin 14:32 --end -3m | head   # CSV on standard output
iotop-ai export run.iotop.jsonl --format jsonl --table devices,gpus | jq 'select(.util > 90 or .busy_ratio > 0.9)'
zcat run.20261121T143205.iotop.jsonl.gz | iotop-ai export -      # - is standard input
iotop-ai import --iostat iostat.txt -o old.iotop.jsonl           # what iostat -xt logged, as a recording
iotop-ai import --nvidia-smi smi.csv -o old.iotop.jsonl          # what nvidia-smi --query-gpu logged
```

**Input.** A recording under its live name stands for all parts that it was rotated into. `--begin` and `--end` take
`14:32` (the last within the recording), `2026-11-21T14:32:05Z`, `-3m` (before the end), `+3m` (after the start),
`45%`, `start` and `end`. Root reads only files (logs, too) of root and, under sudo, of the user who called
it, that no one else can write to, and follows no link; other files need `--allow-root`, because another user could have
placed them.

**Output.** One row per interval and object; the first Snapshot of a session ends no interval and has no rates. Times
are RFC 3339 in UTC (a timestamp in Parquet). Unknown is an empty cell, NULL or null, never 0; a mean over no requests
is unknown, too. Devices have the names and units of `iostat -x` (kB is 1024 B, shares are percent; JSON Lines use the
keys of its JSON, `util` for `%util`); other names are snake_case and end in their unit: base units, ratios 0..1. Only
active processes are listed. `--cmdline` selects names (the default), redacted (`***` in place of passwords, tokens,
keys, logins in URLs, random text) or full command lines, if they were recorded.

In CSV a text that begins with `= + - @` gets a leading `'`, so that no spreadsheet runs it as a formula; `--raw` turns
that off. SQLite has the units in the table `columns` and the recording's origin in `recording`; Parquet has both as
metadata and needs `pip install 'iotop-ai[parquet]'`. A file appears when it is complete; an existing one is kept unless
`--force`.

**Imports.** `iostat -x` as text or `-o JSON`, of sysstat 10.1 and newer, with or without `-t -k -m -N -p -y -z`, and
`nvidia-smi --query-gpu=… --format=csv`. The recording names its source (`origin`); what the log lacks stays unknown.
An incomplete last report or row is left out, and so are the lines in which nvidia-smi reports an error.
iostat's first report (the mean since boot) is left out; `--keep-first` takes it, for logs of `iostat -y`. A log without
times needs `--interval`; its end is the time of its file, unless `--start` says when it begins. So does a log whose
times name the month or use another calendar; `S_TIME_FORMAT=ISO iostat -xt` writes times that can be read. Rates become
counters and come back the same, to half a request, half a sector and half a millisecond per interval.

## Tables

Written by `python -m tests.export_doc`; change the declarations, not this part.
"""


def page() -> str:
    """The whole page as Markdown."""
    listed = (f"\n**{table.name}**: {', '.join(f'`{c.name}`' for c in table.columns)}.\n" for table in tables())
    return "".join([HEAD, *listed])


if __name__ == "__main__":
    sys.exit(write_or_check("tests.export_doc", PAGE, page()))
