"""The machine that an instance of Prometheus belongs to. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection


def host_of(instance: str) -> str:
    """ "gpu07:9743" gives "gpu07", "[::1]:9743" "::1"."""
    if instance.startswith("[") and "]" in instance:
        return instance[1:].partition("]")[0]
    host, colon, port = instance.rpartition(":")
    return host if colon and port.isdecimal() and ":" not in host else instance


class MachineNames:
    """The machine of each instance: its host; where several iotop-ai run on one, the whole instance.

    own: instances of iotop-ai.
    """

    def __init__(self, own: Collection[str]) -> None:
        hosts = {instance: host_of(instance) for instance in own}
        count: dict[str, int] = {}
        for host in hosts.values():
            count[host] = count.get(host, 0) + 1
        self._names = {instance: instance if count[host] > 1 else host for instance, host in hosts.items()}
        self._own = frozenset(self._names.values())
        self._machine_of_node: dict[str, str] = {}

    def learn(self, instance: str, node: str) -> None:
        """Note a node's name for the machine on which its node_exporter runs; if two machines share it, for neither.

        So an exporter in a pod, which knows the node's name alone, belongs to a machine that is scraped by address.
        """
        machine = host_of(instance)
        if node and machine in self._own:
            known = self._machine_of_node.setdefault(node, machine)
            self._machine_of_node[node] = machine if known == machine else ""

    def of(self, instance: str, other: str = "") -> str:
        """The machine's name. other: what the exporter calls its host; "" where it does not say."""
        name = self._names.get(instance)
        if name is None:
            host = host_of(instance)
            if other not in self._own:
                other = self._machine_of_node.get(other) or other
            # An exporter in a pod has an address of its own, and its host's name in a label.
            prefer_other = host not in self._own and (other in self._own or _is_address(host))
            name = self._names[instance] = other if other and prefer_other else host
        return name


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
