"""Divides an interval of a training process into shares, by the looks at its threads and the use of its GPUs.

looks.py explains the terms "look" and "makers of data".

With a GPU, the lost time is the GPU's idle time. It is assigned first by the looks that prove a wait, then by those
that only suggest one, then by those in which the main thread runs. Without a GPU, time is lost only if the looks show a
wait, or if the main thread loads data itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.gpu.activity import IDLE
from iotop_ai.model.job.looks import Loading, LookCounts, Split
from iotop_ai.model.job.time_shares import SHARES

_INDEX = {name: i for i, name in enumerate(SHARES)}
LOADS_BYTES_PER_S = 1e6
"""A running main thread counts as loading data if it reads at least this much per second, from devices or by calls."""
DECODES_BYTES_PER_S = 5e6
"""The least bytes per second that a core reads while it decodes. Recorded: 5 to 28 MB/s."""
_LEAST_RUNNING = 0.05
LOADS_DISK = 0.05
"""A running main thread also counts as loading data if it waits for a device or socket in this share of the looks."""
SAVE_BYTES_PER_S = 1e6
"""A wait for a device is for a checkpoint if at least this many bytes per second are written and few are read."""
SAVE_READS = 0.1
"""Few bytes are read if they are less than this share of the bytes written."""
LOADERS_REST = 0.2
"""The loaders count as resting if less than this share of the looks finds a loader at work."""
DUMPS_BYTES_PER_S = 20e6
"""A running main thread saves data if it writes at least this many bytes per second: far more than any log, yet little
for a checkpoint."""
LEAST_OWN_WAIT = 0.1
"""The waits of a job's ranks add up only if the ranks wait for data for at least this share of the time on average.
Ranks that wait less may be independent of each other, and then the sum of their waits would overstate the loss.
"""
_DATA_KINDS = ("data_disk", "data_network", "data_cpu", "data_other")
"""The shares that the fields of a Split belong to, in their order."""
_ONE_THREAD = 1.3
"""A process that uses at most this many cores counts as computing with one thread."""


class Phase(StrEnum):
    """A phase of a job. Except in TRAINING, all time in which no GPU works goes to the share with the phase's name."""

    TRAINING = ""
    STARTUP = "startup"
    COMPILE = "compile"
    HUNG = "hung"


class Interval(NamedTuple):
    """One training process over an interval. The I/O rates include its descendants, except the rates called own.

    gpu_busy: the mean utilisation of its GPUs, 0 to 1; None without a GPU, and if unknown
    read_bytes_per_s, read_chars_per_s, write_bytes_per_s: bytes read from devices, read by calls, and written; None if
        unknown
    reads_network_fs: whether it reads from a network filesystem
    own_cores: the number of cores on which the process itself ran; None if unknown
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
    """The mean of write_bytes_per_s over the last 10 s: a write counts when issued, but is waited for when flushed."""
    gpus_spin: bool = False
    """Whether its GPUs are busy without computing, because they wait for each other."""
    gpu_receives: bool = False
    """Whether one of its GPUs receives as much as its link can carry."""
    own_lately_written_bytes_per_s: float | None = None
    """Bytes per second that the process itself wrote, as a mean over the last 10 s."""
    own_lately_read_bytes_per_s: float | None = None
    """The same for bytes that it read: from a device, or by calls if that is more."""
    reads_local_fs: bool = False
    """Whether it is known to read from a local filesystem, where read_bytes_per_s includes all reads that can block."""
    others_busy: float = 0.0
    """The mean utilisation of its GPUs by other jobs; if it is not 0, gpu_busy is only this job's part."""
    core_wait: float | None = None
    """The share of its main thread's runnable time in which the thread waited for a core; None if unknown."""
    main_sleeps: bool = False
    """Whether its main thread has not run for a minute."""
    own_write_bytes_per_s: float | None = None
    """Bytes per second that the process itself wrote in this interval."""
    gpus_rest: bool = False
    """Whether its GPUs have been idle for longer than a step and the making of its batch usually take."""
    accelerator_unseen: bool = False
    """Whether it uses an accelerator whose activity is unknown, such as a TPU."""


def account(interval: Interval) -> tuple[float, ...]:
    """The shares in the order of ``SHARES``; they add up to 1."""
    out = [0.0] * len(SHARES)
    looks = interval.looks
    whole = looks.looks
    if not whole:
        out[_INDEX["hung" if interval.phase is Phase.HUNG else "unexplained"]] = 1.0
        return tuple(out)
    out[_INDEX["stopped"]] = looks.stopped / whole
    left = 1.0 - looks.stopped / whole
    if left <= 0:
        return tuple(out)
    if interval.phase is not Phase.TRAINING:
        # A GPU may work while another process of the job compiles.
        busy = min(interval.gpu_busy or 0.0, left)
        out[_INDEX["compute"]] = busy
        out[_INDEX[interval.phase.value]] = left - busy
    elif interval.gpu_busy is not None:
        _with_gpu(interval, out, left)
    else:
        _without_gpu(interval, out)
    return tuple(out)


