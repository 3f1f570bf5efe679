"""A Frame as a block of plain text: ``iotop-ai -b`` and ``iotop-ai snapshot``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from iotop_ai.export.field_names import IOSTAT_COLUMNS, Term, device_terms, terms_of
from iotop_ai.export.selection import command_words, device_info, device_rates, process_rows
from iotop_ai.export.text.machine import filesystem_lines, footnote_lines, smart_lines, system_lines
from iotop_ai.export.text.table import UNDEFINED, UNKNOWN, field, number, table
from iotop_ai.export.text.verdict import verdict_lines
from iotop_ai.model.block.counters import BlockRates
from iotop_ai.model.frame import Frame
from iotop_ai.model.process.records import ProcessKey, ProcessRates
from iotop_ai.model.sample import between
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.present.health.summary import health

PROCESS_ROWS = 20
_PROCESS_TERMS = ("kB_rd/s", "kB_wr/s", "kB_ccwr/s")
_SHARE_LIMIT = 100.0
"""The highest percentage that is shown. The kernel counts busy time in jiffies, so a short interval may
appear more than 100 % busy."""
_REQUESTS = {
    "read": "reads_per_s",
    "write": "writes_per_s",
    "discard": "discards_per_s",
    "flush": "flushes_per_s",
}
"""The field with the rate of each kind of request, by the first word of that kind's fields. If the rate is 0, the
kind's mean time, mean size and merged share are undefined, not unknown."""


class Block(NamedTuple):
    """What a block of text contains.

    devices: only these kernel names; () for all whole devices, as in ``device_rates``. base: if given, sums since this
    Snapshot are shown instead of rates. rows: the most processes to list; None for all. smart: whether to add tables of
    SMART and filesystems. cmdline: how much of each command is shown, as in Settings. only_active, sort, reverse: as in
    ``device_rates`` and ``process_rows``. timestamps: whether each line begins with the local time.
    """

    devices: tuple[str, ...] = ()
    only_active: bool = False
    timestamps: bool = False
    base: Snapshot | None = None
    rows: int | None = PROCESS_ROWS
    smart: bool = False
    cmdline: str = "names"
    sort: str = "io"
    reverse: bool = False


def render_block(frame: Frame, block: Block) -> str:
    """The block as plain text, with an empty line after each part."""
    lines = [*verdict_lines(frame), ""]
    if block.base is not None:
        frame = frame._replace(sample=between(block.base, frame.snapshot, None))
    parts: Iterable[list[str]] = (
        device_lines(frame, block),
        gpu_lines(frame),
        process_lines(frame, block),
        smart_lines(frame, block.devices) if block.smart else [],
        filesystem_lines(frame) if block.smart else [],
        [*system_lines(frame), *footnote_lines(frame)],
    )
    for part in parts:
        if part:
            lines += [*part, ""]
    if block.timestamps:
        stamp = local_time(frame.snapshot.wall_ns)
        lines = [f"{stamp} {line}" if line else "" for line in lines]
    return "\n".join(lines) + "\n"


