"""Divides an interval of a training process into shares of time, by samples of its threads and its GPUs' utilisation.

With a GPU, the lost time is the GPU's idle time. It is given first to looks that show a wait for data by themselves,
then to looks that only agree with such a wait, then to the running of the main thread. Without a GPU a moment is lost
only where the looks show a wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.job.looks import Loading, LookCounts, Split
from iotop_ai.model.job.time_shares import SHARES

_AT = {name: i for i, name in enumerate(SHARES)}
LOADS_BYTES_PER_S = 1e6
"""Bytes read by calls, per second, that show that a running main thread loads."""
LOADS_DISK = 0.05
"""Share of looks with the main thread blocked by a device that also shows that it loads."""
SAVE_BYTES_PER_S = 1e6
"""Bytes written per second during a wait for a device: a checkpoint, where little is read."""
SAVE_READS = 0.1
LOADERS_REST = 0.2
"""Share of looks with a loader at work, below which the loaders rest."""
DUMPS_BYTES_PER_S = 20e6
"""Bytes written per second that show that a running main thread saves: far above any log, a tenth of a memory copy."""


class Phase(StrEnum):
    """The share that a whole interval counts as, regardless of its samples, except while its GPUs work."""

    TRAINING = ""
    STARTUP = "startup"
    COMPILE = "compile"
    HUNG = "hung"


class Interval(NamedTuple):
    """One training process over an interval. gpu_busy: mean utilisation of its GPUs, 0..1; None without one.

    Rates are bytes per second of the process and of all that it started, None unknown. reads_network_fs: from a network
    filesystem. own_cores: cores on which the process itself ran, None unknown.
    """

    looks: LookCounts
    loading: Loading
    gpu_busy: float | None
    read_bytes_per_s: float | None = None
    read_chars_per_s: float | None = None
    write_bytes_per_s: float | None = None
    reads_network_fs: bool = False
    own_cores: float | None = None
    phase: Phase = Phase.TRAINING
    lately_written_bytes_per_s: float | None = None
    """Mean over the last 10 s: a write counts when it is made, and is waited for when it is flushed."""
    gpus_spin: bool = False
    """Its GPUs are busy without computing: they wait for each other."""
    gpu_receives: bool = False
    """One of its GPUs receives as much as its link carries."""
    own_written_bytes_per_s: float | None = None
    own_read_bytes_per_s: float | None = None
    """Bytes per second that the process itself read from a device, or by calls where that is more."""
    reads_local_fs: bool = False
    """It is known to read from a local filesystem, where read_bytes counts all bytes that it waits for."""
    others_busy: float = 0.0
    """Utilisation of its GPUs by other jobs: then gpu_busy is its own part."""
    core_wait: float | None = None
    """The part without a core of the time in which its main thread was ready to run; None unknown."""


def account(interval: Interval) -> tuple[float, ...]:
    """The shares, in the order of ``SHARES``; they add up to 1."""
    out = [0.0] * len(SHARES)
    looks = interval.looks
    whole = looks.looks
    if not whole:
        out[_AT["hung" if interval.phase is Phase.HUNG else "unexplained"]] = 1.0
        return tuple(out)
    out[_AT["stopped"]] = looks.stopped / whole
    left = 1.0 - looks.stopped / whole
    if left <= 0:
        return tuple(out)
    if interval.phase is not Phase.TRAINING:
        # A GPU works on while another process of the job compiles.
        busy = min(interval.gpu_busy or 0.0, left)
        out[_AT["compute"]] = busy
        out[_AT[interval.phase.value]] = left - busy
    elif interval.gpu_busy is not None:
        _with_gpu(interval, out, left)
    else:
        _without_gpu(interval, out)
    return tuple(out)


def loads(interval: Interval) -> bool:
    """Whether something shows that the main thread reads data, and does not only compute."""
    read = max(interval.read_bytes_per_s or 0.0, interval.read_chars_per_s or 0.0)
    whole = max(1, interval.looks.looks)
    return read >= LOADS_BYTES_PER_S or (interval.looks.main_disk + interval.looks.main_net) / whole >= LOADS_DISK


def saves(interval: Interval) -> bool:
    """Whether waits for a device are waits for writes: much is written during them, and little read."""
    return _mostly_writes(interval.write_bytes_per_s, _reads(interval))


def main_saves(interval: Interval) -> bool:
    """The same for the main thread, which reads no data itself if its loaders are known by name."""
    reads = 0.0 if interval.loading is Loading.NAMED else _reads(interval)
    return saves(interval) or _mostly_writes(interval.lately_written_bytes_per_s, reads)


def _mostly_writes(written: float | None, reads: float) -> bool:
    return (written or 0.0) >= SAVE_BYTES_PER_S and reads < SAVE_READS * (written or 0.0)


def _reads(interval: Interval) -> float:
    """Bytes per second read from storage that may make it wait. read_bytes lacks the bytes from NFS and FUSE."""
    by_calls = 0.0 if interval.reads_local_fs else interval.read_chars_per_s or 0.0
    return max(interval.read_bytes_per_s or 0.0, by_calls)


def _loaders_save(interval: Interval) -> bool:
    """Whether the processes that the main thread waits for may save: loaders that are known by name only read."""
    return interval.loading is not Loading.NAMED and saves(interval)


def saves_aside(interval: Interval) -> bool:
    """Whether the trainer's threads save and do not load data: they use CPU while they prepare their writes."""
    written, read = interval.own_written_bytes_per_s or 0.0, interval.own_read_bytes_per_s
    return written >= SAVE_BYTES_PER_S and read is not None and read < SAVE_READS * written


