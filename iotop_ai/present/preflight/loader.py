"""A sweep of a data loader, which runs it once with each of several configurations, in words: which configuration to
use, why, and which problems and failures the sweep found.
"""

from __future__ import annotations

from iotop_ai.model.preflight.loader.report import Choice, Report
from iotop_ai.model.preflight.loader.run import MOST_WORKERS, TENSORFLOW, TORCH, Configuration, Run, Used
from iotop_ai.present.text.line import plain
from iotop_ai.present.text.units import amount, brief, count, percent, plural

MIXED = 0.3
"""Two configurations are not comparable if their shares of bytes read from storage differ by this much or more."""
CROWDED = 0.8
"""A configuration that uses more than this share of the free memory gets a warning."""
CACHED = 0.5
"""An epoch that needs less than this share of the free memory can be kept in memory."""
SLOW_FIRST_S = 10.0
"""A first batch that takes longer than this many seconds is mentioned."""


def configuration_text(configuration: Configuration) -> str:
    """A configuration in words: "4 workers, batch 32, prefetch 4, spawn, pinned"."""
    words = [plural(configuration.workers, "worker"), f"batch {configuration.batch_size}"]
    words += [f"prefetch {configuration.prefetch}"] if configuration.prefetch is not None else []
    words += [f"interleave {configuration.interleave}"] if configuration.interleave is not None else []
    words += [configuration.start] if configuration.start else []
    return ", ".join([*words, "pinned"] if configuration.pin else words)


def arguments_text(run: Run) -> str:
    """The arguments that the run's loader accepted, as Python keyword arguments in one line."""
    configuration, accepted = run.configuration, set(run.built.applied if run.built else ())
    values: dict[str, object] = {
        "batch_size": configuration.batch_size,
        "num_workers": configuration.workers,
        "num_parallel_calls": configuration.workers or None,
        "prefetch": configuration.prefetch,
        "prefetch_factor": configuration.prefetch,
        "cycle_length": configuration.interleave,
        "persistent_workers": True,
        "pin_memory": True,
        "multiprocessing_context": configuration.start,
    }
    words = []
    for name, value in values.items():
        if name in accepted:
            words.append(f'{name}="{value}"' if isinstance(value, str) else f"{name}={value}")
    return ", ".join(words)


def reason_text(report: Report, choice: Choice) -> str:
    """The reason for the rate: "bound by the CPU: 2 of 2 cores in use"; "" when unknown."""
    used, configuration = choice.run.used, choice.run.configuration
    loader, ending = (
        ("workers", "") if configuration.workers > 1 else ("the worker" if configuration.workers else "the loader", "s")
    )
    waits = f"{loader} wait{ending}"
    cores = f"{report.cores:g} {'core' if report.cores == 1 else 'cores'}"
    limited = ""
    if report.machine_cores is not None and report.cores < report.machine_cores:
        limited = f" (affinity or quota: the machine has {report.machine_cores})"
    if choice.bound == "cpu":
        total = (used.main_cores or 0.0) + (0.0 if _loads_in_main(choice.run) else used.worker_cores or 0.0)
        if total < 0.85 * report.cores:  # as FULL_CORE of preflight/loader/recommend.py, which this layer cannot import
            state = f"{loader} compute{ending} or wait{ending} for a core {percent(used.running_ratio)} % of the time"
            return f"bound by the CPU: {state}, with {brief(total)} of {cores} in use{limited}"
        return f"bound by the CPU: {brief(total)} of {cores} in use{limited}"
    if choice.bound == "storage":
        return f"bound by storage: {waits} for it {percent(used.blocked_ratio)} % of the time"
    if choice.bound == "main":
        return "bound by the main process: it uses a whole core (unpickling, pinning), so workers wait for it"
    if choice.bound == "waiting":
        busy = percent((used.blocked_ratio or 0.0) + (used.running_ratio or 0.0))
        return f"{waits} for something else (a network, a lock, sleep): busy {busy} % of the time"
    return ""


def findings_text(report: Report) -> list[str]:
    """The recommendation and its reason, then problems and notes."""
    out: list[str] = []
    choice = report.choice
    if choice is not None:
        out.append(f"use: {arguments_text(choice.run)}")
        out += _why(report, choice)
        out += _pipeline(report, choice)
    out += _start_methods(report)
    out += [text for run in report.runs if (text := _growth_text(run))][:1]
    out += _memory_text(report)
    out += _mixed_text(report)
    out += _slow_first_text(report)
    return out


def _why(report: Report, choice: Choice) -> list[str]:
    chosen, best = choice.run, choice.best
    if chosen.steady is None or best.steady is None:
        return []
    text = f"it gives {count(chosen.steady.samples_per_s)} samples/s"
    if chosen is not best:
        part = percent(chosen.steady.samples_per_s / best.steady.samples_per_s)
        text += f", {part} % of the best ({configuration_text(best.configuration)})"
    out = [text]
    if reason := reason_text(report, choice):
        out.append(reason)
    if choice.rising:
        workers = chosen.configuration.workers
        tries = dict.fromkeys(min(factor * workers, MOST_WORKERS) for factor in (1, 2, 4))
        more = f"try --workers {','.join(map(str, tries))}" if len(tries) > 1 else "a sweep cannot try more"
        out.append(f"the curve still rises at {plural(workers, 'worker')}: {more}")
    return out