def ranks_wait_in_turns(accounts: Sequence[tuple[tuple[float, ...], Interval]]) -> bool:
    """Whether the waits of several ranks add up: their mean wait reaches LEAST_OWN_WAIT, and none saves a checkpoint.

    accounts: the shares of each rank, and its interval
    """
    if len(accounts) < 2 or any(one.phase is not Phase.TRAINING or main_saves(one) for _, one in accounts):
        return False
    return sum(data_of(shares) for shares, _ in accounts) >= LEAST_OWN_WAIT * len(accounts)


def account_with_peers(interval: Interval) -> tuple[float, ...]:
    """The shares of ``account``, where the time in which only another rank of the job waits for data counts as a wait
    for data too.

    Ranks that step together lose that time too: the GPUs of a rank whose batch has come compute its step, or spin in
    a collective, until the last batch has come. Which rank is the last may change with each step, so the wait of one
    rank alone would be too small. As with the rank's own waits, only a part of the looks costs the GPUs time if the
    main threads run ahead of them.
    """
    shares, looks = account(interval), interval.looks
    own_looks = looks.waits.whole + looks.main_disk + looks.main_net
    if not looks.peer_waits.whole or not own_looks:
        return shares
    waits = looks.peer_waits.whole / looks.looks * min(1.0, data_of(shares) * looks.looks / own_looks)
    out, moved = list(shares), 0.0
    for name in ("collective", "compute", "unexplained"):
        part = min(out[_INDEX[name]], waits - moved)
        out[_INDEX[name]] -= part
        moved += part
    kinds = ("data_network", *_DATA_KINDS[1:]) if interval.reads_network_fs else _DATA_KINDS
    for name, part in zip(kinds, looks.peer_waits, strict=True):
        out[_INDEX[name]] += moved * part / looks.peer_waits.whole
    return tuple(out)


def data_of(shares: tuple[float, ...]) -> float:
    """The part of these shares that is a wait for data."""
    return sum(shares[_INDEX[name]] for name in _DATA_KINDS)


def loads(interval: Interval) -> bool:
    """Whether the main thread seems to read data, instead of only computing."""
    read = max(interval.read_bytes_per_s or 0.0, interval.read_chars_per_s or 0.0)
    whole = max(1, interval.looks.looks)
    return read >= LOADS_BYTES_PER_S or (interval.looks.main_disk + interval.looks.main_net) / whole >= LOADS_DISK


def _loading_part(interval: Interval) -> float:
    """The part of a running main thread's time that is surely spent on loading, 0 to 1; the rest may be its own Python.

    The thread decodes at least DECODES_BYTES_PER_S while it loads, so a thread that reads less also does other things.
    """
    whole = max(1, interval.looks.looks)
    if (interval.looks.main_disk + interval.looks.main_net) / whole >= LOADS_DISK:
        return 1.0
    read = max(interval.read_bytes_per_s or 0.0, interval.read_chars_per_s or 0.0)
    read = max(read, interval.own_lately_read_bytes_per_s or 0.0)  # a long batch may be read in an earlier interval
    return min(1.0, read / (DECODES_BYTES_PER_S * max(interval.looks.running / whole, _LEAST_RUNNING)))


def saves(interval: Interval) -> bool:
    """Whether waits for a device are waits for writes: the process writes much and reads little in this interval."""
    return _mostly_writes(interval.write_bytes_per_s, _reads(interval))


def main_saves(interval: Interval) -> bool:
    """Whether waits of the main thread for a device are waits for writes.

    If the job's loaders are known by name, the main thread reads no data itself. If the loaders are processes, what
    they write does not count.
    """
    reads = 0.0 if interval.loading is Loading.NAMED else _reads(interval)
    written, lately = interval.write_bytes_per_s, interval.lately_written_bytes_per_s
    if interval.loading is not Loading.ITSELF:
        written = _own_part(interval.own_write_bytes_per_s, written)
        lately = _own_part(interval.own_lately_written_bytes_per_s, lately)
    return _mostly_writes(written, _reads(interval)) or _mostly_writes(lately, reads)


def _own_part(own: float | None, whole: float | None) -> float | None:
    """What the process itself wrote; if that is unknown, what it wrote together with its descendants."""
    return whole if own is None else own


def _mostly_writes(written: float | None, reads: float) -> bool:
    return (written or 0.0) >= SAVE_BYTES_PER_S and reads < SAVE_READS * (written or 0.0)


