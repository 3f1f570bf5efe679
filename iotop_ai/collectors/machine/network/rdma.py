"""Reads the error and congestion counts of RDMA ports.

Source: /sys/class/infiniband/*/ports/*/{counters,hw_counters}.
"""

from __future__ import annotations

from iotop_ai.collectors.base import Unavailable
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.machine.network.stacking import INFINIBAND
from iotop_ai.model.clean import clean
from iotop_ai.model.machine.rdma import RdmaCounters
from iotop_ai.model.reading import Status

_IN_COUNTERS = ("symbol_error", "link_downed", "link_error_recovery")
"""The counts in the folder "counters". The other counts are in "hw_counters"."""
_MOST_PORTS = 64


class RdmaCollector:
    """Reads the counts of RDMA ports only every 5 s, because a driver may ask the adapter's firmware for each count."""

    field = "rdma"
    every_s = 5.0

    def __init__(self, root: Root) -> None:
        self._root = root

    def read(self) -> dict[str, RdmaCounters]:
        """Return the counts by port ("mlx5_0/1").

        Raises Unavailable on a machine without RDMA, and OSError when the ports cannot be listed because we lack the
        permission or too many files are open.
        """
        out: dict[str, RdmaCounters] = {}
        for device in self._root.entries(INFINIBAND):
            for port in self._root.entries(f"{INFINIBAND}/{device}/ports"):
                if len(out) < _MOST_PORTS:
                    out[clean(f"{device}/{port}")] = self._port(f"{INFINIBAND}/{device}/ports/{port}")
        if not out:
            raise Unavailable(Status.ABSENT, "no RDMA port")
        return out

    def _port(self, folder: str) -> RdmaCounters:
        return RdmaCounters(
            *(self._root.number_read_once(f"{folder}/{_folder(name)}/{name}") for name in RdmaCounters._fields)
        )

    def close(self) -> None:
        """Do nothing: no file stays open."""


def _folder(name: str) -> str:
    return "counters" if name in _IN_COUNTERS else "hw_counters"
