"""The machine and its verdict in one short line, for a status bar or a prompt, and the fields of that line by name."""

from __future__ import annotations

from iotop_ai.lazy.regex import pattern
from iotop_ai.model.errors import UsageError
from iotop_ai.model.frame import Frame
from iotop_ai.model.verdict_class import LOUD
from iotop_ai.present.block import devices
from iotop_ai.present.block.table import await_text
from iotop_ai.present.job.current import current_job
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.line import plain
from iotop_ai.present.text.states import HUE
from iotop_ai.present.text.units import brief, clock, percent, rate
from iotop_ai.present.verdict import headline
from iotop_ai.present.verdict.class_names import class_name
from iotop_ai.present.verdict.headline import text_of

FIELD_MEANINGS = {
    "state": "STARVED, BLOCKED, SLOWED, FAILING, WASTED, STARTING, OK, CALM, BUSY or UNSURE; before 10 s: measuring",
    "lost": "time that the job loses, 78%",
    "cause": "what the state is about, slow disk; empty for STARTING, OK, CALM and UNSURE",
    "headline": "the verdict's sentence",
    "because": "the cause with figures",
    "do": "the advice",
    "job": "the job's script",
    "disk": "the disk that the verdict names, else the busiest",
    "read": "92 MB/s",
    "write": "3.1 MB/s",
    "await": "ms of its reads, or of its writes where it does not read: 87 ms",
    "util": "100%",
    "gpu": "mean busy of all GPUs, 22%",
    "gpus": 'the number of GPUs that "gpu" is the mean of, 4',
    "cpu": "all cores, 45%",
    "mem": "memory in use, 31%",
    "host": "the machine's name",
    "time": "14:32:05",
    "colour": "of the state: red, yellow, green, cyan, magenta or default; for tmux #[fg={colour}]",
}
"""The fields of --format and their meanings. An unknown value is "?"; a value that does not apply is ""."""
MEASURING = "measuring"
NO_STATE = {
    "state": "?",
    "lost": "",
    "cause": "",
    "headline": "?",
    "because": "",
    "do": "",
    "job": "?",
    "colour": "default",
}
"""The verdict's fields when the requested job is not found."""
_COLOURS = {"bad": "red", "warn": "yellow", "ok": "green", "info": "cyan", "unsure": "magenta"}
_TMUX_FORMAT = pattern(r"#(?! )")
_FIELD = pattern(r"\{\{|\}\}|\{(\w*)\}|[{}]")


def status_fields(frame: Frame, view: View = View()) -> dict[str, str]:  # noqa: B008 - a frozen record
    """The value of each field of FIELD_MEANINGS. tmux would interpret a format such as #{pane_id} or #S in a name
    from outside, so a blank after each # makes it plain text.
    """
    return {name: _TMUX_FORMAT.sub("# ", value) for name, value in _fields(frame, view).items()}


def _fields(frame: Frame, view: View) -> dict[str, str]:
    verdict, snapshot = frame.verdict, frame.snapshot
    job = current_job(frame)
    lost = verdict.primary.lost_ratio
    known = not verdict.measuring or bool(lost)
    memory, cpu = snapshot.memory.value, frame.sample.cpu.value
    busy = [gpu.busy_ratio for gpu in (frame.sample.gpu.value or {}).values() if gpu.busy_ratio is not None]
    memory_ratio = None
    if memory is not None and memory.total_bytes and memory.available_bytes is not None:
        memory_ratio = 1 - memory.available_bytes / memory.total_bytes
    return {
        "state": verdict.state.value if known else MEASURING,
        "lost": f"{percent(lost)}%" if lost else "",
        "cause": class_name(verdict.primary.class_id, verdict.state) if known and verdict.state in LOUD else "",
        "headline": text_of(headline.headline(verdict)),
        "because": text_of(headline.because(verdict)),
        "do": text_of(headline.advice(verdict)),
        "job": plain(job.name) if job is not None else "",
        **_disk(frame, view),
        "gpu": f"{percent(sum(busy) / len(busy))}%" if busy else "?" if snapshot.gpu.value else "",
        "gpus": str(len(busy)) if busy else "",
        "cpu": f"{percent(None if cpu is None else cpu.all.busy_ratio)}%",
        "mem": f"{percent(memory_ratio)}%",
        "host": plain(snapshot.host.name),
        "time": clock(snapshot.wall_ns, view.utc_offset_s),
        "colour": _COLOURS.get(HUE[verdict.state], "default") if known else "default",
    }


def _disk(frame: Frame, view: View) -> dict[str, str]:
    device = devices.selected_device(frame, view)
    if device is None:
        return dict.fromkeys(("disk", "read", "write", "await", "util"), "")
    rates = device.rates
    reads = bool(rates.reads_per_s)
    await_ms, per_s = (rates.read_await_ms, rates.reads_per_s) if reads else (rates.write_await_ms, rates.writes_per_s)
    busy_ratio = rates.busy_ratio and min(rates.busy_ratio, 1.0)  # a short interval may have more busy time than length
    idle = rates.reads_per_s == 0 and rates.writes_per_s == 0
    latency = await_text(0.0, per_s) if await_ms == 0 else brief(await_ms)
    return {
        "disk": devices.short_name(device),
        "read": " ".join(rate(rates.read_bytes_per_s)),
        "write": " ".join(rate(rates.write_bytes_per_s)),
        "await": "" if await_ms is None and idle else f"{latency} ms",
        "util": f"{percent(busy_ratio)}%",
    }


def default_line(fields: dict[str, str]) -> str:
    """The line without --format: "STARVED 78% slow disk | sda 92.0 MB/s 87 ms 100% | 8 GPUs 22% | CPU 45% MEM 31%"."""
    words = (fields["state"], fields["lost"], fields["cause"])
    state = "" if fields["state"] == "?" else " ".join(filter(None, words))
    throughput = fields["read"] if not fields["read"].startswith("0 ") else fields["write"]
    disk = (
        " ".join(filter(None, (fields["disk"], throughput, fields["await"], fields["util"]))) if fields["disk"] else ""
    )
    gpus = f"{fields['gpus']} GPUs" if fields["gpus"] not in ("", "1") else "GPU"
    gpu = f"{gpus} {fields['gpu']}" if fields["gpu"] else ""
    return " | ".join(filter(None, (state, disk, gpu, f"CPU {fields['cpu']} MEM {fields['mem']}")))


def check_format(text: str) -> str:
    """The format, unchanged. Raises UsageError for an unknown field and for a single brace."""
    for match in _FIELD.finditer(text):
        if match[0] in ("{", "}"):
            raise UsageError(f"--format {text!r}: a single {match[0]}; write it twice")
        if match[1] is not None and match[1] not in FIELD_MEANINGS:
            raise UsageError(f"--format: no field {{{match[1]}}}; fields: {', '.join(FIELD_MEANINGS)}")
    return text


def fill_format(text: str, fields: dict[str, str]) -> str:
    """The format with its fields filled in; {{ and }} become single braces."""
    return _FIELD.sub(lambda match: match[0][0] if match[1] is None else fields[match[1]], text)
