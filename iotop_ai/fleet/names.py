"""Finds the machine that a Prometheus instance belongs to. Pure."""

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
    """The machine of each instance.

    The machine's name is the host of the instance. If several instances of iotop-ai have the same host, each is a
    machine of its own, with the whole instance as its name.

    own: the instances of iotop-ai.
    """

    def __init__(self, own: Collection[str]) -> None:
        hosts = {instance: host_of(instance) for instance in own}
        count: dict[str, int] = {}
        for host in hosts.values():
            count[host] = count.get(host, 0) + 1
        self._names = {instance: instance if count[host] > 1 else host for instance, host in hosts.items()}
        self._own = frozenset(self._names.values())
        self._machine_of_node: dict[str, str] = {}
        self._machines_of_node: dict[str, set[str]] = {}

    def learn(self, instance: str, node: str, *, current: bool = True) -> None:
        """Remember the node's name of a machine, as the node_exporter on this machine reports it.

        An exporter in a pod knows only the node's name. With the remembered name, ``of`` finds the machine even if
        Prometheus scrapes that machine by address. Only machines that run iotop-ai are remembered. A node's name that
        two machines share leads to neither of them.

        current: whether the node_exporter reports now; one that does not may have been the same machine under an
        earlier address.
        """
        machine = host_of(instance)
        own = machine in self._own
        if not node or not (own or (current and _is_address(machine))):
            return
        machines = self._machines_of_node.setdefault(node, set())
        machines.add(machine)
        if len(machines) > 1:
            self._machine_of_node[node] = ""
        elif own:
            self._machine_of_node[node] = machine

    def of(self, instance: str, other: str = "") -> str:
        """The machine's name for an instance.

        other: the host's name as the exporter reports it; "" if it reports none.
        """
        name = self._names.get(instance)
        if name is None:
            host = host_of(instance)
            if other not in self._own:
                other = self._machine_of_node.get(other, other)
            # An exporter in a pod has its own address, and the name of its host in a label.
            prefer_other = host not in self._own and (other in self._own or _is_address(host))
            name = self._names[instance] = other if other and prefer_other else host
        return name


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