def _pipeline(report: Report, choice: Choice) -> list[str]:
    """The stages that a tf.data pipeline lacks, one sentence for each."""
    built = choice.run.built
    if built is None or not built.stages:
        return []
    stages, out = set(built.stages), []
    if "Map" in stages and choice.run.configuration.workers:
        out.append("a map of the pipeline runs in one thread: use .map(..., num_parallel_calls=tf.data.AUTOTUNE)")
    if stages & {"Interleave", "FlatMap"} and choice.bound in ("storage", "waiting"):
        out.append("files are read one after the other: use .interleave(..., num_parallel_calls=tf.data.AUTOTUNE)")
    if built.stages[0] != "Prefetch":
        out.append("no batch is made while the trainer computes: end the pipeline with .prefetch(tf.data.AUTOTUNE)")
    room, epoch = report.room_bytes, built.epoch_bytes
    if epoch and room and epoch < CACHED * room and "Cache" not in stages and choice.bound:
        text = f"an epoch takes {amount(epoch)} of the {amount(room)} of free memory"
        out.append(f"{text}: put .cache() before the random stages to read it only once")
    return out


def _loads_in_main(run: Run) -> bool:
    """Whether the main process itself loads the data."""
    return not run.configuration.workers or (run.built is not None and run.built.kind == TENSORFLOW)


def _start_methods(report: Report) -> list[str]:
    """Which start methods work and which fail; [] if all of them work or none does."""
    outcomes: dict[str, set[bool]] = {}
    for run in report.runs:
        start = run.built.start if run.built else run.configuration.start
        if start and run.configuration.workers:
            outcomes.setdefault(start, set()).add(run.failure is None)
    working = [name for name, successes in outcomes.items() if successes == {True}]
    failing = [name for name, successes in outcomes.items() if False in successes]
    if not working or not failing:
        return []
    works, fails = "works" if len(working) == 1 else "work", "fails" if len(failing) == 1 else "fail"
    return [f"start methods: {', '.join(working)} {works}, {', '.join(failing)} {fails}"]


def _growth_text(run: Run) -> str:
    growth = run.used.growth_bytes
    if growth is None:
        return ""
    text = f"memory grows by {amount(growth)} a batch ({configuration_text(run.configuration)})"
    return f"{text}: the dataset keeps data, or forked workers copy the Python objects they touch; use numpy arrays"


def _slow_first_text(report: Report) -> list[str]:
    """The sentence about a slow first batch, with the remedy if it is for a DataLoader with workers."""
    slow = [(run, run.steady.first_batch_s) for run in report.runs if run.steady]
    slow = [(run, seconds) for run, seconds in slow if seconds > SLOW_FIRST_S]
    with_workers = [(run, seconds) for run, seconds in slow if _may_keep_workers(run)]
    if not slow:
        return []
    run, seconds = (with_workers or slow)[-1]
    text = f"the first batch takes {brief(seconds)} s ({configuration_text(run.configuration)})"
    return [f"{text}: with persistent_workers=True, only the first epoch starts slowly" if with_workers else text]


def _may_keep_workers(run: Run) -> bool:
    return run.built is not None and run.built.kind == TORCH and run.configuration.workers > 0


def _memory_text(report: Report) -> list[str]:
    room = report.room_bytes
    big = [run for run in report.runs if room and (run.used.memory_bytes or 0) > CROWDED * room]
    if not big:
        return []
    return [
        f"{configuration_text(big[0].configuration)} takes {amount(big[0].used.memory_bytes)} of the {amount(room)}"
        " of free memory"
    ]


def storage_share(used: Used) -> float | None:
    """The share of the bytes read that came from a disk; None when unknown."""
    if used.storage_bytes is None or not used.asked_bytes:
        return None
    return min(used.storage_bytes / used.asked_bytes, 1.0)


def _mixed_text(report: Report) -> list[str]:
    """A warning if some configurations read far more of their bytes from a disk than others; [] otherwise."""
    shares = [(share, run) for run in report.runs if run.steady and (share := storage_share(run.used)) is not None]
    if len(shares) < 2 or report.cold:
        return []
    (low, warm), (high, cold) = (pick(shares, key=lambda entry: entry[0]) for pick in (min, max))
    if high - low < MIXED:
        return []
    text = f"{percent(high)} % of the bytes came from a disk with {configuration_text(cold.configuration)}, "
    text += f"{percent(low)} % with {configuration_text(warm.configuration)}: the page cache makes later runs faster"
    return [f"{text}; use --cold PATH of the dataset to compare them fairly"]


def failure_lines(run: Run) -> list[str]:
    """The failure and its remedy; [] if nothing failed."""
    if run.failure is None:
        return []
    lines = [f"{configuration_text(run.configuration)}: {plain(run.failure.text)}"]
    return [*lines, f"  remedy: {plain(run.failure.remedy)}"] if run.failure.remedy else lines


def progress_text(position: str, batches: int) -> str:
    """The progress of a sweep: "configuration 2/4, 120 batches"."""
    return f"configuration {position}, {plural(batches, 'batch').replace('batchs', 'batches')}"
