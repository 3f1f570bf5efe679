"""A finding's evidence in words: each metric, its value, its threshold, and whether the threshold is met."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.finding import Evidence, Finding
from iotop_ai.model.verdict_class import CLASS_SPECS, State
from iotop_ai.present.text import units
from iotop_ai.present.verdict.advice import milliseconds, rate

MET, UNMET, UNKNOWN, PLAIN = "met", "unmet", "unknown", "plain"
"""The standing of a piece of evidence: threshold met, threshold not met, value unknown, or neither for nor against the
finding, for example because there is no threshold.
"""

_WORDS = {
    "stall_ratio": "time without data",
    "long_stall_ratio": "time without data, over 60 s",
    "waits_in_disk_ratio": "of the wait: workers blocked",
    "waits_in_running_ratio": "of the wait: workers computing",
    "waits_in_sockets_ratio": "of the wait: workers in sockets",
    "late_ranks_wait_ratio": "late ranks without data",
    "other_ranks_wait_ratio": "other ranks without data",
    "worker_idle_ratio": "workers idle",
    "worker_cpu_ratio": "workers on a CPU",
    "worker_cpu_wait_ratio": "workers waiting for a core",
    "main_disk_ratio": "trainer blocked by a disk",
    "ticks_saving": "samples in which it saves",
    "main_running_ratio": "trainer computing",
    "blocked_ratio": "blocked",
    "blocked_tasks": "tasks blocked at once",
    "read_await_ms": "time of a read",
    "await_ms": "time of a request",
    "read_size_bytes": "mean read",
    "queue_size": "requests queued",
    "read_bytes_per_s": "read",
    "write_bytes_per_s": "written",
    "received_bytes_per_s": "received",
    "bytes_per_s": "data moved",
    "others_bytes_per_s": "data moved by others",
    "others_ratio": "share of others",
    "others_cores": "cores used by others",
    "swap_in_bytes_per_s": "swapped in",
    "grown_bytes_per_s": "memory grows",
    "shm_used_ratio": "/dev/shm used",
    "inodes_used_ratio": "inodes used",
    "used_ratio": "used",
    "some_ratio": "time in which a task waits",
    "refault_ratio": "reads of data just evicted",
    "available_bytes": "memory free",
    "age_s": "age",
    "power_ratio": "power, of its limit",
    "power_watts": "power",
    "busy_ratio": "busy",
    "power_of_most_ratio": "power, of its peak",
    "sm_ratio": "SMs active",
    "tensor_ratio": "tensor cores active",
    "memory_full_in_s": "memory full in",
    "temperature_celsius": "temperature",
    "gpus": "GPUs used",
    "answers": "answers",
    "free": "GPUs free",
    "cpu_ratio": "CPU, of one core",
    "sm_clock_ratio": "SM clock, of its highest",
    "pcie_width": "PCIe lanes",
    "pcie_generation": "PCIe generation",
    "pcie_full_ratio": "PCIe traffic, of the link's rate",
    "pcie_replays_per_s": "PCIe replays",
    "pcie_rx_bytes_per_s": "received by PCIe",
    "pcie_tx_bytes_per_s": "sent by PCIe",
    "critical": "its own report is critical",
    "read_bytes": "read",
    "read_ios": "reads",
}
"""The words for the last part of a metric's id."""
_TIME = {
    "compute": "time computing",
    "host": "main thread runs, GPU idle",
    "long_host": "main thread runs, GPU idle, over 60 s",
    "compile": "time compiling",
    "checkpoint": "time waiting for its checkpoint",
    "hung": "time without any movement",
    "stopped": "time stopped",
}
"""The words for a part of a job's time, by the last part of an id that contains ".time."."""
_SUFFIXES = ("_bytes_per_s", "_bytes", "_per_s", "_ratio", "_ms", "_s", "_celsius", "_watts", "_mhz")
_BELOW = (
    *("read_size_bytes", "age_s", "power_of_most_ratio", "sm_ratio", "tensor_ratio", "sm_clock_ratio"),
    *("memory_full_in_s", ".gpus", ".answers", "pcie_width", "pcie_generation"),
)
"""Metrics whose names end in one of these support a finding when they are below their threshold. ``counts_below`` has
the exceptions.
"""
_IDLE_BELOW = ("gpus.busy_ratio", "cpu.all.busy_ratio", "gpus.power_ratio")
"""These metrics support a finding when they are below their threshold. If the finding's state is OK, they support it
when they are above; gpus.busy_ratio also does so if the class has ``spins``: its GPUs look busy without much progress.
"""

_AT_LIMIT = {
    "io_limit": (".read_bytes", ".read_ios"),
    "gpu_throttle": (".power_watts",),
    "pcie": (".pcie_rx_bytes_per_s", ".pcie_tx_bytes_per_s"),
}
"""By class, the endings of metrics whose threshold is a limit: of a cgroup, of a GPU's power, of a link. While the
limit is in force, the figure is mostly just below it.
"""
_NEAR = 0.8
"""A figure is near a limit if it is at least this part of the limit."""


class Fact(NamedTuple):
    """One row of evidence. words: the metric in words. limit: the threshold after "<", ">", ">=" or a word; "" without
    one. standing: MET, UNMET, UNKNOWN or PLAIN. metric: the metric's dotted id.
    """

    words: str
    value: str
    limit: str
    standing: str
    metric: str


