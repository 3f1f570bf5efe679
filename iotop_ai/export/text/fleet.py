"""A fleet as plain text: the summary, a row per machine, and the jobs that wait for one machine."""

from __future__ import annotations

from collections.abc import Sequence

from iotop_ai.export.text.table import UNKNOWN, field, table
from iotop_ai.model.fleet.records import Fleet, FleetMachine
from iotop_ai.model.verdict_class import State
from iotop_ai.present.fleet.words import (
    alert_words,
    await_words,
    cause_words,
    gpu_words,
    health_words,
    lost_words,
    straggler_words,
    summary,
)
from iotop_ai.present.text.units import percent, plural

TITLES = ("machine", "state", "GPU-h", "lost%", "GPU%", "disk", "await", "%util", "health", "alerts", "from", "cause")


def fleet_lines(fleet: Fleet, machines: Sequence[FleetMachine]) -> list[str]:
    """The lines of the text. machines: the rows of the table, in this order."""
    state, text = summary(fleet)
    if fleet.machines and not machines:
        state, text = State.UNSURE, f"none of {plural(len(fleet.machines), 'machine')} matches"
    lines = [f"{state.value:<9} {text}", "", *table(TITLES, [_row(machine) for machine in machines])]
    waiting = [(job, job.straggler) for job in fleet.jobs if job.straggler is not None]
    if waiting:
        waits = (f"{job.name} {job.script} waits for {straggler_words(job, straggler)}" for job, straggler in waiting)
        lines += ["", *waits]
    if fleet.alerts:
        lines += ["", f"alerts without a machine: {', '.join(alert.name for alert in fleet.alerts)}"]
    if fleet.unanswered:
        lines += ["", f"queries without an answer: {', '.join(fleet.unanswered)}"]
    return lines


def _row(machine: FleetMachine) -> tuple[str, ...]:
    disk = machine.disk
    return (
        field(machine.name),
        field(machine.state) if machine.state else UNKNOWN,
        lost_words(machine),
        percent(machine.lost_ratio),
        gpu_words(machine),
        UNKNOWN if disk is None else field(disk.name),
        await_words(machine),
        percent(disk.busy_ratio if disk else None),
        field(health_words(machine)),
        field("+".join(alert.name for alert in machine.alerts) or alert_words(machine)),
        "+".join(machine.sources),
        cause_words(machine),
    )
