"""Every number that a rule compares with, in one place, with where it comes from."""

from __future__ import annotations

from iotop_ai.model.finding import SHORTEST_S
from iotop_ai.model.record import NamedTuple

RULES_VERSION = 5
"""Grows with every change of a rule or of a number here: what was decided by another version is decided again."""


class Thresholds(NamedTuple):
    """The rules' numbers. Ratios 0..1, times in s or ms as the name says.

    Windows: window_s, idle_window_s, shortest_s; enter_share and leave_share of a window's samples, least_samples,
    dwell_s; leave_level: a finding also leaves when its main signal is below this part of its threshold; decide_s
    between two decisions. Ours, to be tuned on labelled runs.

    gpu_starved, thread_busy, disk_busy, disk_await_ms, disk_await_bad_ms, disk_busy_bad: the classic rule for one
    disk that serves one request after the other: an idle GPU beside a busy CPU thread or blocked workers and a disk
    with %util above 80 and await above 20 ms, bad above 50 ms at 100 %. iostat(1) says that %util shows no
    saturation of devices that serve requests in parallel; there inflation counts.

    inflation_slow, inflation_severe, inflation_some: await over what such a device normally needs; ours.
    Normal await of a read of n bytes: *_prior_ms + n / *_prior_bytes_per_s, by transport. The HDD figure is a 4 KiB
    random read of a 7,200 rpm disk (12.1 ms in Linux commit 2b8bd423614c); the others are typical of their kind.

    blocked: mean share of looks (or delay accounting) in which a process is in state D. carried_share: the part of
    a device's reads that a process must make to be said to wait for it. small_read_bytes: below it a read is small.
    steady_variation: standard deviation over mean of a throughput that counts as flat.

    worker_busy: a worker that computes. gate: share of time lost below which nothing is said; lost_moderate and
    lost_high are TensorFlow profiler's 5 and 20 % (op_stats_to_input_pipeline_analysis.cc).

    gpu_fair, gpu_bound, power_share: busy GPU; NVML's utilisation counts time with any kernel running, so that a
    collective that only spins shows 100 % at little power. gpu_used_bytes: memory from which a GPU is in use though
    no process is seen on it (a container hides them).

    gpu_window_s, comm_window_s, unused_window_s: how long a GPU rule looks. gpu_loaded, gpu_working: utilisation
    from which a link and a clock are judged. throttled: share of time in which heat or a brake holds the clock back, by
    the driver's own counters (nvml.h, NVML_FI_DEV_CLOCKS_EVENT_REASON_*); throttled_mask: share of readings, where it
    has only the mask. gpu_hot_celsius: a classic limit; hot_margin: so near its own slowdown a GPU is hot. clock_low:
    part of the highest clock that a loaded GPU keeps. capped: share of time at a power limit that is below
    limit_lowered times the board's own.
    link_bytes_per_s: what x16 of PCIe generation 5 carries in practice, half of it for each generation before;
    link_full: part of that at which it is full, link_felt: at which a degraded one costs time. replays_per_s: packets
    sent again; replays_felt: so many that it costs time. gpu_memory: part of it in use; gpu_memory_end_s: full within
    that time is an alarm. xid_program_s: how long a program's own error is told. Ours but for the driver's counters.
    spin_power: part of the power limit below which GPUs that are never idle do not compute, spin_power_sure: where the
    tensor cores rest (below tensor_none) or no batch comes any more (batch_writes: write calls of all workers a
    second; a batch costs about five); spin_leave: factor on both to leave; spin_fallen: part of what the same
    processes drew at their most. Spinning in a collective draws about 14 % of an H100's limit. gpu_held_s: idle for so
    long, memory that is held is told. sm_busy, sm_idle: SM activity that is effective use, and that is not (DCGM user
    guide, profiling metrics: 0.8 and 0.5). workers_rest: share of time asleep. network_full: part of a link's speed.
    spread: utilisation between GPUs of one job; peer_power: below this part of the late GPU's power the others only
    wait. trains: cores used from which a job without a GPU is at work.

    baseline_minutes, baseline_reads: minutes, of so many reads at least, from which a device's own history counts as
    what is normal for it, where that is faster than its kind. Ours.

    keep_s: a finding stays for so long after its condition last held; keep_save_s, keep_death_s: of events. confirm_s:
    a finding about a job that would replace another one must have held for so long. *_leave: while a finding is on, the
    figure that ends it, where that is not leave_level of the one that began it.

    other_share, own_share: parts of a device's traffic, or of the CPU, that others have and the job has when somebody
    else is the cause. crowded: a worker that waits for a core so many times as long as it gets one.

    respawn_s: seconds without data after all workers were replaced, from which that counts; respawn_turns: how often.
    respawn_most_s: how long it is followed. asleep_share: looks in which a server without requests sleeps.
    error_memory_s: how long a disk is said to fail after an error of its that the kernel told; ours.

    idle_*: below all of them nothing happens. pressure: share of time that agrees with a stall; the system's figure
    is diluted over busy CPUs, so it can only support. core_share: DataLoader workers get this part of the cores.
    """

    window_s: float = 10.0
    long_window_s: float = 60.0
    idle_window_s: float = 30.0
    shortest_s: float = SHORTEST_S
    enter_share: float = 0.7
    leave_share: float = 0.3
    leave_level: float = 0.7
    least_samples: int = 3
    dwell_s: float = 10.0
    decide_s: float = 0.9
    keep_s: float = 3.0
    keep_save_s: float = 15.0
    keep_death_s: float = 600.0
    confirm_s: float = 4.0
    periods: int = 3

    gpu_starved: float = 0.3
    thread_busy: float = 0.9
    thread_most: float = 1.3
    disk_busy: float = 0.8
    disk_await_ms: float = 20.0
    disk_busy_bad: float = 0.99
    disk_await_bad_ms: float = 50.0

    inflation_some: float = 1.5
    inflation_slow: float = 3.0
    inflation_severe: float = 8.0
    network_prior_ms: float = 5.0
    network_prior_bytes_per_s: float = 250e6
    nvme_prior_ms: float = 0.3
    nvme_prior_bytes_per_s: float = 3000e6
    hdd_prior_ms: float = 12.0
    hdd_prior_bytes_per_s: float = 150e6
    ssd_prior_ms: float = 1.0
    ssd_prior_bytes_per_s: float = 500e6

    blocked: float = 0.5
    carried_share: float = 0.2
    small_read_bytes: float = 48 * 1024
    steady_variation: float = 0.05
    steady_busy: float = 0.95

    worker_busy: float = 0.7
    gate: float = 0.08
    long_gate: float = 0.05
    lost_moderate: float = 0.05
    lost_high: float = 0.20
    pressure: float = 0.1

    gpu_fair: float = 0.7
    gpu_bound: float = 0.9
    power_share: float = 0.4
    gpu_used_bytes: int = 512 << 20

    idle_gpu: float = 0.05
    idle_cpu: float = 0.05
    idle_thread: float = 0.5
    idle_bytes_per_s: float = 1e6
    idle_disk_busy: float = 0.05
    core_share: float = 0.8

    decider: float = 0.5
    decider_sure: float = 0.7
    main_share: float = 0.3
    cores_short: float = 0.3
    limit_near: float = 0.15
    queue_share: float = 0.3
    refault_ratio: float = 0.3
    thrash_window_s: float = 30.0
    save_ticks: int = 3
    save_reads: float = 0.1
    save_writes: float = 0.2
    save_bytes_per_s: float = 1e6
    memory_pressure: float = 0.1
    swap_bytes_per_s: float = 1e6
    shm_full: float = 0.9
    shm_leave: float = 0.8
    full_ratio: float = 0.99
    full_bytes: float = 1 << 30
    settle_s: float = 15.0
    starting_s: float = 1200.0
    growing_bytes_per_s: float = 5e6
    error_memory_s: float = 600.0

    gpu_window_s: float = 30.0
    comm_window_s: float = 20.0
    gpu_loaded: float = 0.2
    gpu_working: float = 0.5
    throttled: float = 0.05
    throttled_leave: float = 0.01
    throttled_mask: float = 0.3
    throttled_mask_leave: float = 0.1
    gpu_hot_celsius: float = 85.0
    hot_margin: float = 3.0
    clock_low: float = 0.85
    capped: float = 0.3
    capped_leave: float = 0.15
    limit_lowered: float = 0.9
    link_full: float = 0.8
    link_full_leave: float = 0.65
    link_felt: float = 0.5
    link_bytes_per_s: float = 50e9
    replays_per_s: float = 1.0
    replays_felt: float = 1000.0
    gpu_memory: float = 0.95
    gpu_memory_leave: float = 0.92
    gpu_memory_end_s: float = 600.0
    xid_program_s: float = 600.0
    spin_power: float = 0.25
    spin_power_sure: float = 0.4
    spin_leave: float = 1.4
    spin_fallen: float = 0.4
    spin_fallen_leave: float = 0.6
    gpu_held_s: float = 600.0
    tensor_none: float = 0.02
    sm_busy: float = 0.8
    sm_idle: float = 0.5
    workers_rest: float = 0.8
    batch_writes: float = 0.2
    network_full: float = 0.8
    spread: float = 0.25
    spread_leave: float = 0.15
    peer_power: float = 0.6
    peer_power_leave: float = 0.75
    unused_window_s: float = 30.0
    trains: float = 0.1

    baseline_minutes: int = 10
    baseline_reads: int = 10
    small_read_leave_bytes: float = 64 * 1024
    serial_leave: float = 2.0
    queue_leave: float = 0.6
    limit_leave: float = 0.25
    refault_leave: float = 0.2
    gpu_bound_leave: float = 0.8
    other_share: float = 0.4
    own_share: float = 0.5
    crowded: float = 1.5
    respawn_s: float = 1.0
    respawn_turns: int = 2
    respawn_most_s: float = 20.0
    serving_window_s: float = 60.0
    asleep_share: float = 0.6


