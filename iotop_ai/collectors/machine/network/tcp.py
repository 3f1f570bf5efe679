"""Reads the TCP counts of a network namespace. Source: /proc/net/snmp."""

from __future__ import annotations

from iotop_ai.collectors.base import Unavailable
from iotop_ai.collectors.io.root import KeptFile, Root
from iotop_ai.model.machine.tcp import TcpCounters
from iotop_ai.model.reading import Status

_NAMES = (b"OutSegs", b"RetransSegs", b"InErrs")


def parse_snmp(raw: bytes) -> TcpCounters | None:
    """Parse the two Tcp lines, the first with names and the second with values; None when they are missing.

    ``Tcp: RtoAlgorithm ... OutSegs RetransSegs InErrs OutRsts`` and ``Tcp: 1 ... 5021 12 0 3``.
    """
    lines = [line.split() for line in raw.splitlines() if line.startswith(b"Tcp: ")]
    if len(lines) < 2:
        return None
    values = dict(zip(lines[0], lines[1], strict=False))
    return TcpCounters(*(int(v) if (v := values.get(name, b"")).isdigit() else None for name in _NAMES))


class TcpCollector:
    """Reads the counts of the monitor's network namespace, or of PID 1's when another /proc is read."""

    field = "tcp"
    every_s = 1.0

    def __init__(self, root: Root) -> None:
        self._root = root
        self._file: KeptFile | None = None

    def read(self) -> TcpCounters:
        """Return the counts. Raises OSError without the file, and Unavailable when the file has no TCP counts."""
        if self._file is None:
            self._file = self._root.keep(f"proc/{self._root.machine_process}/net/snmp", 8192)
        counters = parse_snmp(self._file.read_record())
        if counters is None:
            raise Unavailable(Status.ABSENT, "the kernel has no TCP counters")
        return counters

    def close(self) -> None:
        """Close the descriptor; a later read opens it again."""
        if self._file is not None:
            self._file.close()
        self._file = None