def local_time(wall_ns: int) -> str:
    """The local time with its offset from UTC, such as "2026-11-21T09:46:02+01:00"."""
    return datetime.fromtimestamp(wall_ns // 1_000_000_000).astimezone().isoformat()


def _title(title: str, seconds: float | None) -> str:
    """The title of a column, without "/s" if the column shows sums. seconds: as in ``device_cell``."""
    return title if seconds is None else title.removesuffix("/s")


def device_lines(frame: Frame, block: Block) -> list[str]:
    """The devices with the columns of ``iostat -x``, then health and mounts; [] without a device."""
    rows = device_rates(frame, block.devices, block.only_active)
    if not rows:
        return []
    terms = [device_terms()[name] for name in IOSTAT_COLUMNS]
    seconds = frame.sample.block.seconds if block.base is not None else None
    titles = ["Device", *(_title(term.title, seconds) for term in terms), "health", "mounted"]
    out = []
    for key, rates in rows:
        info = device_info(frame.snapshot, key.name)
        mounts = () if info is None else info.mounts
        out.append(
            [
                key.name,
                *(device_cell(term, rates, seconds) for term in terms),
                health(frame, key.name).word.replace(" ", ""),
                field(",".join(mount.path for mount in mounts)),
            ]
        )
    return table(titles, out, [12, *(8 for _ in terms)])


def device_cell(term: Term, rates: BlockRates, seconds: float | None = None) -> str:
    """The text of one figure; "-" for a mean or share over no requests, "?" when unknown.

    seconds: show the sum over this time instead of a rate; None shows the rate.
    """
    value = term.of(rates)
    if value is None:
        requests = _REQUESTS.get(term.field.split("_")[0])
        return UNDEFINED if requests and getattr(rates, requests) == 0 else UNKNOWN
    if seconds is not None and term.metric.unit.endswith("/s"):
        value *= seconds
    if term.metric.unit == "ratio":
        value = min(value, _SHARE_LIMIT)
    return number(value)


def gpu_lines(frame: Frame) -> list[str]:
    """A row per GPU with nvidia-smi's terms; a GPU that does not answer shows the reason. [] without a GPU."""
    readings = frame.snapshot.gpu.value
    if not readings:
        return []
    rates = frame.sample.gpu.value or {}
    mib = 1 << 20
    out = []
    for uuid, reading in readings.items():
        state, rate = reading.value, rates.get(uuid)
        if state is None or rate is None:
            reason = reading.reason or reading.status.value
            out.append([field(uuid), *[UNKNOWN] * 8, reason])
            continue
        cells = (
            (rate.busy_ratio, 100.0),
            (rate.memory_busy_ratio, 100.0),
            (rate.memory_used_bytes, 1 / mib),
            (rate.memory_total_bytes, 1 / mib),
            (rate.temperature_celsius, 1.0),
            (rate.power_watts, 1.0),
            (rate.power_limit_watts, 1.0),
            (rate.sm_mhz, 1.0),
        )
        figures = [number(None if value is None else value * scale, 0) for value, scale in cells]
        out.append([str(state.number), *figures, state.name])
    titles = ["GPU", "%GPU-Util", "%mem-Util", "MiB-used", "MiB-total", "temp-C", "W", "W-limit", "MHz", "name"]
    return table(titles, out, [12])


def process_lines(frame: Frame, block: Block) -> list[str]:
    """A row per process with pidstat's terms.

    ``*`` marks figures that do not cover all threads; ``+`` marks bytes that may include those of a child.
    """
    rows = process_rows(frame, block.only_active, block.sort, block.reverse)
    rows = [row for row in rows if _has_figures(row[1])]
    if not rows:
        return []
    seconds = frame.sample.processes.seconds if block.base is not None else None
    terms = terms_of(ProcessRates)
    titles = ["PID", "USER", *(_title(name, seconds) for name in _PROCESS_TERMS), "%IO", "%CPU", "S", "THR", "COMMAND"]
    shown_rows = rows if block.rows is None else rows[: block.rows]
    out = [_process_row(frame, key, rates, terms, seconds, block.cmdline) for key, rates in shown_rows]
    lines = table(titles, out, [7, 8, 9, 9, 9, 6, 6])
    if len(shown_rows) < len(rows):
        lines.append(f"{len(rows) - len(shown_rows)} more")
    return lines


def _has_figures(rates: ProcessRates) -> bool:
    """Whether any figure is known and not 0, or CPU or reads are known. The first ten fields are the figures."""
    return any(rates[:10]) or rates.cpu_ratio is not None or rates.read_bytes_per_s is not None


def _process_row(
    frame: Frame, key: ProcessKey, rates: ProcessRates, terms: dict[str, Term], seconds: float | None, cmdline: str
) -> Sequence[str]:
    processes = frame.snapshot.processes.value
    assert processes is not None  # without processes, process_rows lists no process
    info, stat = processes.info[key], processes.stat.get(key)
    rate_cells = []
    for name in _PROCESS_TERMS:
        value = terms[name].of(rates)
        if value is not None and seconds is not None:
            # If the monitor reads only some processes each time, every process has its own interval.
            value *= seconds if rates.io_s is None else rates.io_s
        rate_cells.append(number(value) + ("+" if rates.incl_children and value else ""))
    if rates.io_delay_ratio is None:
        delay = "off" if processes.delayacct is False else UNKNOWN
    else:
        delay = number(rates.io_delay_ratio * 100) + ("*" if rates.main_thread_only or rates.threads_looked else "")
    return (
        str(key.pid),
        field(info.user),
        *rate_cells,
        delay,
        number(None if rates.cpu_ratio is None else rates.cpu_ratio * 100),
        UNKNOWN if stat is None else stat.state,
        UNKNOWN if stat is None else str(stat.threads),
        command_words(info, cmdline),
    )