LIMITS = Thresholds()


class Hold(NamedTuple):
    """How a class enters and leaves, where that is not as for all. confirm_s: how long its condition must have held
    before it enters, beyond the window and only as far as there was that much to watch. leave: part of its threshold
    below which it leaves. keep_s: how long it stays after its condition last held.
    """

    confirm_s: float = 0.0
    leave: float = LIMITS.leave_level
    keep_s: float = LIMITS.keep_s


AS_ALL = Hold()
HOLDS: dict[str, Hold] = {
    "io_limit": Hold(confirm_s=5.0),
    "single_thread": Hold(confirm_s=5.0),
    "object_stream": Hold(confirm_s=5.0, leave=0.6),
    "cpu_prep": Hold(leave=0.6),
    "mem_pressure": Hold(leave=0.5),
    "noisy_neighbour": Hold(leave=0.6),
    "gpu_bound": Hold(leave=LIMITS.gpu_bound_leave / LIMITS.gpu_bound),
    "checkpoint_write": Hold(keep_s=LIMITS.keep_save_s),
    "worker_respawn": Hold(keep_s=LIMITS.long_window_s),
    "idle": Hold(keep_s=0.0),
    "job_died": Hold(keep_s=LIMITS.keep_death_s),
}
"""What differs from class to class."""
