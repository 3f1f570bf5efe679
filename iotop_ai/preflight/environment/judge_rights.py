"""Checks of what this user can read and do on this machine. The collectors give the reasons."""

from __future__ import annotations

from typing import Any

from iotop_ai.model.preflight.environment.check import Check, State
from iotop_ai.model.preflight.environment.host import HostFacts
from iotop_ai.model.process.records import delay_remedy, has_delay_switch
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.snapshot import Snapshot

OK, WARN, FAIL, UNKNOWN = State


def judge_rights(snapshot: Snapshot, facts: HostFacts) -> list[Check]:
    """Return checks of the sources that the monitor reads, and of the right to drop caches."""
    return [
        _processes(snapshot),
        _delays(snapshot),
        _check_of_reading("pressure", snapshot.pressure, "PSI is on"),
        _check_of_reading("kernel log", snapshot.kernel, "readable"),
        *_smart(snapshot),
        _drop_caches(facts),
    ]


def _check_of_reading(name: str, reading: Reading[Any], text: str) -> Check:
    if reading.status is Status.OK:
        return Check("rights", name, OK, text)
    state = UNKNOWN if reading.status is Status.PENDING else WARN
    return Check("rights", name, state, reading.reason or reading.status.value, reading.remedy)


def _processes(snapshot: Snapshot) -> Check:
    table = snapshot.processes.value
    if table is None:
        return _check_of_reading("other processes", snapshot.processes, "")
    denied = len(table.denied)
    if not denied or snapshot.host.ptrace:
        # In a virtual machine even root may be denied the I/O of init.
        text = f"the I/O of {len(table.info) - denied} of {len(table.info)} processes is readable"
        return Check("rights", "other processes", OK, text)
    text = f"the I/O of {denied} of {len(table.info)} processes is not readable"
    remedy = "sudo iotop-ai" if snapshot.host.euid else "give the container CAP_SYS_PTRACE (--cap-add=SYS_PTRACE)"
    return Check("rights", "other processes", WARN, text, remedy)


def _delays(snapshot: Snapshot) -> Check:
    table, kernel = snapshot.processes.value, snapshot.host.kernel
    on = None if table is None else table.delayacct
    if on:
        return Check("rights", "delay accounting", OK, "IO-wait of processes is counted")
    if on is None:
        return Check("rights", "delay accounting", UNKNOWN, "whether the kernel counts IO-wait is unknown")
    remedy = delay_remedy(kernel)
    if has_delay_switch(kernel):
        remedy = f"sudo {remedy}"
    return Check("rights", "delay accounting", WARN, "IO-wait of processes is not counted", remedy)


def _smart(snapshot: Snapshot) -> list[Check]:
    smart = snapshot.smart
    if smart.value is None:
        if smart.status is Status.OFF:
            return []
        return [_check_of_reading("SMART", smart, "")]
    unread: dict[tuple[Status, str, str], list[str]] = {}
    answered = []
    for name, reading in smart.value.items():
        if reading.status in (Status.OK, Status.ASLEEP):
            answered.append(name)
        else:
            unread.setdefault((reading.status, reading.reason, reading.remedy), []).append(name)
    out = []
    if answered or not unread:
        text = f"{', '.join(answered)} answered" if answered else "no disk with SMART here"
        out.append(Check("rights", "SMART", OK, text))
    for (status, reason, remedy), names in unread.items():
        expected = status in (Status.UNSUPPORTED, Status.ABSENT, Status.OFF) and not remedy
        state = OK if expected else UNKNOWN if status is Status.PENDING else WARN
        out.append(Check("rights", "SMART" if not out else f"SMART of {names[0]}", state,
                         f"{', '.join(names)}: {reason or status.value}", remedy))  # fmt: skip
    return out


def _drop_caches(facts: HostFacts) -> Check:
    if facts.drop_caches:
        return Check("rights", "drop caches", OK, f"possible, by {facts.drop_caches}")
    text = f"not possible, so a cold start cannot be timed: {facts.drop_caches_reason}"
    return Check("rights", "drop caches", OK, text, facts.drop_caches_remedy)
