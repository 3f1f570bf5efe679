"""Finds the best configuration of a sweep, and the bottleneck of that configuration. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from iotop_ai.model.preflight.loader.report import NEAR_BEST, Choice
from iotop_ai.model.preflight.loader.run import TENSORFLOW, Configuration, Run, curve

FULL_CORE = 0.85
"""A process that uses at least this many CPU seconds per second uses a whole core. All cores are in use if at least
this share of them is.
"""
OFTEN = 0.5
"""A state counts as the bottleneck of the workers if at least this share of their samples shows it."""


def recommend(runs: Sequence[Run], cores: float) -> Choice | None:
    """Return the choice of the smallest configuration within 5 % of the best; None if no configuration was measured."""
    measured = [run for run in runs if run.samples_per_s > 0]
    if not measured:
        return None
    best = max(measured, key=lambda run: run.samples_per_s)
    near = [run for run in measured if run.samples_per_s >= NEAR_BEST * best.samples_per_s]
    smallest = min(near, key=lambda run: size_of(run.configuration))
    return Choice(smallest, best, bound_of(smallest, cores), _more_workers_may_help(runs, smallest, cores))


def size_of(configuration: Configuration) -> tuple[int, int, int, int, bool]:
    """Return a sort key that puts fewer processes first, then less memory in queues.

    The start method does not count.
    """
    # A torch DataLoader prefetches 2 batches per worker by default.
    return (
        configuration.workers,
        configuration.prefetch or 2,
        configuration.interleave or 1,
        configuration.batch_size,
        configuration.pin,
    )


def bound_of(run: Run, cores: float) -> str:
    """Return the bottleneck of this run: "cpu", "main", "storage" or "waiting"; "" if it is unknown."""
    used, workers, threads = run.used, run.configuration.workers, _has_threads(run)
    if used.worker_cores is None or used.main_cores is None:
        return ""
    if _uses_all_cores(run, cores) or (used.worker_cores >= FULL_CORE * max(workers, 1)):
        return "cpu"
    if used.blocked_ratio is not None and used.blocked_ratio >= OFTEN:
        return "storage"
    if used.running_ratio is not None and used.running_ratio >= OFTEN:
        return "cpu"  # correct even if other programs keep the cores busy, because the workers then wait for a core
    if workers and not threads and used.main_cores >= FULL_CORE:
        return "main"
    if used.blocked_ratio is None or used.running_ratio is None:
        return ""
    return "waiting" if used.blocked_ratio + used.running_ratio < OFTEN else ""


def _has_threads(run: Run) -> bool:
    """Whether the loader's workers are threads of its main process."""
    return run.built is not None and run.built.kind == TENSORFLOW


def _uses_all_cores(run: Run, cores: float) -> bool:
    """Whether the processes of this run together use all cores; False if that is unknown."""
    used, main_does_all = run.used, not run.configuration.workers or _has_threads(run)
    if used.worker_cores is None or used.main_cores is None:
        return False
    return used.main_cores + (0.0 if main_does_all else used.worker_cores) >= FULL_CORE * cores


def _more_workers_may_help(runs: Sequence[Run], chosen: Run, cores: float) -> bool:
    """Whether more workers than in the chosen run were not tried and would probably be faster."""
    configuration, points = chosen.configuration, curve(runs, chosen.configuration)
    variants = [run for run in runs if run.configuration._replace(workers=configuration.workers) == configuration]
    # More workers are not worth a try if a larger number was already tried, or if no core is left.
    if max(run.configuration.workers for run in variants) > configuration.workers or _uses_all_cores(chosen, cores):
        return False
    return len(points) > 1 and points[-2].samples_per_s < NEAR_BEST * points[-1].samples_per_s