def facts_of(finding: Finding) -> tuple[Fact, ...]:
    """The evidence of a finding as rows, in the finding's order."""
    return tuple(_fact(finding, item) for item in finding.evidence)


def _fact(finding: Finding, item: Evidence) -> Fact:
    below = counts_below(finding, item.metric)
    sign = "<" if below else ">="
    if item.unit == "ms" and item.threshold is not None and round(item.threshold, 3) == _normal_ms(finding):
        sign = "typical"
    elif item.metric.endswith(_AT_LIMIT.get(finding.class_id, ())):
        sign = "limit"
    elif item.unit == "bool" or item.metric.endswith(".exit_code"):
        sign = "should be"
    elif _one_is_enough(item):
        sign = ">"
    limit = "" if item.threshold is None else f"{sign} {value_with_unit(item.threshold, item.unit)}"
    if item.value is None:
        standing = UNKNOWN
    elif item.threshold is None:
        standing = PLAIN
    elif sign == "limit":
        standing = _limit_standing(finding, item.value, item.threshold)
    elif sign == "typical" and finding.class_id == "loader_serial":
        # imported here to keep start-up fast
        from iotop_ai.diagnosis.thresholds import LIMITS

        standing = MET if item.value < LIMITS.serial_leave * item.threshold else UNMET
    elif sign in (">", "should be"):
        standing = MET if item.value != item.threshold else UNMET
    else:
        standing = MET if (item.value < item.threshold if below else item.value >= item.threshold) else UNMET
    return Fact(metric_words(item.metric), value_with_unit(item.value, item.unit), limit, standing, item.metric)


def _limit_standing(finding: Finding, value: float, limit: float) -> str:
    """The standing of a figure that has a limit.

    For pcie, a direction of the link that is not full is not evidence against a finding about the other direction. For
    io_limit, the rule has already compared the figures with the limit.
    """
    if finding.class_id == "io_limit" or value >= _NEAR * limit:
        return MET
    return PLAIN if finding.class_id == "pcie" else UNMET


def _one_is_enough(item: Evidence) -> bool:
    """Whether a single event already meets the threshold, as an error or a reset does."""
    return item.unit == "count" and item.threshold == 0.0


def _normal_ms(finding: Finding) -> float | None:
    """The normal time of a request to the finding's device in ms, rounded as in the evidence; None when unknown."""
    normal = dict(finding.args).get("normal_ms")
    return round(normal, 3) if isinstance(normal, float) else None


def counts_below(finding: Finding, metric: str) -> bool:
    """Whether the metric supports the finding when it is below its threshold, not above it."""
    if metric.endswith(".sm_ratio") and finding.state is State.OK:
        return bool(dict(finding.args).get("small"))
    if metric.endswith(".read_size_bytes") and finding.class_id == "loader_serial":
        return False
    if metric.endswith(_BELOW):
        return True
    if metric.endswith(".stall_ratio"):
        return finding.state is State.OK
    if finding.class_id == "serving" and metric.endswith(".cpu_ratio"):
        return True
    if finding.class_id == "imbalance" and metric == "gpus.others.power_watts":
        return True
    no_progress = metric == "gpus.busy_ratio" and CLASS_SPECS[finding.class_id].spins
    return metric in _IDLE_BELOW and finding.state is not State.OK and not no_progress


def metric_words(metric: str) -> str:
    """A dotted metric id in words: "sda: time of a read", "GPUs busy"."""
    family, _, rest = metric.partition(".")
    subject, _, field = rest.rpartition(".")
    if metric == "gpus.busy_ratio":
        return "GPUs busy"
    if metric == "gpus.power_ratio":
        return "GPU power, of its limit"
    if field == "cpu_ratio" and family == "processes":
        return f"{subject}: on a CPU"
    if metric == "cpu.all.busy_ratio":
        return "CPUs busy"
    words = _TIME.get(field) if subject.endswith(".time") else _WORDS.get(field)
    if words is None:
        words = next((field.removesuffix(end) for end in _SUFFIXES if field.endswith(end)), field).replace("_", " ")
    if family == "jobs" or not subject:
        return words
    if family == "gpus":
        return f"{'other GPUs' if subject == 'others' else f'GPU {subject}'}: {words}"
    if family == "pressure":
        return f"{words} for {'a core' if subject == 'cpu' else subject}"
    return f"{subject}: {words}"


def value_with_unit(value: float | None, unit: str) -> str:
    """A value with its unit, in about three digits; "?" when unknown."""
    if value is None:
        return units.UNKNOWN
    if unit == "ratio":
        return f"{units.percent(value)} %"
    if unit == "ms":
        return f"{milliseconds(value)} ms"
    if unit == "B/s":
        return rate(value)
    if unit == "B":
        return units.amount(value)
    if unit == "s":
        return units.duration(value)
    if unit == "celsius":
        return f"{value:.0f} C"
    if unit == "bool":
        return "yes" if value else "no"
    if value < 0:
        return f"{value:.0f}"
    if unit in ("count", ""):
        return units.figure(value).removesuffix(".0")
    if unit == "1/s":
        return f"{units.figure(value).removesuffix('.0')}/s"
    return f"{units.figure(value).removesuffix('.0')} {unit}"
