"""The figures that a condition may name, their units, and their values in a Frame."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, get_type_hints

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.block.counters import BlockRates
from iotop_ai.model.errors import UsageError
from iotop_ai.model.frame import Frame
from iotop_ai.model.gpu.state import GpuRates
from iotop_ai.model.health.smart import SmartState
from iotop_ai.model.job.cgroup import CgroupRates
from iotop_ai.model.job.time_shares import DATA, LOST, SHARES, TimeShares
from iotop_ai.model.machine.cpu import CoreRates
from iotop_ai.model.machine.cpu_clocks import ClockRates
from iotop_ai.model.machine.filesystem import FilesystemUsage
from iotop_ai.model.machine.memory import MemoryRates, MemoryState
from iotop_ai.model.machine.netfs import NfsRates
from iotop_ai.model.machine.network import LinkRates
from iotop_ai.model.machine.pressure import PressureRates
from iotop_ai.model.machine.rdma import RdmaRates
from iotop_ai.model.machine.tcp import TcpRates
from iotop_ai.model.metric import metrics_of, unit_of
from iotop_ai.model.reading import Status

UNNAMED = ""
"""The name of an object without a name: the only object of a family, or an object whose name is unknown."""
_EVERY_CORE = "all"
_DERIVED = {"data_wait": DATA, "lost": LOST, "goodput": ("compute",)}
"""For each share that is a sum of other shares, the names of its parts."""
SHARE_NAMES = (*_DERIVED, *SHARES)
"""Names of shares of a job's time: "data_wait" is for the verdict's job, "jobs.PID.data_wait" for any job."""


class Table(NamedTuple):
    """The objects of a family in a Frame.

    objects: pairs of (name, record); the record is None if the object did not answer
    renewed: whether the objects were read since the previous Frame
    """

    objects: Iterable[tuple[str, Any]]
    renewed: bool = True


_UNKNOWN = Table(((UNNAMED, None),))


class Family(NamedTuple):
    """A kind of object, such as disks.

    records: the classes of the records that hold the values, each with the function that finds them in a Frame
    alone: whether there is only one object, so that figures are written without a name ("memory.swap_in_bytes_per_s")
    """

    name: str
    records: tuple[tuple[type, Callable[[Frame], Table]], ...]
    alone: bool = False


class Figure(NamedTuple):
    """A figure of one or several objects.

    text: the figure as the user wrote it
    family: the name of the Family; "" for a share of the verdict's job, and for a figure that the caller defines
    name: a pattern for the names of the objects, in which ``*`` stands for any text and ``?`` for any character
    """

    text: str
    family: str
    name: str
    field: str
    unit: str


def share_value(name: str, shares: Iterable[float]) -> float:
    """The share called ``name``, one of SHARE_NAMES; ``shares`` has the order of SHARES."""
    by_name = dict(zip(SHARES, shares, strict=False))
    return sum(by_name[share] for share in _DERIVED.get(name, (name,)))


def matches(name_pattern: str, name: str) -> bool:
    """Whether a pattern, which may contain ``*`` and ``?``, matches a name."""
    return _compiled(name_pattern).fullmatch(name) is not None


@cache
def _compiled(name_pattern: str) -> re.Pattern[str]:
    return re.compile("".join({"*": ".*", "?": "."}.get(char, re.escape(char)) for char in name_pattern), re.DOTALL)


def _disks(frame: Frame) -> Table:
    rated = frame.sample.block
    if rated.value is None:
        return _UNKNOWN
    return Table([(key.name, rates) for key, rates in rated.value.items()], rated.renewed)


def _gpus(frame: Frame) -> Table:
    """The GPUs by NVML's index, as on the screen. A GPU that does not answer has no known index."""
    rated, table = frame.sample.gpu, frame.snapshot.gpu.value or {}
    if rated.value is None:
        return _UNKNOWN
    states = {uuid: reading.value for uuid, reading in table.items()}
    objects: list[tuple[str, Any]] = [
        (uuid if (state := states.get(uuid)) is None else str(state.number), rates)
        for uuid, rates in rated.value.items()
    ]
    silent = [(UNNAMED, None) for uuid in states if uuid not in rated.value]
    return Table(objects + silent, rated.renewed)


def _cpu(frame: Frame) -> Table:
    rated = frame.sample.cpu
    if rated.value is None:
        return _UNKNOWN
    cores = [(str(number), rates) for number, rates in rated.value.cores.items()]
    return Table([(_EVERY_CORE, rated.value.all), *cores], rated.renewed)


def _memory_state(frame: Frame) -> Table:
    return Table([(UNNAMED, frame.snapshot.memory.value)])


def _filesystems(frame: Frame) -> Table:
    table = frame.snapshot.filesystems.value
    return _UNKNOWN if table is None else Table([(name, reading.value) for name, reading in table.items()])


