"""Every number that a rule compares with, in one place, with its source."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.finding import SHORTEST_S
from iotop_ai.model.gpu import activity

RULES_VERSION = 12
"""Grows with every change of a rule or of a number here: what was decided by another version is decided again."""


class Thresholds(NamedTuple):
    """The rules' numbers. Ratios 0..1; the name ends with the unit.

    Chosen on labelled runs, where no source is named. ``*_leave``: where an active finding leaves, if not at
    leave_level of its threshold.
    """

    window_s: float = 10.0
    """Window of most rules."""
    long_window_s: float = 60.0
    """Window for small, steady losses."""
    idle_window_s: float = 30.0
    """Window of idle."""
    shortest_s: float = SHORTEST_S
    """Observed time before which no rule with a window claims anything."""
    enter_share: float = 0.7
    """Part of a window's samples in which a condition must hold to enter."""
    leave_share: float = 0.3
    """A finding leaves when its condition holds in a smaller part of the samples."""
    leave_level: float = 0.7
    """A finding also leaves when its main signal is below this part of its threshold."""
    least_samples: int = 3
    """Samples that a window needs."""
    dwell_s: float = 10.0
    """Shortest stay of a finding."""
    decide_s: float = 0.9
    """Shortest time between two decisions."""
    keep_s: float = 3.0
    """Stay after the condition last held."""
    confirm_s: float = 4.0
    """Another cause of a job's wait must hold this long to replace the first."""
    periods: int = 3
    """A window is at least this many periods of its slowest reading."""

    gpu_starved: float = 0.3
    """Below this utilisation a GPU starves. Source: the classic rule for one serial disk, as thread_* and disk_*."""
    thread_busy: float = 0.9
    """CPU from which one thread is busy, in cores."""
    thread_most: float = 1.3
    """CPU up to which it is one thread, in cores."""
    disk_busy: float = 0.8
    """%util of a saturated serial disk; iostat(1): it does not show saturation of parallel devices."""
    disk_await_ms: float = 20.0
    """Await of a saturated serial disk."""
    disk_busy_bad: float = 0.99
    """%util from which a saturated serial disk is critical."""
    disk_await_bad_ms: float = 50.0
    """Await from which a saturated disk is critical."""

    inflation_some: float = 1.5
    """Await over normal from which a device that serves in parallel is above normal."""
    inflation_slow: float = 3.0
    """Await over normal from which it is slow."""
    inflation_severe: float = 8.0
    """Await over normal from which it is saturated."""
    network_prior_ms: float = 5.0
    """Normal await of n bytes: *_prior_ms + n / *_prior_bytes_per_s, by transport. Source: typical figures."""
    network_prior_bytes_per_s: float = 250e6
    """See network_prior_ms."""
    nvme_prior_ms: float = 0.3
    """See network_prior_ms."""
    nvme_prior_bytes_per_s: float = 3000e6
    """See network_prior_ms."""
    learned_floor: float = 0.5
    """Part of its kind's normal await; below it the device's own history does not count."""
    hdd_prior_ms: float = 12.0
    """A 4 KiB random read of a 7,200 rpm disk. Source: Linux commit 2b8bd423614c (12.1 ms)."""
    hdd_prior_bytes_per_s: float = 150e6
    """See hdd_prior_ms."""
    ssd_prior_ms: float = 1.0
    """See network_prior_ms."""
    ssd_prior_bytes_per_s: float = 500e6
    """See network_prior_ms."""

    blocked: float = 0.5
    """Mean share of time in state D of a blocked process."""
    carried_share: float = 0.2
    """Part of a device's reads that a process waiting for it makes."""
    small_read_bytes: float = 48 * 1024
    """Below this size a read is small."""
    steady_variation: float = 0.05
    """Standard deviation over mean of a flat throughput."""
    steady_busy: float = 0.95
    """%util beside a flat throughput."""

    worker_busy: float = 0.7
    """CPU of a worker that computes."""
    gate: float = 0.08
    """Share of time lost below which no rule claims a loss."""
    long_gate: float = 0.05
    """The same share over the long window."""
    lost_high: float = 0.20
    """Share of time lost from which a loss is critical. Source: TensorFlow's profiler
    (op_stats_to_input_pipeline_analysis.cc)."""
    pressure: float = 0.1
    """Pressure that agrees with a stall; the system's is diluted over busy CPUs and only supports."""

    gpu_fair: float = 0.7
    """Below this utilisation a GPU has idle time."""
    gpu_bound: float = activity.BUSY
    """From this utilisation on a GPU is busy; NVML counts time with any kernel running."""
    power_share: float = 0.4
    """Power over its limit from which a busy GPU computes; a spinning collective draws little."""
    gpu_used_bytes: int = 512 << 20
    """Memory from which a GPU without visible process is in use (a container hides processes)."""

    idle_gpu: float = 0.05
    """Utilisation below which a GPU is idle; a machine is idle below all five idle_* numbers."""
    idle_cpu: float = 0.05
    """CPU of all cores below which a machine is idle."""
    idle_thread: float = 0.5
    """CPU of each process below which a machine is idle, in cores."""
    idle_bytes_per_s: float = 1e6
    """Bytes of all disks below which a machine is idle."""
    idle_disk_busy: float = 0.05
    """%util of each disk below which a machine is idle."""
    busy_cpu: float = 0.9
    """Without a training job: the share of all CPUs in use that is their limit."""
    busy_memory: float = 0.95
    """Share of memory that is not available, from which the memory is at its limit."""
    busy_memory_leave: float = 0.9
    """Below this share memory is no longer at its limit."""
    core_share: float = 0.8
    """Part of the cores that DataLoader workers should get."""

    decider: float = 0.5
    """Part of the busy workers that decides the cause."""
    decider_sure: float = 0.7
    """From this part on the cause is certain."""
    phase_share: float = 0.5
    """Share of time that a job compiles, is stopped or hangs."""
    main_share: float = 0.3
    """Share of time in which a trainer without workers loads."""
    cores_short: float = 0.3
    """Share of time runnable without a core: too few cores."""
    limit_near: float = 0.15
    """Distance from a cgroup limit that counts as at the limit."""
    queue_share: float = 0.3
    """Part of the waiting readers in a device's queue, below which they wait elsewhere."""
    refault_ratio: float = 0.3
    """Refaulted bytes over bytes read of a thrashing cache."""
    thrash_window_s: float = 30.0
    """Window of cache_thrash."""
    save_ticks: int = 3
    """Ticks with a blocked trainer of a checkpoint."""
    save_reads: float = 0.1
    """The job's reads over the disk's writes, at most."""
    save_writes: float = 0.2
    """The job's part of the disk's writes, at least."""
    save_bytes_per_s: float = 1e6
    """Write rate of a checkpoint, at least."""
    memory_pressure: float = 0.1
    """Share of time in which a task waits for memory."""
    swap_bytes_per_s: float = 1e6
    """Rate of swapping in."""
    shm_full: float = 0.9
    """Used part of a full /dev/shm."""
    shm_leave: float = 0.8
    """Below this used part the finding leaves."""
    full_ratio: float = 0.99
    """Used part of a full filesystem, of bytes or inodes."""
    full_bytes: float = 1 << 30
    """A full filesystem also has less free than this."""
    settle_s: float = 15.0
    """Age below which a job is not judged."""
    starting_s: float = 1200.0
    """Age up to which a job may be starting."""
    growing_bytes_per_s: float = 5e6
    """Memory growth of a starting job."""
    error_memory_s: float = 600.0
    """Time for which a device's error in the kernel's log counts."""
    hung_s: float = 10.0
    """A device that completes no request for this long does not answer."""
    hung_bad_s: float = 30.0
    """Time after which the kernel gives up a request. Source: nvme_core.io_timeout."""

    gpu_window_s: float = 30.0
    """Window of most GPU rules."""
    comm_window_s: float = 20.0
    """Window of comm_wait."""
    gpu_loaded: float = 0.2
    """Utilisation from which a link is judged."""
    gpu_working: float = 0.5
    """Utilisation from which a clock is judged."""
    throttled: float = 0.05
    """Share of time in which heat or the power brake lowers the clock, by the driver's counters."""
    throttled_leave: float = 0.01
    """Below this share the finding leaves."""
    throttled_mask: float = 0.3
    """Share of readings where a GPU has only the mask of reasons."""
    throttled_mask_leave: float = 0.1
    """Below this share the finding leaves."""
    gpu_hot_celsius: float = 85.0
    """Temperature from which a GPU is hot, whatever its own limit; a classic limit."""
    hot_margin: float = 3.0
    """A GPU is also hot this many degrees below the temperature at which it slows down."""
    clock_low: float = 0.85
    """Part of its highest clock that a loaded GPU keeps."""
    capped: float = 0.3
    """Share of time at a lowered power limit."""
    capped_leave: float = 0.15
    """Below this share the finding leaves."""
    limit_lowered: float = 0.9
    """A power limit below this part of the board's own is lowered."""
    link_full: float = activity.LINK_FULL
    """Part of a PCIe link's rate at which it is full."""
    link_full_leave: float = 0.65
    """Below this part the finding leaves."""
    link_felt: float = 0.5
    """Part of its rate at which a degraded link costs time."""
    link_bytes_per_s: float = activity.LINK_BYTES_PER_S
    """Practical rate of PCIe generation 5 x16; half of it for each generation before."""
    replays_per_s: float = 1.0
    """Retransmitted packets of a faulty link."""
    replays_felt: float = 1000.0
    """Retransmitted packets that cost time."""
    gpu_memory: float = 0.95
    """Used part of a full GPU memory."""
    gpu_memory_leave: float = 0.92
    """Below this part the finding leaves."""
    gpu_memory_end_s: float = 600.0
    """Full within this time is an alarm."""
    xid_program_s: float = 600.0
    """Time for which a program's own error is shown."""
    spin_power: float = activity.SPIN_POWER
    """Part of the power limit below which GPUs that are never idle only spin; an H100 draws about 14 % then."""
    spin_power_sure: float = activity.SPIN_POWER_SURE
    """The same where the tensor cores are idle or no batch arrives."""
    spin_leave: float = 1.4
    """Factor on both numbers above which the finding leaves."""
    spin_fallen: float = 0.4
    """Power over the highest power of the same processes, below which they only spin."""
    spin_fallen_leave: float = 0.6
    """Above this ratio the finding leaves."""
    gpu_held_s: float = 600.0
    """Idle time after which held memory is shown."""
    tensor_none: float = activity.TENSOR_NONE
    """Activity of idle tensor cores."""
    sm_busy: float = 0.8
    """SM activity from which a GPU is used effectively. Source: DCGM user guide, profiling metrics."""
    sm_idle: float = activity.SM_IDLE
    """SM activity below which a GPU is used ineffectively. Source: DCGM user guide, profiling metrics."""
    workers_rest: float = 0.8
    """Share of time asleep of idle workers."""
    batch_writes: float = 0.2
    """Write calls of all workers a second, below which no batch arrives; a batch takes about five."""
    network_full: float = 0.8
    """Part of a network link's speed at which it is full."""
    spread: float = 0.25
    """Difference of utilisation between GPUs of one job."""
    spread_leave: float = 0.15
    """Below this difference the finding leaves."""
    peer_power: float = 0.6
    """Part of the late GPU's power below which the others only wait."""
    peer_power_leave: float = 0.75
    """Above this part the finding leaves."""
    unused_window_s: float = 30.0
    """Window of no_gpu."""
    trains: float = 0.1
    """Cores used from which a job without a GPU is at work."""

    baseline_minutes: int = 10
    """Minutes from which a device's own history counts as normal."""
    baseline_reads: int = 10
    """Reads that such a minute needs."""
    small_read_leave_bytes: float = 64 * 1024
    """Size above which small_random leaves."""
    serial_leave: float = 2.0
    """Await over normal at which loader_serial leaves."""
    queue_leave: float = 0.6
    """Part of the readers in the queue at which io_limit leaves."""
    limit_leave: float = 0.25
    """Distance from the limit at which io_limit leaves."""
    refault_leave: float = 0.2
    """Refault ratio at which cache_thrash leaves."""
    other_share: float = 0.4
    """Part of a device's bytes, or of the CPU, that others have when they are the cause."""
    own_share: float = 0.5
    """The job has less than this part of the device's bytes; others use at least this part of the busy cores."""
    crowded: float = 1.5
    """A worker waits for a core this many times as long as it has one."""
    respawn_s: float = 1.0
    """Seconds without data after a restart of all workers, from which it counts."""
    respawn_turns: int = 2
    """Number of such restarts."""
    respawn_most_s: float = 20.0
    """Time for which a restart is followed."""
    serving_window_s: float = 60.0
    """Window of serving."""
    asleep_share: float = 0.6
    """Share of samples in which a server without requests sleeps."""


LIMITS = Thresholds()
