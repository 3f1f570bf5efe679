"""Reads network interfaces and InfiniBand ports from files below /sys/class, which are kept open."""

from __future__ import annotations

from iotop_ai.collectors.io.root import KeptFile, Root
from iotop_ai.collectors.machine.network.stacking import INFINIBAND, NET, has_speed, places_of, port_place
from iotop_ai.model.clean import clean, clean_bytes
from iotop_ai.model.counter import known_int
from iotop_ai.model.machine.network import LinkCounters

_COUNTERS = ("rx_bytes", "tx_bytes", "rx_errors", "tx_errors", "rx_dropped", "tx_dropped")
_IB_COUNTERS = ("port_rcv_data", "port_xmit_data", "port_rcv_errors", "port_xmit_discards")
_IB_WORD_BYTES = 4
"""The unit of the InfiniBand data counters, in bytes."""
_EFA_RECEIVED = ("recv_bytes", "rdma_read_bytes", "rdma_write_recv_bytes")
_EFA_SENT = ("send_bytes", "rdma_write_bytes", "rdma_read_resp_bytes")
_EFA_COUNTERS = ("rx_bytes", "tx_bytes", "rx_drops", *_EFA_RECEIVED, *_EFA_SENT)
"""The counters of AWS's adapter (EFA), which counts bytes and does not have the usual port counters.

Source: drivers/infiniband/hw/efa/efa_verbs.c.
"""
_REFRESH_EVERY = 30
"""The number of reads after which the speeds and the devices of the links are read again.

A read of the speed asks the driver, and the speed changes only together with the state of the link.
"""


def parse_ib_rate(text: str) -> int | None:
    """Return the bits per second in an InfiniBand port's ``rate``, "400 Gb/sec (4X NDR)"; None for any other text."""
    words = text.split()
    try:
        return round(float(words[0]) * 1e9) if len(words) > 1 and words[1].startswith("Gb") else None
    except (ValueError, IndexError):
        return None


class _LinkFiles:
    """The counter files of one link, which are kept open. If the link was removed, OSError is raised.

    bits_per_s: the speed of the link, which was read when the link's state was ``last_state``; None when it is unknown.
    reads: the number of reads so far. counters: the newest result; None before the first.
    """

    def __init__(self, root: Root, directory: str, names: tuple[str, ...], state: str) -> None:
        self.files: dict[str, KeptFile] = {}
        self.bits_per_s: int | None = None
        self.last_state = ""
        self.reads = 0
        self.raws: list[bytes] = []
        self.counters: LinkCounters | None = None
        try:
            self.state_file = root.keep(state, 256)
            for name in names:
                try:
                    self.files[name] = root.keep(f"{directory}/{name}", 256)
                except FileNotFoundError:
                    continue
        except OSError:
            self.close()
            raise

    def reread(self) -> bool:
        """Read the files; return whether the counters have to be made again: a file changed, or the speed is due."""
        raws = [file.read_record() for file in self.files.values()]
        raws.append(self.state_file.read_record())
        before, self.raws = self.raws, raws
        self.reads += 1
        return raws != before or self.counters is None or self.reads % _REFRESH_EVERY == 1

    def counts(self) -> dict[str, int]:
        return {name: int(raw) for name, raw in zip(self.files, self.raws, strict=False)}

    def state(self) -> str:
        return clean_bytes(self.raws[-1].strip())

    def close(self) -> None:
        for file in (*self.files.values(), getattr(self, "state_file", None)):
            if file is not None:
                file.close()


