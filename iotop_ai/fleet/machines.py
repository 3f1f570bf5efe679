"""Makes the machines and jobs of a fleet from Prometheus's answers. No I/O.

The figures of iotop-ai are preferred; missing figures come from node_exporter, dcgm-exporter and smartctl_exporter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from iotop_ai.fleet.answer import Answer, Series
from iotop_ai.fleet.jobs import job_parts, joined_jobs
from iotop_ai.fleet.names import MachineNames
from iotop_ai.fleet.queries import ALIVE, READING
from iotop_ai.model.fleet.records import (
    CRITICAL,
    OK,
    SILENT_S,
    Fleet,
    FleetAlert,
    FleetDisk,
    FleetFinding,
    FleetHealth,
    FleetMachine,
    JobPart,
)

MOST_MACHINES = 20_000
IOTOP, NODE, DCGM, SMARTCTL = "iotop", "node", "dcgm", "smartctl"
"""The exporters, as in ``FleetMachine.sources``."""
_ABSENT = ("absent", "unsupported")
"""The statuses of a collector on a machine that does not have the device."""
_NO_ANSWER = Answer(())


def fleet_of(answers: Mapping[str, Answer], window_s: float, unanswered: Sequence[str] = ()) -> Fleet:
    """Build the fleet.

    answers: the answer to each query, by the query's name. unanswered: the names of the queries without an answer;
    their figures are unknown.
    """
    return _Assembly(answers, window_s).fleet(tuple(unanswered))


class _Assembly:
    """Builds the machines step by step, from one exporter at a time."""

    def __init__(self, answers: Mapping[str, Answer], window_s: float) -> None:
        self._answers = answers
        self._window_s = window_s
        reading = answers[READING]
        self._at_s = reading.at_s or 0.0
        self._names = MachineNames({entry.label("instance") for entry in reading.series} - {""})
        node_answered, reporting_nodes = "node's reading" in answers, self._instances("node's reading")
        for entry in self._series("node"):
            instance = entry.label("instance")
            self._names.learn(
                instance, entry.label("nodename"), current=not node_answered or instance in reporting_nodes
            )
        self._machines: dict[str, FleetMachine] = {}

    def _series(self, name: str) -> tuple[Series, ...]:
        return self._answers.get(name, _NO_ANSWER).series

    def _instances(self, name: str) -> set[str]:
        return {entry.label("instance") for entry in self._series(name)}

    def _change(self, name: str, instance: str, source: str, **changes: Any) -> None:
        """Add the exporter ``source`` to a machine's sources and set the fields in ``changes``.

        Create the machine if it does not exist.
        """
        machine = self._machines.get(name) or FleetMachine(name, instance)
        if source not in machine.sources:
            machine = machine._replace(sources=(*machine.sources, source))
        self._machines[name] = machine._replace(**changes)

    def fleet(self, unanswered: tuple[str, ...]) -> Fleet:
        """Build the fleet from the answers of all exporters."""
        self._add_iotop()
        self._add_iotop_devices()
        self._add_node()
        self._add_dcgm()
        self._add_smartctl()
        parts = job_parts(self._answers, self._names.of)
        by_machine: dict[str, list[JobPart]] = {}
        for part in parts:
            by_machine.setdefault(part.machine, []).append(part)
        for name, machine_parts in by_machine.items():
            if name in self._machines:
                self._machines[name] = self._machines[name]._replace(job_parts=tuple(machine_parts))
        without_machine = self._add_alerts()
        names = sorted(self._machines)[:MOST_MACHINES]
        machines = tuple(self._machines[name]._replace(unanswered=unanswered) for name in names)
        findings = {machine.name: primary for machine in machines if (primary := machine.primary) is not None}
        return Fleet(self._at_s, self._window_s, machines, joined_jobs(parts, findings), without_machine, unanswered)

    def _iotop_series(self, name: str) -> Iterable[tuple[str, Series]]:
        """The series of the answer ``name``, each with the name of its machine, for machines that run iotop-ai."""
        for entry in self._series(name):
            machine = self._names.of(entry.label("instance"))
            if machine in self._machines:
                yield machine, entry

    def _add_iotop(self) -> None:
        alive = self._instances(ALIVE) if ALIVE in self._answers else None
        for entry in self._series(READING):
            if (instance := entry.label("instance")) and entry.value is not None:
                age_s = max(0.0, self._at_s - entry.value)
                name = self._names.of(instance)
                silent = age_s > SILENT_S if alive is None else instance not in alive
                self._change(name, instance, IOTOP, age_s=age_s, silent=silent)
        # The last verdict of a silent machine is out of date.
        for name, entry in self._iotop_series("verdict"):
            if not self._machines[name].silent:
                self._set(name, state=entry.label("state"))
        for name, _ in self._iotop_series("measuring"):
            self._set(name, measuring=True)
        lost = {
            (name, entry.label("class"), entry.label("subject")): entry.value
            for name, entry in self._iotop_series("findings' loss")
        }
        findings: dict[str, list[FleetFinding]] = {}
        for name, entry in self._iotop_series("findings"):
            class_id, subject = entry.label("class"), entry.label("subject")
            ratio = lost.get((name, class_id, subject))
            primary = entry.label("primary") == "yes"
            finding = FleetFinding(class_id, entry.label("state"), subject, entry.label("severity"), primary, ratio)
            findings.setdefault(name, []).append(finding)
        for name, unsorted in findings.items():
            if not self._machines[name].silent:
                self._set(name, findings=tuple(sorted(unsorted, key=lambda finding: not finding.primary)))

    def _add_iotop_devices(self) -> None:
        for name, entry in self._iotop_series("GPUs"):
            self._set(name, gpus=None if entry.value is None else int(entry.value))
        for name, entry in self._iotop_series("GPU use"):
            self._set(name, gpu_busy=_ratio(entry.value))
        for name, disk in _disks(self._iotop_series("disk use"), self._iotop_series("disk await")).items():
            self._set(name, disk=disk)
        for name, entry in self._iotop_series("health"):
            if entry.value is not None and OK <= entry.value <= CRITICAL:
                self._set(name, health=FleetHealth(entry.label("device"), int(entry.value)))
        for name, entry in self._iotop_series("collectors"):
            if entry.value == 1 and entry.label("status") in _ABSENT:
                self._set(name, **{"no_gpu" if entry.label("collector") == "gpu" else "no_smart": True})

    def _set(self, name: str, **changes: Any) -> None:
        self._machines[name] = self._machines[name]._replace(**changes)

    def _exporter_series(self, name: str) -> Iterable[tuple[str, Series]]:
        """The series of another exporter's answer ``name``, each with the name of its machine."""
        for entry in self._series(name):
            if entry.label("instance"):
                yield self._names.of(entry.label("instance"), entry.label("Hostname") or entry.label("nodename")), entry

    def _add_node(self) -> None:
        node_answered = "node's reading" in self._answers
        reporting_nodes = self._instances("node's reading")
        by_machine: dict[str, list[str]] = {}
        for name, entry in self._exporter_series("node"):
            by_machine.setdefault(name, []).append(entry.label("instance"))
        for name, instances in by_machine.items():
            # An instance that has changed its port or its label is still listed, but has no reading.
            reporting = [instance for instance in instances if instance in reporting_nodes]
            silent = node_answered and IOTOP not in self._sources(name) and not reporting
            self._change(name, (reporting or instances)[0], NODE, **({"silent": True} if silent else {}))
        for name, disk in _disks(
            self._exporter_series("node's disk use"), self._exporter_series("node's disk await")
        ).items():
            if name in self._machines and self._machines[name].disk is None:
                self._set(name, disk=disk)

    def _add_dcgm(self) -> None:
        percents_by_machine: dict[str, dict[str, float | None]] = {}
        instances = {}
        for name, entry in self._exporter_series("dcgm"):
            # If two scrape jobs read the same exporter, each of its GPUs occurs twice.
            by_gpu, gpu = percents_by_machine.setdefault(name, {}), entry.label("UUID") or entry.label("gpu")
            if by_gpu.get(gpu) is None:
                by_gpu[gpu] = dcgm_percent(entry.value)
            instances[name] = entry.label("instance")
        for name, by_gpu in percents_by_machine.items():
            self._change(name, instances[name], DCGM)
            if self._machines[name].gpus is None:
                percents = [value for value in by_gpu.values() if value is not None]
                busy = sum(percents) / len(percents) / 100 if percents else None
                self._set(name, gpus=len(by_gpu), gpu_busy=busy, no_gpu=False)

    def _add_smartctl(self) -> None:
        warning_query = "smartctl's warning"
        warnings = {name: entry for name, entry in self._exporter_series(warning_query) if (entry.value or 0) > 0}
        by_machine: dict[str, list[FleetHealth]] = {}
        for name, entry in self._exporter_series("smartctl"):
            self._change(name, entry.label("instance"), SMARTCTL)
            # smartctl_exporter may report a disk as passed although it has a warning, so the answer about warnings is
            # needed.
            is_known = entry.value is not None and (not entry.value or warning_query in self._answers)
            if is_known:
                failing = warnings.get(name) if entry.value else entry
                health = FleetHealth((failing or entry).label("device"), OK if failing is None else CRITICAL)
                by_machine.setdefault(name, []).append(health)
        for name, found in by_machine.items():
            if self._machines[name].health is None:
                self._set(name, health=max(found, key=lambda health: health.severity), no_smart=False)

    def _add_alerts(self) -> tuple[FleetAlert, ...]:
        """Give each machine its alerts; return the alerts without a machine."""
        without_machine: list[FleetAlert] = []
        by_machine: dict[str, list[FleetAlert]] = {}
        for entry in self._series("alerts"):
            alert = FleetAlert(entry.label("alertname"), entry.label("severity"))
            name = self._names.of(entry.label("instance")) if entry.label("instance") else ""
            (by_machine.setdefault(name, []) if name in self._machines else without_machine).append(alert)
        for name, alerts in by_machine.items():
            self._set(name, alerts=tuple(sorted(set(alerts))))
        return tuple(sorted(set(without_machine)))

    def _sources(self, name: str) -> tuple[str, ...]:
        machine = self._machines.get(name)
        return () if machine is None else machine.sources


def dcgm_percent(value: float | None) -> float | None:
    """A percentage from DCGM; None for DCGM's "blank" values, which are huge (2147483632, 140737488355328, ...)."""
    return value if value is not None and 0 <= value <= 100 else None


def _ratio(value: float | None) -> float | None:
    """The value limited to 1, because a rate over a late scrape may be slightly larger; None if unknown or negative."""
    return None if value is None or value < 0 else min(1.0, value)


def _disks(
    use_series: Iterable[tuple[str, Series]], await_series: Iterable[tuple[str, Series]]
) -> dict[str, FleetDisk]:
    """The busiest disk of each machine. await_series: the awaits in seconds."""
    awaits = {(name, entry.label("device")): entry.value for name, entry in await_series}
    out = {}
    for name, entry in use_series:
        seconds = awaits.get((name, device := entry.label("device")))
        await_ms = None if seconds is None or seconds < 0 else seconds * 1000
        out[name] = FleetDisk(device, _ratio(entry.value), await_ms)
    return out