def _smart(frame: Frame) -> Table:
    """The disks' health. The temperature of a disk in standby is unknown, because its reading is an old one."""
    table = frame.snapshot.smart.value
    if table is None:
        return _UNKNOWN
    return Table(
        [
            (name, state._replace(temperature_celsius=None) if state and reading.status is Status.ASLEEP else state)
            for name, reading in table.items()
            for state in (reading.value,)
        ]
    )


def _jobs(frame: Frame) -> Table:
    """The shares of each job's time, by pid; None for a job whose time is not counted."""
    rated, table = frame.sample.jobs, frame.snapshot.jobs.value
    if rated.value is None:
        return _UNKNOWN
    times = rated.value.times
    shares = [(str(key.pid), times.get(key)) for key in dict.fromkeys((*times, *(table.jobs if table else ())))]
    return Table(shares, rated.renewed)


def _table_by_name(field: str) -> Callable[[Frame], Table]:
    """Return a function that finds the objects in a Sample's field, which is a table by name."""

    def table_of(frame: Frame) -> Table:
        rated = getattr(frame.sample, field)
        return _UNKNOWN if rated.value is None else Table(rated.value.items(), rated.renewed)

    return table_of


def _only_object(field: str) -> Callable[[Frame], Table]:
    """Return a function that finds the only object of a family in a Sample's field."""

    def table_of(frame: Frame) -> Table:
        rated = getattr(frame.sample, field)
        return Table([(UNNAMED, rated.value)], rated.renewed)

    return table_of


FAMILIES = {
    family.name: family
    for family in (
        Family("disks", ((BlockRates, _disks),)),
        Family("gpus", ((GpuRates, _gpus),)),
        Family("jobs", ((TimeShares, _jobs),)),
        Family("cpu", ((CoreRates, _cpu),)),
        Family("memory", ((MemoryRates, _only_object("memory")), (MemoryState, _memory_state)), alone=True),
        Family("pressure", ((PressureRates, _table_by_name("pressure")),)),
        Family("filesystems", ((FilesystemUsage, _filesystems),)),
        Family("smart", ((SmartState, _smart),)),
        Family("network", ((LinkRates, _table_by_name("network")),)),
        Family("nfs", ((NfsRates, _table_by_name("netfs")),)),
        Family("tcp", ((TcpRates, _only_object("tcp")),), alone=True),
        Family("rdma", ((RdmaRates, _table_by_name("rdma")),)),
        Family("cgroups", ((CgroupRates, _table_by_name("cgroups")),)),
        Family("clocks", ((ClockRates, _only_object("clocks")),), alone=True),
    )
}


@cache
def fields_of(family: str) -> dict[str, tuple[str, str]]:
    """The fields of a family as (field, unit), by field name and by standard term without "%", such as "r_await"."""
    out: dict[str, tuple[str, str]] = {}
    for record, _ in FAMILIES[family].records:
        if record is TimeShares:
            out |= {name: (name, "ratio") for name in SHARE_NAMES}
            continue
        metrics = metrics_of(record)
        out |= {name: (name, metric.unit) for name, metric in metrics.items()}
        out |= {metric.term.removeprefix("%"): (name, metric.unit) for name, metric in metrics.items() if metric.term}
        if not metrics:
            out |= {name: (name, unit_of(name) or "count") for name in _levels(record)}
    return out


def _levels(record: type) -> list[str]:
    """The numeric fields of a record without metrics, and the used ratios of a filesystem.

    For memory, only the sizes are included, because the other fields are counters.
    """
    if record is MemoryState:
        return [name for name in MemoryState._fields if name.endswith("_bytes") and name != "page_bytes"]
    names = [name for name, hint in get_type_hints(record).items() if _is_number(hint)]
    return [*names, "used_ratio", "inodes_used_ratio"] if record is FilesystemUsage else names


def _is_number(hint: Any) -> bool:
    kinds = {kind for kind in getattr(hint, "__args__", (hint,)) if kind is not type(None)}
    return bool(kinds) and kinds <= {int, float}


def figure_of(text: str, extra: Mapping[str, str] | None = None) -> Figure:
    """The figure that a text names. Raises UsageError if there is no such figure.

    extra: the units of further figures that the caller defines, by name; their names may have any form
    """
    if extra and text in extra:
        return Figure(text, "", UNNAMED, text, extra[text])
    if text in SHARE_NAMES:
        return Figure(text, "", UNNAMED, text, "ratio")
    family, _, rest = text.partition(".")
    if family not in FAMILIES or not rest:
        known = (*SHARE_NAMES, *(extra or ()), *FAMILIES)
        near = _nearest(family if "." in text else text, known)
        raise UsageError(f"unknown figure {text!r}{near}; iotop-ai help figures lists them")
    name, dot, field = rest.rpartition(".")
    if family == "cpu" and not dot:
        name, dot = _EVERY_CORE, "."
    alone = FAMILIES[family].alone
    if alone == bool(dot) or (dot and not name):
        shape = f"{family}.FIELD" if alone else f"{family}.NAME.FIELD, or {family}.*.FIELD for any"
        raise UsageError(f"{text!r}: write {shape}")
    fields = fields_of(family)
    field = field.removeprefix("%")
    if field not in fields:
        near = _nearest(field, fields)
        raise UsageError(f"no field {field!r} in {family}{near}; iotop-ai help figures lists them")
    return Figure(text, family, name, *fields[field])


