"""Parts of sentences made from a finding's figures, and the clauses that say why a class is ruled out."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from iotop_ai.model.finding import RuledOut
from iotop_ai.present.text import units
from iotop_ai.present.text.line import Span, plain

Value = str | float | None
Args = Mapping[str, Value]
"""The arguments of a finding, a piece of advice or a ruled-out class, by name."""


def number(args: Args, name: str) -> float | None:
    """The numeric argument of this name; None when it is missing, unknown or text."""
    value = args.get(name)
    return None if value is None or isinstance(value, str) else float(value)


def word(args: Args, name: str) -> str:
    """The text argument of this name; "" when it is missing, unknown or a number."""
    value = args.get(name)
    return plain(value) if isinstance(value, str) else ""


def whole(args: Args, name: str) -> str:
    """The numeric argument of this name as a whole number; "?" when unknown."""
    value = number(args, name)
    return units.UNKNOWN if value is None else f"{value:.0f}"


def percent(args: Args, name: str) -> str:
    """The ratio of this name as "78 %"; "? %" when unknown."""
    return f"{units.percent(number(args, name))} %"


def rate(bytes_per_s: float | None) -> str:
    """A rate as a sentence shows it: "92 MB/s", "1.7 GB/s". Below 10 it keeps a decimal, as beside the graph: "6.0
    MB/s".
    """
    figure, unit = units.rate(bytes_per_s)
    return f"{_short(figure) if len(figure) > 3 else figure} {unit}"


def amount(args: Args, name: str) -> str:
    """The number of bytes of this name as a sentence shows it: "1.3 TB", "128 KB"."""
    return units.amount(number(args, name))


def milliseconds(value: float | None) -> str:
    """A latency without its unit: "87", "0.9", "12". 0 becomes "<0.1", because the kernel counts whole milliseconds."""
    if value == 0:
        return "<0.1"
    if value is not None and 0 < value < 0.95:
        return f"{value:.2g}"
    return _short(units.figure(value))


def latency(a: Args) -> list[Span]:
    """The await of the finding's device, with its typical value: "87 ms (typical ≤ 0.9)"."""
    figure, typical = milliseconds(number(a, "await_ms")), milliseconds(number(a, "normal_ms"))
    return [Span(f"{figure} ms", "strong"), Span(f" (typical ≤ {typical})")]


def _short(figure: str) -> str:
    """The figure without its decimal if it is at least 10 or if the decimal is 0: "92" for "92.0", "1" for "1.0"."""
    head, dot, tail = figure.partition(".")
    if dot and head.isdigit() and tail.isdigit() and (len(head) > 1 or tail == "0"):
        return f"{float(figure):.0f}"
    return figure


def core_count(a: Args) -> str:
    """The argument ``cores`` as text: "8", or "2.5" for a CPU quota; "?" when unknown."""
    return units.figure(number(a, "cores")).removesuffix(".0")


def idle_cores(a: Args) -> str:
    """The number of idle cores in the finding: "0.7 of 2 cores idle"."""
    idle = number(a, "idle") if number(a, "idle_cores") is None else number(a, "idle_cores")
    figure = units.figure(idle).removesuffix(".0")
    return f"{figure} of {core_count(a)} cores idle"


def limit_text(a: Args) -> str:
    """A cgroup's I/O limit: "10 MB/s", "300 reads/s", "10 MB/s of writes", "300 writes/s"."""
    writes = word(a, "what").startswith("write")
    if word(a, "what").endswith("bytes"):
        return rate(number(a, "limit")) + (" of writes" if writes else "")
    return f"{whole(a, 'limit')} {'writes' if writes else 'reads'}/s"


def _but_unknown(a: Args) -> str:
    """The clause about disks whose I/O is unknown: ", but 2 are unknown"; "" if there are none."""
    unknown = number(a, "unknown") or 0
    return f", but {unknown:.0f} {'is' if unknown == 1 else 'are'} unknown" if unknown else ""


_WHY: dict[str, Callable[[Args], str]] = {
    "disks_idle": lambda a: f"no disk was active{_but_unknown(a)}",
    "disks_calm": lambda a: f"{word(a, 'device')} answers in {''.join(span.text for span in latency(a))}",
    "no_process_waits": lambda a: f"{word(a, 'device')} is slow, but no process is blocked by it",
    "no_process_computes": lambda a: "no process of the job computes",
    "cpu_low": lambda a: f"{word(a, 'task')} runs {percent(a, 'cpu')}",
    "no_gpu": lambda a: "no GPU",
    "gpu_low": lambda a: f"GPU {percent(a, 'busy')} busy",
    "workers_blocked": lambda a: f"workers are blocked {percent(a, 'share')} of the wait",
    "workers_run": lambda a: f"workers compute in {percent(a, 'share')} of the wait",
    "no_limit": lambda a: "its cgroup limits no I/O",
    "path_local": lambda a: f"{word(a, 'mount')} is local",
    "no_wait": lambda a: (
        f"trainer waits for data {percent(a, 'stall')}" if number(a, "stall") else "trainer never waits for data"
    ),
    "clocks_free": lambda a: (
        f"its clocks are held back {percent(a, 'share')} of the time"
        if number(a, "share")
        else "neither heat nor the power brake holds its clocks back"
    ),
    "gpus_draw": lambda a: f"the GPUs draw {percent(a, 'power')} of their limit",
    "smart_fine": lambda a: (
        f"SMART of {whole(a, 'disks')} disk{'' if number(a, 'disks') == 1 else 's'} is not critical"
    ),
}
"""The functions that make the clause, by the template id of the reason."""


def why_text(ruled_out: RuledOut) -> str:
    """Why the class is ruled out, as one clause."""
    return _WHY[ruled_out.template](dict(ruled_out.args))


def why_templates() -> tuple[str, ...]:
    """The template ids of all reasons for which a class can be ruled out."""
    return tuple(_WHY)