def _with_gpu(interval: Interval, out: list[float], left: float) -> None:
    looks, whole = interval.looks, interval.looks.looks
    busy = min(interval.gpu_busy or 0.0, left)
    out[_AT["collective" if _waits_for_peers(interval) else "compute"]] = busy
    rest = left - busy
    # Looks that show a wait by themselves.
    sure = (looks.waits.whole + looks.main_disk + looks.main_write + looks.main_net) / whole
    aside = saves_aside(interval) and interval.loading is Loading.ITSELF
    cpu = "checkpoint" if aside else "data_cpu"
    saved = aside or _loaders_save(interval)
    waits = _Waits((looks.waits,), looks.main_disk, looks.main_write, looks.main_net, (cpu,), saved)
    rest -= _take(interval, out, rest, sure, waits)
    # While another job's kernels run, this job may wait for them: only a sure wait is then its own loss.
    shared = min(rest, interval.others_busy)
    out[_AT["unexplained"]] += shared
    rest -= shared
    # A main thread in a futex waits at a thread loader's queue while its threads work. With loader processes, the
    # trainer's threads do not compute data.
    weak = (looks.futex, looks.futex_computing)
    aside = saves_aside(interval) and interval.loading is not Loading.OTHERS
    cpus = ("data_cpu", "checkpoint" if aside else _computes(interval))
    saved = aside or saves(interval)
    rest -= _take(interval, out, rest, sum(part.whole for part in weak) / whole, _Waits(weak, cpus=cpus, saved=saved))
    if interval.gpu_receives:
        out[_AT["transfer"]] += rest
        return
    running = min(rest, looks.running / whole)
    crowded = _crowded_out(interval, running)
    out[_AT["data_cpu"]] += crowded
    running, rest = running - crowded, rest - crowded
    alone = interval.loading is Loading.ITSELF and not weak[0].whole and not weak[1].whole
    dumps = main_saves(interval) and (interval.write_bytes_per_s or 0.0) >= DUMPS_BYTES_PER_S
    out[_AT["checkpoint" if dumps else "data_cpu" if alone and loads(interval) else "host"]] += running
    rest -= running
    backward = min(rest, looks.backward / whole)
    out[_AT["host"]] += backward
    out[_AT["unexplained"]] += max(0.0, rest - backward)