def _nearest(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(known), 1, 0.5)
    return f" (did you mean {near[0]}?)" if near else ""


class Value(NamedTuple):
    """The value of a figure for one object.

    name: the object's name, or UNNAMED
    value: the figure's value; None if unknown
    weight: the weight of this interval in a mean over time, besides the interval's length
    renewed: whether the value was read since the previous Frame
    """

    name: str
    value: float | None
    weight: float = 1.0
    renewed: bool = True


_PER_REQUEST = {
    "read_await_ms": "reads_per_s", "read_size_bytes": "reads_per_s", "write_await_ms": "writes_per_s",
    "write_size_bytes": "writes_per_s", "discard_await_ms": "discards_per_s",
    "discard_size_bytes": "discards_per_s", "flush_await_ms": "flushes_per_s",
}  # fmt: skip
"""For each mean per request, the rate of requests that is its weight in a mean over several intervals."""
_ALL_REQUESTS = dict.fromkeys(("await_ms", "request_size_bytes"), "reads_per_s")
"""For each mean over requests of all kinds, a rate that is known if and only if the mean is measured."""


def values(figure: Figure, frame: Frame) -> list[Value]:
    """The figure's value in a Frame for each object that the figure names, and for each object without a name."""
    if not figure.family:
        return _verdict_job_share(figure, frame)
    out, left_out = [], _left_out(figure, frame)
    for record, table_of in FAMILIES[figure.family].records:
        if figure.field not in record.__dict__ and record is not TimeShares:
            continue
        table = table_of(frame)
        for name, item in table.objects:
            if name in left_out:
                continue
            if not name or matches(figure.name, name) or _job_matches(figure, frame, name):
                value, weight = _value(figure, item)
                out.append(Value(name, value, weight, table.renewed))
    return out


def _value(figure: Figure, record: Any) -> tuple[float | None, float]:
    """The figure's value in a record, and its weight in a mean over time."""
    if record is None:
        return None, 1.0
    if isinstance(record, TimeShares):
        return share_value(figure.field, record), 1.0
    value = getattr(record, figure.field)
    if figure.family != "disks":
        return value, 1.0
    if figure.field in _ALL_REQUESTS:
        completed = (record.reads_per_s, record.writes_per_s, record.discards_per_s)
        return value, sum(rate or 0.0 for rate in completed)
    weight = _PER_REQUEST.get(figure.field)
    return value, 1.0 if weight is None else getattr(record, weight) or 0.0


_NOT_COUNTED_KINDS = ("ram", "zram", "partition", "nvme-path")
"""Kinds of block devices that are memory, or a partition or a path of another disk."""


def _left_out(figure: Figure, frame: Frame) -> set[str]:
    """The devices that a figure about disks ignores although its pattern matches them; empty for any other figure.

    Partitions and paths are ignored if the pattern also matches their disk; memory devices, for the pattern ``*``.
    """
    table, infos = frame.sample.block.value, frame.snapshot.disks.value
    if figure.family != "disks" or table is None or infos is None:
        return set()
    named = {key.name for key in table if matches(figure.name, key.name)}
    others = (infos[name] for name in named if name in infos and infos[name].kind in _NOT_COUNTED_KINDS)
    return {info.name for info in others if (info.parent in named if info.parent else figure.name == "*")}


def disks_measured(figure: Figure, frame: Frame) -> dict[str, bool]:
    """For each disk that the figure names, whether the figure is measured.

    A mean per request counts as measured even if the interval had no request. {} for a Frame without rates of disks.
    """
    rated, left_out = frame.sample.block, _left_out(figure, frame)
    if rated.value is None or rated.seconds is None:
        return {}
    requests = _PER_REQUEST.get(figure.field, _ALL_REQUESTS.get(figure.field, figure.field))
    return {
        key.name: getattr(rates, requests) is not None
        for key, rates in rated.value.items()
        if matches(figure.name, key.name) and key.name not in left_out
    }


def _job_matches(figure: Figure, frame: Frame, pid: str) -> bool:
    """Whether the figure's pattern matches the name of the job with this pid."""
    table = frame.snapshot.jobs.value
    if figure.family != "jobs" or table is None:
        return False
    return any(str(key.pid) == pid and matches(figure.name, job.name) for key, job in table.jobs.items())


def _verdict_job_share(figure: Figure, frame: Frame) -> list[Value]:
    """The share of the verdict's job; [] without a job.

    The value is unknown for a figure that the caller defines, and while the jobs are unknown.
    """
    if figure.field not in SHARE_NAMES:
        return [Value(UNNAMED, None)]
    table, names = _jobs(frame), (UNNAMED, str(frame.verdict.job_pid))
    return [Value(name, *_value(figure, shares), table.renewed) for name, shares in table.objects if name in names]
