"""Checks of machine settings that slow training. Pure: takes facts, returns checks.

Sources: https://docs.kernel.org/admin-guide/pm/cpufreq.html, https://docs.kernel.org/block/switching-sched.html.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from iotop_ai.model.block.counters import BlockInfo
from iotop_ai.model.preflight.environment.check import Check, State
from iotop_ai.model.preflight.environment.host import HostFacts
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.present.text.units import KIB, MIB, amount

SWAP_WARN_BYTES = 64 * MIB
READ_AHEAD_WARN_BYTES = 128 * KIB
"""The kernel's default. A smaller value can halve the rate of a sequential read through the page cache."""
SLOW_CLOCKS = ("hpet", "acpi_pm", "jiffies")
OK, WARN, FAIL, UNKNOWN = State


def judge_machine(snapshot: Snapshot, facts: HostFacts) -> list[Check]:
    """Return the checks of swap, disks and clocks."""
    return [_swap(snapshot), *_disks(snapshot), *_frequency(facts), *_clock_source(facts)]


def _swap(snapshot: Snapshot) -> Check:
    memory = snapshot.memory.value
    if memory is None or memory.swap_total_bytes is None or memory.swap_free_bytes is None:
        return Check("machine", "swap", UNKNOWN, snapshot.memory.reason or "unknown")
    used = memory.swap_total_bytes - memory.swap_free_bytes
    if not memory.swap_total_bytes:
        return Check("machine", "swap", OK, "none")
    text = f"{amount(used)} of {amount(memory.swap_total_bytes)} in use"
    if used < SWAP_WARN_BYTES:
        return Check("machine", "swap", OK, text)
    text += ": a trainer with memory in swap waits for the disk"
    return Check(
        "machine",
        "swap",
        WARN,
        text,
        "sudo sysctl vm.swappiness=1; with free memory: sudo swapoff -a && sudo swapon -a",
    )


def _disks(snapshot: Snapshot) -> Iterator[Check]:
    """Yield a check for each fault of a disk, then one check for all disks."""
    disks = snapshot.disks.value
    if disks is None:
        return
    checked = 0
    for info in disks.values():
        if info.kind != "disk" or not info.size_bytes:
            continue
        checked += 1
        yield from _disk(info)
    if checked:
        yield Check("machine", "disks", OK, f"{checked} checked: link, scheduler, read-ahead, accounting")


def _disk(info: BlockInfo) -> Iterator[Check]:
    name, queue = info.name, shlex.quote(f"/sys/block/{info.name.replace('/', '!')}/queue")
    if info.pcie and info.pcie_max and info.pcie != info.pcie_max:
        text = f"PCIe {info.pcie} of {info.pcie_max} (generation x lanes)"
        yield Check("machine", f"{name} link", WARN, text, "reseat the disk; move it to another slot; check the BIOS")
    if info.transport == "nvme" and info.scheduler in ("bfq", "cfq"):
        text = f"scheduler {info.scheduler} on an NVMe disk costs CPU time and slows reads"
        yield Check("machine", f"{name} scheduler", WARN, text, f"echo none | sudo tee {queue}/scheduler")
    if info.read_ahead_bytes is not None and info.read_ahead_bytes < READ_AHEAD_WARN_BYTES:
        text = f"read-ahead {amount(info.read_ahead_bytes)}: sequential reads are slower than the disk"
        yield Check("machine", f"{name} read-ahead", WARN, text, f"echo 128 | sudo tee {queue}/read_ahead_kb")
    if info.stats_off:
        remedy = info.stats_remedy.replace(" > ", " | sudo tee ")
        yield Check("machine", f"{name} accounting", WARN, "its I/O is not counted: all figures are 0", remedy)


def _frequency(facts: HostFacts) -> Iterator[Check]:
    governors = facts.governors
    if not governors:
        return
    text = f"governor {', '.join(governors)}" + (f" ({facts.frequency_driver})" if facts.frequency_driver else "")
    remedy = "sudo cpupower frequency-set -g performance"
    # With intel_pstate and amd-pstate in active mode, the governor powersave also reaches the highest clock.
    reaches_highest = facts.frequency_driver in ("intel_pstate", "amd-pstate-epp", "amd_pstate_epp")
    if "powersave" in governors and not reaches_highest:
        slow = "all cores" if len(governors) == 1 else "the cores with powersave"
        yield Check("machine", "CPU clock", WARN, f"{text}: {slow} stay at their lowest clock", remedy)
    elif reaches_highest and "power" in facts.energy_preferences:
        yield Check("machine", "CPU clock", WARN, f"{text}, energy preference power: clocks rise late", remedy)
    else:
        yield Check("machine", "CPU clock", OK, text)


def _clock_source(facts: HostFacts) -> Iterator[Check]:
    if not facts.clock_source:
        return
    if facts.clock_source in SLOW_CLOCKS:
        text = f"{facts.clock_source}: each reading of the time is a slow call into the kernel"
        remedy = "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource"
        yield Check("machine", "clock source", WARN, text, remedy)
    else:
        yield Check("machine", "clock source", OK, facts.clock_source)