class NetworkCollector:
    """Reads the counters of the links that carry bytes to and from this machine.

    It leaves out lo, interfaces whose name shows that their bytes also pass another interface (veth, docker0, ...), and
    other virtual interfaces that have not carried any bytes. Sources:
    Documentation/ABI/testing/sysfs-class-net-statistics, Documentation/ABI/stable/sysfs-class-infiniband.
    """

    field = "network"
    every_s = 0.0

    def __init__(self, root: Root) -> None:
        self._root = root
        self._links: dict[str, _LinkFiles] = {}
        self._reads = 0
        self._listed: list[str] = []
        self._places: dict[str, str] = {}
        """The result of ``places_of``: the device ("place") that carries the bytes of each network interface."""

    def read(self) -> dict[str, LinkCounters]:
        """Return the counters of the links by name; {} without a link. A removed link is left out.

        Raises OSError when the network interfaces cannot be listed because we lack the permission, or the links because
        too many files are open.
        """
        out = {}
        seen = set()
        self._refresh_places([name for name in self._root.entries(NET) if name != "lo"])
        for name in self._places:
            seen.add(name)
            counters = self._read_nic(name)
            if counters is not None:
                out[clean(name)] = counters
        for device, port in self._infiniband_ports():
            key = f"{device}/{port}"
            seen.add(key)
            counters = self._read_ib(key, f"{INFINIBAND}/{device}/ports/{port}")
            if counters is not None:
                out[clean(key)] = counters
        for name in self._links.keys() - seen:
            self._links.pop(name).close()
        return out

    def _infiniband_ports(self) -> list[tuple[str, str]]:
        """Return (device, port) of each InfiniBand port; [] when we may not list them.

        The reading of RDMA shows that they are denied, whereas the network interfaces can still be read.
        """
        entries = self._root.entries
        try:
            return [(name, port) for name in entries(INFINIBAND) for port in entries(f"{INFINIBAND}/{name}/ports")]
        except PermissionError:
            return []

    def _refresh_places(self, names: list[str]) -> None:
        """Find the devices of the links again when the list has changed, and every 30 reads: a link may join a bond."""
        if names != self._listed or self._reads % _REFRESH_EVERY == 0:
            self._listed, self._places = names, places_of(self._root, names)
        self._reads += 1

    def _open(self, key: str, directory: str, names: tuple[str, ...], state: str) -> _LinkFiles:
        link = self._links.get(key)
        if link is None:
            link = self._links[key] = _LinkFiles(self._root, directory, names, state)
        return link

    def _drop(self, key: str) -> None:
        link = self._links.pop(key, None)
        if link is not None:
            link.close()

    def _read_nic(self, name: str) -> LinkCounters | None:
        base = f"{NET}/{name}"
        try:
            link = self._open(name, f"{base}/statistics", _COUNTERS, f"{base}/operstate")
            place = self._places.get(name, "")
            if not link.reread() and link.counters is not None and link.counters.place == place:
                return link.counters
            counts = link.counts()
            state = link.state()
        except (OSError, ValueError):
            # The interface may have been created again under the same name; the files of the old one give ENODEV.
            self._drop(name)
            return None
        rx, tx = counts.get("rx_bytes"), counts.get("tx_bytes")
        if rx is None or tx is None:
            self._drop(name)
            return None
        if not (rx or tx) and not self._root.exists(f"{base}/device"):
            return None
        if link.reads % _REFRESH_EVERY == 1 or state != link.last_state:
            mbit = self._root.number_or_none(f"{base}/speed") if has_speed(self._root, name) else None
            # An unknown speed is -1, which some kernels print as 4294967295.
            link.bits_per_s = mbit * 1_000_000 if mbit is not None and 0 < mbit < 2**31 else None
            link.last_state = state
        link.counters = LinkCounters(
            rx,
            tx,
            counts.get("rx_errors"),
            counts.get("tx_errors"),
            counts.get("rx_dropped"),
            counts.get("tx_dropped"),
            link.bits_per_s,
            state,
            place=place,
        )
        return link.counters

    def _read_ib(self, key: str, base: str) -> LinkCounters | None:
        try:
            link = self._links.get(key)
            if link is None:
                has_port_counters = self._root.exists(f"{base}/counters/port_rcv_data")
                folder, names = ("counters", _IB_COUNTERS) if has_port_counters else ("hw_counters", _EFA_COUNTERS)
                link = self._open(key, f"{base}/{folder}", names, f"{base}/state")
            if not link.reread():
                return link.counters
            counts_by_name = link.counts()
            # The content is "4: ACTIVE": the number and the word have the same meaning.
            state = link.state().partition(":")[2].strip().lower()
        except (OSError, ValueError):
            self._drop(key)
            return None
        counts = _ib_counts(counts_by_name) if "port_rcv_data" in counts_by_name else _efa_counts(counts_by_name)
        if counts is None:
            return None
        if link.reads % _REFRESH_EVERY == 1 or state != link.last_state:
            link.bits_per_s = parse_ib_rate(self._root.text_or(f"{base}/rate")) if state == "active" else None
            link.last_state = state
        place = port_place(self._root, key.partition("/")[0]) if link.counters is None else link.counters.place
        link.counters = LinkCounters(*counts, link.bits_per_s, state, "ib", place)
        return link.counters

    def close(self) -> None:
        """Close the descriptors."""
        for link in self._links.values():
            link.close()
        self._links.clear()


_LinkCounts = tuple[int, int, int | None, int | None, int | None, int | None]
"""The counts in the order of the first fields of LinkCounters: bytes, errors and drops, each received, then sent."""


def _ib_counts(counts: dict[str, int]) -> _LinkCounts | None:
    """Return the counts of an InfiniBand port; None if its bytes are unknown or do not fit into 64 bits."""
    words = counts.get("port_rcv_data"), counts.get("port_xmit_data")
    rx, tx = (None if count is None else known_int(count * _IB_WORD_BYTES) for count in words)
    if rx is None or tx is None:
        return None
    errors, drops = counts.get("port_rcv_errors"), counts.get("port_xmit_discards")
    return rx, tx, errors, None, None, drops


def _efa_counts(counts: dict[str, int]) -> _LinkCounts | None:
    """Return the counts of AWS's adapter; None if its bytes are unknown or do not fit into 64 bits.

    rx_bytes and tx_bytes count all bytes on the wire. On adapters where they do not include RDMA, the sum over the
    operations is larger and is used.
    """
    if "rx_bytes" not in counts or "tx_bytes" not in counts:
        return None
    received = max(counts["rx_bytes"], sum(counts.get(name, 0) for name in _EFA_RECEIVED))
    sent = max(counts["tx_bytes"], sum(counts.get(name, 0) for name in _EFA_SENT))
    if known_int(received) is None or known_int(sent) is None:
        return None
    return received, sent, None, None, counts.get("rx_drops"), None
