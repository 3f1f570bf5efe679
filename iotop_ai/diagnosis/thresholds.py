"""Every number that a rule compares with, in one place, with where it comes from."""

from __future__ import annotations

from typing import NamedTuple

RULES_VERSION = 3
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

    idle_*: below all of them nothing happens. pressure: share of time that agrees with a stall; the system's figure
    is diluted over busy CPUs, so it can only support. core_share: DataLoader workers get this part of the cores.
    """

    window_s: float = 10.0
    long_window_s: float = 60.0
    idle_window_s: float = 30.0
    shortest_s: float = 10.0
    enter_share: float = 0.7
    leave_share: float = 0.3
    leave_level: float = 0.7
    least_samples: int = 3
    dwell_s: float = 10.0
    decide_s: float = 0.9
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


LIMITS = Thresholds()