def _crowded_out(interval: Interval, running: float) -> float:
    """The part of the main thread's running share in which it waits for a core that is used to make its data.

    It waits for a core when it takes a batch and when it computes. The part for taking a batch is its waits for data in
    the making divided by the sum of those waits and its time on a core.
    """
    looks, without = interval.looks, interval.core_wait or 0.0
    if not looks.crowded or not looks.waits.cpu:
        return 0.0
    taking = looks.waits.cpu / (looks.waits.cpu + looks.running * (1 - without))
    return running * looks.crowded / looks.running * without * taking


def _computes(interval: Interval) -> str:
    """The name of the share for the trainer's own threads that compute while its main thread sleeps."""
    if interval.loading is not Loading.NAMED:
        return "data_cpu"
    return "transfer" if interval.gpu_receives else "host"


def _waits_for_peers(interval: Interval) -> bool:
    """Whether busy GPUs only spin. If loaders are working, batches are handed over: then the kernels are small."""
    looks = interval.looks
    work = looks.waits.whole + looks.futex.whole + looks.futex_computing.whole
    return interval.gpus_spin and work < LOADERS_REST * looks.looks


def _without_gpu(interval: Interval, out: list[float]) -> None:
    looks, whole = interval.looks, interval.looks.looks
    sure = (looks.waits.whole + looks.main_disk + looks.main_write + looks.main_net) / whole
    waits = _Waits((looks.waits,), looks.main_disk, looks.main_write, looks.main_net, saved=_loaders_save(interval))
    _take(interval, out, sure, sure, waits)
    # A look at a futex is a wait only without a computing thread: the threads of a thread loader compute as well.
    asleep = _Waits((looks.futex,), saved=saves(interval))
    _take(interval, out, looks.futex.whole / whole, looks.futex.whole / whole, asleep)
    out[_AT["compute"]] += (looks.futex_computing.whole + looks.backward) / whole
    alone = interval.loading is Loading.ITSELF and (interval.own_cores is None or interval.own_cores <= _ONE_THREAD)
    running, crowded = looks.running / whole, _crowded_out(interval, looks.running / whole)
    out[_AT["data_cpu"]] += crowded
    out[_AT["data_cpu" if alone and loads(interval) else "compute"]] += running - crowded
    # While the loader workers have nothing to do, the main thread is not waiting for data, even if it sleeps.
    fed = interval.loading is not Loading.ITSELF
    out[_AT["compute" if fed else "unexplained"]] += looks.asleep / whole
    out[_AT["unexplained"]] += (looks.resting + looks.hidden) / whole


_ONE_THREAD = 1.3


class _Waits(NamedTuple):
    """Looks at waits. disk, write, net: the main thread's own. cpus: the share that each split's CPU goes to.

    saved: the waits for a device are waits for writes.
    """

    splits: Sequence[Split]
    disk: int = 0
    write: int = 0
    net: int = 0
    cpus: Sequence[str] = ("data_cpu", "data_cpu")
    saved: bool = False


def _take(interval: Interval, out: list[float], most: float, found: float, waits: _Waits) -> float:
    """Give at most ``most`` of the time to the shares, in the proportion of these looks; returns the time given."""
    taken = min(most, found)
    if taken <= 0:
        return 0.0
    whole = interval.looks.looks
    part = taken / found / whole
    files = "data_network" if interval.reads_network_fs else "data_disk"
    disks = "checkpoint" if waits.saved else files
    for split, cpu in zip(waits.splits, waits.cpus, strict=False):
        out[_AT[disks]] += split.disk * part
        out[_AT["data_network"]] += split.network * part
        out[_AT[cpu]] += split.cpu * part
        out[_AT["data_other"]] += split.other * part
    out[_AT["checkpoint" if waits.saved or main_saves(interval) else files]] += waits.disk * part
    out[_AT["checkpoint"]] += waits.write * part
    out[_AT["data_network"]] += waits.net * part
    return taken
