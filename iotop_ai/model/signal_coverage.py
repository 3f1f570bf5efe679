"""Which groups of signals can be read on this machine."""

from __future__ import annotations

from iotop_ai.model.reading import Reading, Status, T
from iotop_ai.model.snapshot import Snapshot

GROUP_COUNT = 6


def signal_groups(snapshot: Snapshot) -> tuple[int, tuple[str, ...]]:
    """The number of groups that can be read, and a clause for each other group.

    The groups are processes (of all users), disks, memory (with PSI), GPU, SMART and network. The group GPU can be read
    if at least one GPU answers or the driver lists none; SMART, if at least one disk answers.
    """
    missing = []
    if snapshot.processes.value is None:
        missing.append(_clause("processes", snapshot.processes))
    elif not snapshot.host.ptrace:
        missing.append("not root")
    if snapshot.block.value is None:
        missing.append(_clause("disks", snapshot.block))
    if snapshot.memory.value is None:
        missing.append(_clause("memory", snapshot.memory))
    elif snapshot.pressure.value is None:
        missing.append("PSI off" if snapshot.pressure.status is Status.OFF else _clause("PSI", snapshot.pressure))
    if snapshot.gpu.value is None:
        missing.append(_clause("GPU", snapshot.gpu, reason_alone=True))
    elif snapshot.gpu.value and not any(r.value is not None for r in snapshot.gpu.value.values()):
        missing.append("no GPU answers")
    missing.extend(_missing_smart(snapshot))
    if snapshot.network.value is None:
        missing.append(_clause("network", snapshot.network))
    return GROUP_COUNT - len(missing), tuple(missing)


def _clause(name: str, reading: Reading[T], reason_alone: bool = False) -> str:
    if reading.status is Status.PENDING:
        return f"{name} pending"
    if reason_alone and reading.reason:
        return reading.reason
    return f"{name}: {reading.reason}" if reading.reason else f"no {name}"


def _missing_smart(snapshot: Snapshot) -> list[str]:
    smart = snapshot.smart
    if smart.value is None:
        return [_clause("SMART", smart)]
    if any(r.value is not None and r.status in (Status.OK, Status.ASLEEP) for r in smart.value.values()):
        return []
    unread = [r for r in smart.value.values() if r.status is not Status.UNSUPPORTED]
    return [_clause("SMART", unread[0])] if unread else ["no disk has SMART"]
