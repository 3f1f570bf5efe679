"""Finds the machine that a Prometheus instance belongs to. No I/O."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection


def host_of(instance: str) -> str:
    """The host of an instance: "gpu07" for "gpu07:9743", "::1" for "[::1]:9743"."""
    if instance.startswith("[") and "]" in instance:
        return instance[1:].partition("]")[0]
    host, colon, port = instance.rpartition(":")
    return host if colon and port.isdecimal() and ":" not in host else instance


class MachineNames:
    """Maps each instance to the name of its machine.

    The name is the host of the instance. If several instances of iotop-ai have the same host, each counts as a separate
    machine, with the whole instance as its name.

    iotop_instances: the Prometheus instances of iotop-ai.
    """

    def __init__(self, iotop_instances: Collection[str]) -> None:
        hosts = {instance: host_of(instance) for instance in iotop_instances}
        instance_counts: dict[str, int] = {}
        for host in hosts.values():
            instance_counts[host] = instance_counts.get(host, 0) + 1
        self._names = {instance: instance if instance_counts[host] > 1 else host for instance, host in hosts.items()}
        self._iotop_machines = frozenset(self._names.values())
        self._machines_of_node: dict[str, set[str]] = {}

    def learn(self, instance: str, node: str, *, current: bool = True) -> None:
        """Remember a machine's node name, as reported by the node_exporter on the machine.

        An exporter in a pod knows only the node name. With the remembered name, ``of`` finds the machine even if
        Prometheus scrapes the machine by address. In this way, ``of`` finds only machines that run iotop-ai; other
        addresses are kept only to notice a node name that several machines share, because it matches none of them.

        current: whether the node_exporter reports now. If it does not, its instance may be the former address of a
        machine that has a new address.
        """
        machine = host_of(instance)
        if node and (machine in self._iotop_machines or (current and _is_address(machine))):
            self._machines_of_node.setdefault(node, set()).add(machine)

    def of(self, instance: str, reported: str = "") -> str:
        """The name of an instance's machine.

        reported: the host's name as the exporter reports it; "" if it reports none.
        """
        name = self._names.get(instance)
        if name is None:
            host = host_of(instance)
            if reported not in self._iotop_machines:
                reported = self._machine_by_node(reported)
            # An exporter in a pod has its own address, and the name of its host in a label.
            prefer_reported = host not in self._iotop_machines and (
                reported in self._iotop_machines or _is_address(host)
            )
            name = self._names[instance] = reported if reported and prefer_reported else host
        return name

    def _machine_by_node(self, node: str) -> str:
        """The machine with this node name; "" if several have it; the node name if no machine with iotop-ai has it."""
        machines = self._machines_of_node.get(node, set())
        if len(machines) > 1:
            return ""
        return next(iter(machines & self._iotop_machines), node)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
