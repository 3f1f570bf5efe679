"""A storage check in words: the path's mount and disk, what was read, the problems."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iotop_ai.model.job.records import IoLimit
from iotop_ai.model.machine.filesystem import is_fuse
from iotop_ai.model.preflight.dataset import DATASET
from iotop_ai.model.preflight.history import Change, Compared
from iotop_ai.model.preflight.place import Nominal, Place
from iotop_ai.model.preflight.report import SHORT_OF_NOMINAL, Report
from iotop_ai.model.preflight.storage import (
    CACHED,
    CREATE,
    FILES,
    NAMED_FILE,
    RANDOM,
    READAHEAD,
    SEQUENTIAL,
    STAT,
    WRITE,
    Measured,
    Phase,
    Target,
    Threshold,
    fastest_read,
)
from iotop_ai.present.preflight.dataset import dataset_text, forecast_text, speed, why_no_forecast
from iotop_ai.present.text.line import plain
from iotop_ai.present.text.units import amount, brief, clock, count, percent, plural, size

_TITLES = {
    CREATE: "create + delete a file",
    STAT: "open + stat + close",
    WRITE: "write + fsync",
    CACHED: "cached read",
    READAHEAD: "read with read-ahead",
    SEQUENTIAL: "sequential read",
    RANDOM: "random read",
    FILES: "small files",
    DATASET: "dataset files",
}
_FIGURES = {"read": "sequential read", "random": "random 4 KB reads", "files": "small files", "write": "write + fsync"}
"""The words for the figures that are kept for a comparison with later checks (model.preflight.history.Kept)."""
_LIMITS = {"read_bytes": "{}B/s of reads", "read_ios": "{} reads/s", "write_bytes": "{}B/s of writes"}
"""The words for an ``IoLimit``, by its kind; a limit of any other kind is one of writes per second."""


def phase_title(phase: Phase | Measured) -> str:
    """The name of a phase: "random read 4 KB", "small files 128 KB".

    For a dataset's files, the name contains the mean size of the files that were read in whole or in part.
    """
    block = phase.block_bytes if phase.name not in (WRITE, CREATE, STAT, DATASET) else 0
    if phase.name == DATASET and not phase.depth:
        return "scanning the dataset"
    if isinstance(phase, Measured) and phase.name == DATASET and phase.ops:
        return f"{_TITLES[DATASET]}, mean {amount(phase.mean_file_bytes)}"
    return f"{_TITLES[phase.name]} {amount(block)}" if block else _TITLES[phase.name]


def place_text(place: Place) -> str:
    """The mount and the disk of the path, in one line."""
    path = plain(place.path)
    if not place.fstype:
        disk_text = f"{place.device or 'an unknown disk'} ({plain(place.kind)})" if place.kind else place.why_no_disk
        return f"{path}: {disk_text}"
    if place.memory:
        return f"{path}: {place.fstype}, in memory: the figures are those of memory, not of a disk"
    source = plain(place.source)
    if place.remote:
        return f"{path}: {place.fstype} from {source}: the figures include the network and the server's memory"
    if is_fuse(place.fstype):
        server = (
            "a program of this machine serves it" if place.remote is False else "unknown whether its data is remote"
        )
        return f"{path}: {place.fstype} ({source}): {server}{_disks_text(place, ', on ')}"
    if place.fstype == "overlay":
        return (
            f"{path}: overlay, a container's stack of folders{_disks_text(place, ', on ') or f': {place.why_no_disk}'}"
        )
    return f"{path}: {place.fstype}{_disks_text(place, ' on ') or f' ({plain(place.why_no_disk)})'}"


def _disks_text(place: Place, before: str) -> str:
    """The disks after ``before``, and the device stacked on them: " on md0 on sda, sdb (SATA)"; "" without disks."""
    if not place.disks:
        return ""
    device = place.device if place.device and place.device not in place.disks else ""
    disks = ", ".join(place.disks)
    return f"{before}{f'{device} on ' if device else ''}{disks} ({plain(place.kind)})"


def target_text(target: Target, engine: str) -> str:
    """The file or device that was read, and how, in one line."""
    source = {
        "own": f"a test file, {amount(target.size_bytes)}, removed again",
        "file": f"{_file_words(target)}, {amount(target.size_bytes)}",
        "device": f"the whole device, {amount(target.size_bytes)}",
    }[target.kind]
    reader = "iotop-ai's own reader" if engine == "own" else plain(engine)
    how = "past the page cache (O_DIRECT)" if target.direct else "through the page cache, evicted first"
    if not target.direct and target.kind != "own":
        how = "through the page cache: parts may come from memory"
    return f"read: {source}; by {reader}, {how}"


def _file_words(target: Target) -> str:
    return "the file itself" if target.why_not_written == NAMED_FILE else "the largest file there"


def progress_text(phase: Phase, ops: int, size_bytes: int, so_far_s: float) -> str:
    """The running phase with its rate so far: "random read 4 KB x16, 12k/s". ops: the number of operations so far."""
    depth = f" x{phase.depth}" if phase.depth > 1 else ""
    text = f"{phase_title(phase)}{depth}"
    if phase.name == DATASET and not phase.depth:
        return f"{text}: {plural(ops, 'file')}, {amount(size_bytes)}"
    if not ops or so_far_s <= 0:
        return f"{text} ..."
    in_bytes = phase.name in (WRITE, CACHED, READAHEAD, SEQUENTIAL)
    return f"{text}, {speed(size_bytes / so_far_s) if in_bytes else f'{count(ops / so_far_s)}/s'}"


def findings_text(report: Report) -> list[str]:
    """The problems and notes, one sentence each; a hang, an early end and the thresholds come first."""
    place, out = report.place, []
    if report.hung_s:
        where = f"disk {place.device or ', '.join(place.disks)}" if place.disks else plain(place.path)
        out.append(f"hangs: no answer from {where} for {report.hung_s:.0f} s")
    if report.failed:
        out.append(f"? ended early: {plain(report.failed)}")
    out += [_threshold_text(threshold) for threshold in report.thresholds]
    out += dataset_text(report) + forecast_text(report)
    if place.nominal is not None:
        out += _nominal_text(place.nominal, report)
    out += [f"a limit of this process's cgroup applies: {_limit_text(limit)}" for limit in place.limits]
    out += [_change_text(change, report.wall_s) for change in report.changes]
    target = report.target
    if target is not None and target.why_not_written and target.kind != "device":
        missing = "so figures of writing, metadata and small files are missing"
        out.append(f"nothing is written: {plain(target.why_not_written)}; {missing}")
    return out + [plain(note) for note in report.notes]


def is_floor(result: Measured) -> bool:
    """Whether the storage may be faster than this result, because the CPU was the limit."""
    return result.cpu_bound and result.name not in (CREATE, STAT, CACHED)


def legend_text(results: Sequence[Measured]) -> list[str]:
    """The meaning of each mark that the table of the results contains."""
    out = []
    if any(map(is_floor, results)):
        out.append("+ marks a floor: the reader used a whole core, or all of them; the storage may be faster")
    if any(result.latency is not None and result.latency.p99_ms is None for result in results if result.name != WRITE):
        out.append("? under p99: unknown, fewer than 100 operations; more --seconds give more")
    return out


def _nominal_text(nominal: Nominal, report: Report) -> list[str]:
    out = []
    read, part = fastest_read(report.results), report.of_nominal
    if part is not None and part < SHORT_OF_NOMINAL and not report.place.limits:
        expected = f"{speed(read)} of {nominal.why} that should give about {speed(nominal.bytes_per_s)}"
        out.append(f"{percent(part)} % of its nominal speed: {expected}")
    if nominal.reduced:
        out.append(f"its PCIe link runs at {nominal.reduced}: due to the slot or its configuration, not the disk")
    return out


def _limit_text(limit: IoLimit) -> str:
    value = size(limit.value) if limit.what.endswith("bytes") else str(limit.value)
    return f"{_LIMITS.get(limit.what, '{} writes/s').format(value)} ({plain(limit.file)})"


def _change_text(change: Change, now_s: int) -> str:
    text_of = _text_of(change.name)
    day, today = (clock(at_s * 10**9, pattern="%Y-%m-%d") for at_s in (change.then_s, now_s))
    when = f"at {clock(change.then_s * 10**9, pattern='%H:%M')} today" if day == today else f"on {day}"
    slower = percent(1 - change.ratio)
    return f"{_FIGURES[change.name]}: {slower} % slower than {when} ({text_of(change.now)}, was {text_of(change.then)})"


def _text_of(figure: str) -> Callable[[float | None], str]:
    return speed if figure in ("read", "write") else _per_s


def _compared_text(figure: Compared) -> str:
    """The figure, and in brackets its range in earlier checks: "sequential read 563 MB/s (546 to 884 MB/s)"."""
    now, least, most = map(_text_of(figure.name), (figure.now, figure.least, figure.most))
    unit = next((unit for unit in (" MB/s", " GB/s", "/s") if most.endswith(unit)), "")
    before = most if least == most else f"{least.removesuffix(unit)} to {most}"
    return f"{_FIGURES[figure.name]} {now} ({before})"


def _per_s(value: float | None) -> str:
    return f"{count(value)}/s"


def _percent(value: float | None) -> str:
    return f"{percent(value)} %"


def _milliseconds(value: float | None) -> str:
    return f"{brief(value)} ms"


def _threshold_text(threshold: Threshold) -> str:
    text_of = {"--min-read": speed, "--min-files": _per_s, "--min-gpu": _percent}.get(threshold.flag, _milliseconds)
    verdict = {True: "ok", False: "FAILS", None: "?"}[threshold.met]
    measured = "not measured" if threshold.value is None else text_of(threshold.value)
    return f"{verdict}: {measured} ({threshold.flag} {text_of(threshold.limit)})"


def missing_text(report: Report) -> str:
    """Why a check has no answer, for standard error. Call it only for a check without an answer."""
    if report.failed:
        return report.failed
    flags_of: dict[str, list[str]] = {}
    for threshold in report.thresholds:
        if threshold.met is None:
            flags_of.setdefault(_why_unknown(threshold, report), []).append(threshold.flag)
    if flags_of:
        return "; ".join(f"{', '.join(flags)}: {why}" for why, flags in flags_of.items())
    if report.dataset is not None and not report.dataset.files:
        return "the dataset has no file with content"
    if report.demand is not None and report.forecast is None:
        return _without_forecast(report)
    return "nothing could be measured"


def _why_unknown(threshold: Threshold, report: Report) -> str:
    if threshold.flag == "--min-gpu" and report.forecast is None:
        return _without_forecast(report)
    return threshold.why or "not measured here"


def _without_forecast(report: Report) -> str:
    return f"no forecast: {why_no_forecast(report)}"


def earlier_text(report: Report) -> str:
    """This check's figures beside the earlier ones, or a note that the check cannot be kept for later comparisons.

    "" without an earlier check, if ``findings_text`` names slower figures, or if the path is in memory.
    """
    if not report.place.key:
        unnamed = "not kept for later: this storage has no lasting name, such as a serial number"
        return "" if report.place.memory else unnamed
    if report.changes or not report.compared:
        return ""
    return f"now (and in {plural(report.earlier, 'earlier check')}): {', '.join(map(_compared_text, report.compared))}"