def _reads(interval: Interval) -> float:
    """The bytes per second of reads that may block the process; read_bytes_per_s excludes those from NFS and FUSE."""
    by_calls = 0.0 if interval.reads_local_fs else interval.read_chars_per_s or 0.0
    return max(interval.read_bytes_per_s or 0.0, by_calls)


def _loaders_save(interval: Interval) -> bool:
    """Whether the processes that the main thread waits for may save data; loaders known by name only read."""
    return interval.loading is not Loading.NAMED and saves(interval)


def saves_in_background(interval: Interval) -> bool:
    """Whether the trainer's other threads save data rather than load it; they use CPU time to prepare the writes."""
    written, read = interval.own_lately_written_bytes_per_s or 0.0, interval.own_lately_read_bytes_per_s
    return written >= SAVE_BYTES_PER_S and read is not None and read < SAVE_READS * written


def _with_gpu(interval: Interval, out: list[float], left: float) -> None:
    """Assign the time of a process with a GPU. left: the share of the interval that is not assigned yet."""
    looks, whole = interval.looks, interval.looks.looks
    busy = min(interval.gpu_busy or 0.0, left)
    out[_INDEX["collective" if _waits_for_peers(interval) else "compute"]] = busy
    rest = left - busy
    # These looks show a wait by themselves.
    certain = (looks.waits.whole + looks.main_disk + looks.main_write + looks.main_net) / whole
    in_background = saves_in_background(interval) and interval.loading is Loading.ITSELF
    cpu = "checkpoint" if in_background else "unexplained" if _trains_in_a_thread(interval) else "data_cpu"
    saved = in_background or _loaders_save(interval)
    waits = _Waits((looks.waits,), looks.main_disk, looks.main_write, looks.main_net, (cpu,), saved)
    rest -= _assign_waits(interval, out, rest, certain, waits)
    # While another job's kernels run, this job may wait for them, so only a certain wait counts as its lost time.
    shared = min(rest, interval.others_busy)
    out[_INDEX["unexplained"]] += shared
    rest -= shared
    # A main thread in a futex waits at the queue of a thread loader while the loader's threads work. If the loaders are
    # processes that are known by name, the trainer's threads do not prepare data.
    weak = (looks.futex, looks.futex_computing)
    in_background = saves_in_background(interval) and interval.loading is not Loading.OTHERS
    cpus = ("data_cpu", "checkpoint" if in_background else _share_of_computing(interval))
    saved = in_background or saves(interval)
    uncertain = sum(split.whole for split in weak) / whole
    rest -= _assign_waits(interval, out, rest, uncertain, _Waits(weak, cpus=cpus, saved=saved))
    if interval.gpu_receives:
        out[_INDEX["transfer"]] += rest
        return
    running = min(rest, looks.running / whole)
    crowded = _crowded_out(interval, running)
    out[_INDEX["data_cpu"]] += crowded
    running, rest = running - crowded, rest - crowded
    loads_alone = interval.loading is Loading.ITSELF and not weak[0].whole and not weak[1].whole
    written = _own_part(interval.own_write_bytes_per_s, interval.write_bytes_per_s) or 0.0
    dumps = written >= DUMPS_BYTES_PER_S and main_saves(interval)
    if not dumps and loads_alone and loads(interval):
        loading = running * _loading_part(interval)
        out[_INDEX["data_cpu"]] += loading
        out[_INDEX["unexplained"]] += running - loading
    else:
        out[_INDEX["checkpoint" if dumps else "host"]] += running
    rest -= running
    backward = min(rest, looks.backward / whole)
    out[_INDEX["host"]] += backward
    out[_INDEX["unexplained"]] += max(0.0, rest - backward)


def _crowded_out(interval: Interval, running: float) -> float:
    """The part of the main thread's running share in which it waits for a core because the makers of its data use the
    cores.

    The thread waits for a core both to take a batch and to compute. The part for taking batches is estimated: its waits
    while data is made, divided by the sum of these waits and its time on a core.
    """
    looks, core_wait = interval.looks, interval.core_wait or 0.0
    if not looks.crowded or not looks.waits.cpu:
        return 0.0
    taking = looks.waits.cpu / (looks.waits.cpu + looks.running * (1 - core_wait))
    return running * looks.crowded / looks.running * core_wait * taking


def _share_of_computing(interval: Interval) -> str:
    """The name of the share for time in which the trainer's other threads compute while its main thread sleeps."""
    if interval.loading is not Loading.NAMED:
        return "unexplained" if _trains_in_a_thread(interval) or _compiles_itself(interval) else "data_cpu"
    if interval.main_sleeps:
        return "unexplained"  # another thread trains, and what it waits for is not looked at
    return "transfer" if interval.gpu_receives else "host"


