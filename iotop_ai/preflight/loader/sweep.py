"""Sweeps a loader: runs one configuration after another, then recommends one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product

from iotop_ai.actions.audit import Audit
from iotop_ai.actions.cache.evict import evict
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.job.cgroup_limits import read_cores
from iotop_ai.collectors.machine.page_cache import PageCache, read_levels, read_memory_room, room_for_data
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import InputError
from iotop_ai.model.preflight.loader.report import Report
from iotop_ai.model.preflight.loader.run import TENSORFLOW, Configuration, Run
from iotop_ai.preflight.environment.host import read_shm
from iotop_ai.preflight.loader.recommend import recommend
from iotop_ai.preflight.loader.session import Request, Session

SHARED_FAILURES = ("refused",)
"""The kinds of failure that every other configuration would have too."""


class Grid(NamedTuple):
    """The values of each dimension, in the order in which they are tried."""

    workers: Sequence[int]
    batch_sizes: Sequence[int]
    prefetches: Sequence[int | None]
    starts: Sequence[str]
    pin: bool
    interleaves: Sequence[int | None] = (None,)

    def configurations(self) -> list[Configuration]:
        """Return every combination. Without workers, prefetch and start method have no effect and are left out."""
        out: dict[Configuration, None] = {}
        dimensions = (self.starts, self.interleaves, self.batch_sizes, self.prefetches, self.workers)
        for start, interleave, batch, prefetch, workers in product(*dimensions):
            configuration = Configuration(workers, batch, prefetch, self.pin, start, interleave)
            out[configuration if workers else configuration._replace(prefetch=None, start="")] = None
        return list(out)


def sweep(request: Request, grid: Grid, cold: str, clock: Clock, show: Callable[[str, int], None]) -> Report:
    """Run all configurations of the grid and return the report. Raises InputError when ``cold`` cannot be evicted.

    cold: the path that is evicted from the page cache before each configuration; "" for none. show: called with the
    position in the sweep, such as "3/12", and the number of batches so far.
    """
    root = Root("/")
    cores, (shm, _, _) = read_cores(root), read_shm(root)
    room = room_for_data(read_levels(root), read_memory_room(root))
    runs = tuple(_runs(request, grid.configurations(), cold, root, clock, show))
    return Report(
        clean(f"{request.module}:{request.factory}"),
        clean(request.python),
        clock.wall_ns() // 10**9,
        runs,
        cores,
        os.cpu_count(),
        room,
        shm,
        clean(cold),
        recommend(runs, cores),
    )


def _runs(
    request: Request,
    configurations: list[Configuration],
    cold: str,
    root: Root,
    clock: Clock,
    show: Callable[[str, int], None],
) -> Iterator[Run]:
    """Yield the run of each configuration. Ends after a failure that every other configuration would have too."""
    uses_threads = False
    tried: set[Configuration] = set()
    for number, configuration in enumerate(configurations, 1):
        # A tf.data pipeline runs in threads, so the start method has no effect.
        if uses_threads and configuration._replace(start="") in tried:
            continue
        tried.add(configuration._replace(start=""))
        if cold:
            _evict(cold, clock)
        run = Session(request, configuration, root, clock).run(partial(show, f"{number}/{len(configurations)}"))
        uses_threads = uses_threads or (run.built is not None and run.built.kind == TENSORFLOW)
        yield run
        if run.failure is not None and run.failure.kind in SHARED_FAILURES:
            return


def _evict(top: str, clock: Clock) -> None:
    outcome, _ = evict(top, Audit(clock), PageCache())
    if not outcome.done:
        raise InputError(f"--cold {clean(top)}: {outcome.text}")
