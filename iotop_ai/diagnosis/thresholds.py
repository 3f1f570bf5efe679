"""The numbers that the rules compare with, and the sources of these numbers."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.finding import SHORTEST_S
from iotop_ai.model.gpu import activity, sharing

RULES_VERSION = 26
"""The version of the rules, raised at every change of a rule or of a number below. A recorded verdict of another
version is decided again."""


class Thresholds(NamedTuple):
    """The numbers that the rules compare with. Shares are 0..1; where a name does not end with the unit, the text
    below gives it.

    A number without a source was chosen on labelled runs. A number ``*_leave`` is the value at which an active finding
    ends; without such a number, a finding ends at leave_level times its threshold, unless its class sets
    ClassSpec.leave.
    """

    window_s: float = 10.0
    """The window of most rules."""
    long_window_s: float = 60.0
    """The window in which small but steady losses are found."""
    idle_window_s: float = 30.0
    """The window of the rule about an idle machine."""
    shortest_s: float = SHORTEST_S
    """The time that must be observed before a rule with a window claims anything."""
    enter_share: float = 0.7
    """A finding becomes active when its condition holds in at least this part of the window's samples."""
    leave_share: float = 0.3
    """A finding ends when its condition holds in a smaller part of the samples than this."""
    leave_level: float = 0.7
    """A finding also ends when its main signal falls below this part of its threshold."""
    least_samples: int = 3
    """The fewest samples with which a window is judged."""
    dwell_s: float = 10.0
    """The shortest time for which a finding stays active."""
    decide_s: float = 0.9
    """The shortest time between two decisions."""
    keep_s: float = 3.0
    """The time for which a finding stays active after its condition last held."""
    loader_stays_s: float = 2.0
    """A job that has had a loader for this long is not starting."""
    confirm_s: float = 4.0
    """The time for which another cause of a job's wait must hold before it replaces the active cause."""
    periods: int = 3
    """A window is at least this many periods of its slowest reading."""

    gpu_starved: float = 0.3
    """Below this utilisation a GPU starves. Source: the classic rule of thumb for training from one serial disk, which
    is also the source of thread_* and disk_*."""
    thread_busy: float = 0.9
    """A thread is busy if it uses at least this many cores."""
    decode_bytes_per_s: float = 3e6
    """A core that only decodes data reads at least this many bytes per second. Recorded: 5 to 28 MB/s per core; the
    account of a job's time counts from 5 MB/s (time_account.DECODES_BYTES_PER_S), a verdict leaves a margin."""
    thread_most: float = 1.3
    """A process that uses up to this many cores counts as one busy thread."""
    disk_busy: float = 0.8
    """A serial disk is busy at or above this %util, and saturated if its await also reaches disk_await_ms. iostat(1):
    %util does not show the saturation of parallel devices."""
    disk_await_ms: float = 20.0
    """A busy serial disk is saturated at or above this await."""
    disk_busy_bad: float = 0.99
    """A serial disk is critical at or above this %util if its await also reaches disk_await_bad_ms."""
    disk_await_bad_ms: float = 50.0
    """A saturated disk is critical at or above this await; a serial disk must also reach disk_busy_bad."""

    inflation_some: float = 1.5
    """A device that serves requests in parallel is slower than normal if its await is at least this multiple of
    normal."""
    inflation_slow: float = 3.0
    """Such a device is slow if its await is at least this multiple of normal."""
    inflation_severe: float = 8.0
    """Such a device is saturated if its await is at least this multiple of normal."""
    network_prior_ms: float = 5.0
    """The normal await of a read of n bytes is *_prior_ms + 1000 n / *_prior_bytes_per_s, by transport. Source:
    typical figures."""
    network_prior_bytes_per_s: float = 250e6
    """See network_prior_ms."""
    nvme_prior_ms: float = 0.3
    """See network_prior_ms."""
    nvme_prior_bytes_per_s: float = 3000e6
    """See network_prior_ms."""
    learned_floor: float = 0.5
    """A device's learned await is raised to at least this part of the normal await of its kind."""
    hdd_prior_ms: float = 12.0
    """The await of a random 4 KiB read on a 7,200 rpm disk. Source: Linux commit 2b8bd423614c (12.1 ms)."""
    hdd_prior_bytes_per_s: float = 150e6
    """See network_prior_ms."""
    ssd_prior_ms: float = 1.0
    """See network_prior_ms."""
    ssd_prior_bytes_per_s: float = 500e6
    """See network_prior_ms."""

    blocked: float = 0.5
    """A process counts as blocked if it is in state D for at least this share of the time on average."""
    carried_share: float = 0.2
    """The part of a device's reads that a process must make to count as waiting for that device."""
    small_read_bytes: float = 48 * 1024
    """A read below this size is small."""
    steady_variation: float = 0.05
    """The read rate is flat if its standard deviation divided by its mean is at most this."""
    steady_busy: float = 0.95
    """A device with a flat read rate counts as always busy at or above this %util."""

    worker_busy: float = 0.7
    """The cores that a worker must use to count as computing."""
    gate: float = 0.08
    """The lost share of time below which the rules about a job's wait claim no loss."""
    unexplained: float = 0.10
    """A job with a GPU is not healthy if at least this share of its time is unexplained. Source: the benchmark counts
    an OK as false from this loss on."""
    unexplained_leave: float = 0.13
    """The share of unexplained time at which a healthy verdict ends."""
    long_gate: float = 0.05
    """The lost share of time below which no rule claims a loss over the long window. While a job has been observed for
    less than that window, the share falls from ``gate`` to this in proportion to the time."""
    lost_high: float = 0.20
    """A job's wait of at least this share of time is critical if the use of its GPUs is known. Source: TensorFlow's
    profiler (op_stats_to_input_pipeline_analysis.cc)."""
    late_wait: float = 0.05
    """A rank is late only if it waits for its own data for at least this share of the time."""
    late_others: float = 0.34
    """A rank is late only if each other rank waits for at most this part of its wait."""
    pressure: float = 0.1
    """The pressure that confirms a stall. The pressure of the whole machine is diluted by busy CPUs, so it only
    confirms."""

    gpu_fair: float = 0.7
    """Below this utilisation a GPU has idle time."""
    gpu_bound: float = activity.BUSY
    """A GPU is busy at or above this utilisation. NVML counts the time in which any kernel runs."""
    power_share: float = 0.4
    """A busy GPU computes if its power is at least this part of its limit; a GPU that spins in a collective draws
    little."""
    gpu_used_bytes: int = sharing.USED_BYTES
    """A GPU without a visible process counts as in use if at least this much of its memory is in use, because a
    container hides processes."""

    idle_gpu: float = activity.IDLE
    """The utilisation below which a GPU is idle. A machine is idle while it is below all limits from idle_gpu to
    idle_disk_busy, and below idle_link_bytes_per_s."""
    idle_cpu: float = 0.05
    """The use of all CPUs below which a machine is idle."""
    idle_thread: float = 0.5
    """The cores that each process must stay below on an idle machine."""
    idle_bytes_per_s: float = 1e6
    """The bytes per second of all disks below which a machine is idle."""
    idle_disk_busy: float = 0.05
    """The %util that each disk must stay below on an idle machine."""
    clear_wait: float = 0.3
    """An idle machine is not idle from the moment that a job waits for data for at least this share of the window."""
    busy_cpu: float = 0.9
    """The CPUs are at their limit if at least this share of them is in use."""
    busy_memory: float = 0.95
    """The memory is at its limit while at least this share of it is not available."""
    busy_memory_leave: float = 0.9
    """The memory is no longer at its limit when the share that is not available falls below this."""
    core_share: float = 0.8
    """The part of the cores that DataLoader workers should get."""

    decider: float = 0.5
    """A cause is named if it holds for at least this part of the busy workers."""
    decider_sure: float = 0.7
    """The cause is certain if it holds for at least this part of the busy workers."""
    phase_share: float = 0.5
    """A job counts as compiling, stopped or hung if it is so for at least this share of the time."""
    main_share: float = 0.3
    """A trainer without workers counts as loading if it loads for at least this share of the time."""
    cores_short: float = 0.3
    """There are too few cores if workers wait for a core for at least this share of the time."""
    limit_near: float = 0.15
    """A job that reads within this relative distance of a cgroup limit is at the limit."""
    queue_share: float = 0.3
    """If less than this part of the blocked readers is in the device's queue, they wait somewhere else."""
    refault_ratio: float = 0.3
    """The page cache thrashes if refaulted bytes are at least this part of the bytes read."""
    thrash_window_s: float = 30.0
    """The window of the rule about a thrashing page cache."""
    save_ticks: int = 3
    """A checkpoint needs at least this many samples in which the trainer is blocked."""
    save_reads: float = 0.1
    """During a checkpoint the job reads less than this part of what the disk writes."""
    save_writes: float = 0.2
    """In a checkpoint the job makes at least this part of the disk's writes. If the job's time is counted, a disk is
    named only if it takes at least this part of the job's writes."""
    save_bytes_per_s: float = 1e6
    """A checkpoint writes at least this many bytes per second."""
    memory_pressure: float = 0.1
    """Memory is short if some task waits for memory for at least this share of the time."""
    swap_bytes_per_s: float = 1e6
    """Memory is also short if pages are swapped in at this rate."""
    shm_full: float = 0.9
    """/dev/shm is full if at least this part of it is used."""
    shm_leave: float = 0.8
    """The finding about /dev/shm ends when less than this part of it is used."""
    full_ratio: float = 0.99
    """A filesystem is full if at least this part of its bytes or inodes is used."""
    full_bytes: float = 1 << 30
    """A filesystem that reaches full_ratio by its bytes is full only if fewer than this many bytes are free."""
    settle_s: float = 15.0
    """The age below which a job is not judged."""
    starting_s: float = 1200.0
    """The age below which a job may be starting."""
    growing_bytes_per_s: float = 5e6
    """The memory of a starting job grows at least at this rate."""
    error_memory_s: float = 600.0
    """The time for which a device's error in the kernel's log counts."""
    hung_s: float = 10.0
    """A device hangs if it completes no request for this long."""
    hung_bad_s: float = 30.0
    """The time after which the kernel gives up on a request. Source: nvme_core.io_timeout."""

    gpu_window_s: float = 30.0
    """The window of most GPU rules."""
    comm_window_s: float = 20.0
    """The window of the rule that claims comm_wait."""
    gpu_loaded: float = 0.2
    """The lowest utilisation at which a GPU's link is judged."""
    gpu_working: float = 0.5
    """The lowest utilisation at which a GPU's clock is judged."""
    throttled: float = 0.05
    """A GPU is throttled if heat or the power brake lowers its clock for at least this share of the time, by the
    driver's counters."""
    throttled_leave: float = 0.01
    """The finding ends below this share."""
    throttled_mask: float = 0.3
    """A GPU without counters is throttled if its mask of reasons shows a lowered clock in at least this share of
    readings."""
    throttled_mask_leave: float = 0.1
    """The finding ends below this share."""
    gpu_hot_celsius: float = 85.0
    """A GPU is hot at or above this temperature, regardless of its slowdown temperature; a classic limit. It does not
    apply to another sensor (AMD's junction)."""
    hot_margin: float = 3.0
    """A GPU is also hot if it is at most this many degrees below the temperature at which it slows down."""
    clock_low: float = 0.85
    """A loaded GPU normally runs at this part of its highest clock or above; a lower clock costs time."""
    capped: float = 0.3
    """A GPU counts as throttled if a lowered power limit holds it back for at least this share of the time."""
    capped_leave: float = 0.15
    """The finding ends below this share."""
    limit_lowered: float = 0.9
    """A power limit counts as lowered if it is at most this part of the board's default limit."""
    link_full: float = activity.LINK_FULL
    """A PCIe link is full if it carries at least this part of its practical rate."""
    link_full_leave: float = 0.65
    """The finding ends below this part."""
    link_felt: float = 0.5
    """A degraded link costs time if it carries at least this part of its rate."""
    idle_link_bytes_per_s: float = 100e6
    """A GPU that receives or sends at least this much over its link is not idle, however low its utilisation. A monitor
    that asks an idle GPU for its figures moves a few MB a second."""
    link_most: float = 1.3
    """The largest plausible rate of a link, as a multiple of its practical rate. Source: PCI Express 5.0, x16 carries
    63 GB/s."""
    link_bytes_per_s: float = activity.LINK_BYTES_PER_S
    """The practical rate of PCIe generation 5 x16; each earlier generation has half of the rate of the next one."""
    replays_per_s: float = 1.0
    """A link is faulty if it retransmits at least this many packets per second."""
    replays_felt: float = 1000.0
    """Retransmitted packets cost time if there are at least this many per second."""
    gpu_memory: float = 0.95
    """A GPU's memory is full if at least this part of it is used."""
    gpu_memory_leave: float = 0.92
    """The finding ends when less than this part of the memory is used."""
    gpu_memory_end_s: float = 600.0
    """Nearly full GPU memory is critical if it will be full within this time."""
    xid_program_s: float = 600.0
    """The time for which an Xid counts if it is not a fault of the board."""
    spin_power: float = activity.SPIN_POWER
    """GPUs that are never idle but draw less than this part of their power limit only spin. An H100 draws about 14 %
    then."""
    spin_power_sure: float = activity.SPIN_POWER_SURE
    """The part that applies instead of spin_power if the tensor cores are idle or no batch arrives."""
    spin_leave: float = 1.4
    """The finding ends when the power exceeds spin_power or spin_power_sure by this factor."""
    spin_fallen: float = 0.4
    """GPUs also spin if they draw less than this part of the highest power of the same processes."""
    spin_fallen_leave: float = 0.6
    """The finding ends when the power is above this part."""
    gpu_held_s: float = 600.0
    """A GPU whose memory is in use is reported after this much idle time."""
    tensor_none: float = activity.TENSOR_NONE
    """The activity below which tensor cores are idle."""
    sm_busy: float = 0.8
    """A GPU is used effectively at or above this SM activity. Source: DCGM user guide, profiling metrics."""
    sm_idle: float = activity.SM_IDLE
    """The SM activity below which a GPU is used ineffectively. Source: DCGM user guide, profiling metrics."""
    workers_rest: float = 0.8
    """Workers are idle if they sleep for at least this share of the time."""
    batch_writes: float = 0.2
    """Write calls per second of all workers below which no batch arrives; a batch takes about five calls."""
    network_full: float = 0.8
    """A network link is full if it carries at least this part of its speed."""
    spread: float = 0.25
    """The GPUs of one job are unequal if their utilisations differ by at least this much."""
    spread_leave: float = 0.15
    """The finding ends below this difference."""
    peer_power: float = 0.6
    """GPUs that draw less than this part of the late GPU's power only wait for it."""
    peer_power_leave: float = 0.75
    """The finding ends above this part."""
    unused_window_s: float = 30.0
    """The window of the rule about a job that uses no GPU."""
    trains: float = 0.1
    """A job without a GPU is at work if it uses at least this many cores."""

    baseline_minutes: int = 10
    """A device's learned await counts only after this many minutes with reads."""
    baseline_reads: int = 10
    """The fewest reads that a minute needs to count for the learned await."""
    small_read_leave_bytes: float = 64 * 1024
    """The read size above which the finding small_random ends."""
    serial_leave: float = 2.0
    """The await, as a multiple of normal, at which the finding loader_serial ends."""
    queue_leave: float = 0.6
    """The part of the readers in the queue at which the finding io_limit ends."""
    limit_leave: float = 0.25
    """The relative distance from the limit at which the finding io_limit ends."""
    refault_leave: float = 0.2
    """The refault ratio at which the finding cache_thrash ends."""
    other_share: float = 0.4
    """Other programs can be the cause only if they have at least this part of a device's bytes, or of the CPU use."""
    own_share: float = 0.5
    """Other programs can be the cause of slow reads only if the job has less than this part of the device's bytes, and
    the cause of waits for a core only if they use at least this part of the busy cores."""
    crowded: float = 1.5
    """The cores are crowded if a worker waits for a core this many times as long as it has one."""
    respawn_s: float = 1.0
    """A restart of all workers counts if it costs at least this many seconds without data."""
    respawn_turns: int = 2
    """The fewest such restarts with which the rule claims anything."""
    respawn_most_s: float = 20.0
    """The time for which the wait after a restart is watched."""
    serving_window_s: float = 60.0
    """The window of the rule that claims serving."""
    asleep_share: float = 0.6
    """A server without requests sleeps in at least this share of the samples."""


LIMITS = Thresholds()