def _compiles_itself(interval: Interval) -> bool:
    """Whether the threads that compute may be a compiler inside the process, as in JAX: GPUs rest, no data is read."""
    lately = interval.own_lately_read_bytes_per_s
    reads_little = lately is not None and lately < LOADS_BYTES_PER_S
    return interval.gpus_rest and interval.loading is Loading.ITSELF and reads_little and not loads(interval)


def _trains_in_a_thread(interval: Interval) -> bool:
    """Whether the one thread that computes may run the training loop instead of loading data.

    It may if the main thread has not run for a minute, and so takes no batches, while the GPU works and nothing is
    read. A single loader thread looks the same if all steps of a minute are one call, as with TensorFlow's
    steps_per_execution.
    """
    one_thread = interval.own_cores is not None and interval.own_cores <= _ONE_THREAD
    works = interval.main_sleeps and one_thread and (interval.gpu_busy or 0.0) >= IDLE
    return works and interval.loading is Loading.ITSELF and not loads(interval)


def _waits_for_peers(interval: Interval) -> bool:
    """Whether the busy GPUs only wait for each other.

    If the loaders work, batches arrive, so low power means small kernels instead of waiting.
    """
    looks = interval.looks
    work = looks.waits.whole + looks.futex.whole + looks.futex_computing.whole
    return interval.gpus_spin and work < LOADERS_REST * looks.looks


def _without_gpu(interval: Interval, out: list[float]) -> None:
    """Assign the time of a process without a GPU, by the kinds of looks."""
    looks, whole = interval.looks, interval.looks.looks
    certain = (looks.waits.whole + looks.main_disk + looks.main_write + looks.main_net) / whole
    waits = _Waits((looks.waits,), looks.main_disk, looks.main_write, looks.main_net, saved=_loaders_save(interval))
    _assign_waits(interval, out, certain, certain, waits)
    # A main thread in a futex waits for data only if no thread computes; otherwise it may wait for what the thread
    # computes.
    asleep = _Waits((looks.futex,), saved=saves(interval))
    if interval.accelerator_unseen:
        out[_INDEX["unexplained"]] += looks.futex.whole / whole  # it may also wait for the accelerator
    else:
        _assign_waits(interval, out, looks.futex.whole / whole, looks.futex.whole / whole, asleep)
    out[_INDEX["compute"]] += (looks.futex_computing.whole + looks.backward) / whole
    one_thread = interval.own_cores is None or interval.own_cores <= _ONE_THREAD
    loads_alone = interval.loading is Loading.ITSELF and one_thread
    running, crowded = looks.running / whole, _crowded_out(interval, looks.running / whole)
    out[_INDEX["data_cpu"]] += crowded
    out[_INDEX["data_cpu" if loads_alone and loads(interval) else "compute"]] += running - crowded
    # If other processes load the data, a sleep outside of the queue is not a wait for data.
    others_load = interval.loading is not Loading.ITSELF
    out[_INDEX["compute" if others_load else "unexplained"]] += looks.asleep / whole
    out[_INDEX["unexplained"]] += (looks.resting + looks.hidden) / whole


class _Waits(NamedTuple):
    """Looks that show waits.

    disk, write, net: the numbers of looks in which the main thread itself waits
    cpus: the name of the share to which the CPU part of each split belongs
    saved: whether the waits for a device are waits for writes
    """

    splits: Sequence[Split]
    disk: int = 0
    write: int = 0
    net: int = 0
    cpus: Sequence[str] = ("data_cpu", "data_cpu")
    saved: bool = False


def _assign_waits(interval: Interval, out: list[float], most: float, share: float, waits: _Waits) -> float:
    """Assign time to the shares in proportion to these looks. Returns the time assigned, at most ``most``.

    most: the share of time that is left to assign
    share: the share of the looks that show these waits
    """
    taken = min(most, share)
    if taken <= 0:
        return 0.0
    whole = interval.looks.looks
    part = taken / share / whole
    read_share = "data_network" if interval.reads_network_fs else "data_disk"
    disk_share = "checkpoint" if waits.saved else read_share
    for split, cpu in zip(waits.splits, waits.cpus, strict=False):
        out[_INDEX[disk_share]] += split.disk * part
        out[_INDEX["data_network"]] += split.network * part
        out[_INDEX[cpu]] += split.cpu * part
        out[_INDEX["data_other"]] += split.other * part
    out[_INDEX["checkpoint" if waits.saved or main_saves(interval) else read_share]] += waits.disk * part
    out[_INDEX["checkpoint"]] += waits.write * part
    out[_INDEX["data_network"]] += waits.net * part
    return taken
