"""Reads the byte counts of TCP sockets by inode, and finds which of these sockets training processes have open.

The kernel lists every TCP socket of this network namespace to any user (NETLINK_SOCK_DIAG); such a list is a dump.
struct tcp_info has the byte counts. Only the links in a process's fd folder show which sockets it has open. Sources:
man 7 sock_diag, include/uapi/linux/inet_diag.h and tcp.h, net/ipv4/inet_diag.c.

The list has no sockets of another network namespace (such as a container's own), no MPTCP sockets, and no connections
that open and close between two calls.
"""

from __future__ import annotations

import _socket as socket  # importing socket itself (selectors, enums) would add 2 ms to each start
import errno
import os
import struct
from collections.abc import Collection, Mapping
from functools import lru_cache

from iotop_ai.collectors.base import Unavailable
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.reading import Status

NETLINK_SOCK_DIAG = 4
TCPDIAG_GETSOCK = 18
"""The older type of request. Unlike SOCK_DIAG_BY_FAMILY, it lists IPv4 and IPv6 in one pass over the kernel's table."""
NLMSG_ERROR, NLMSG_DONE = 2, 3
NLM_F_REQUEST, NLM_F_DUMP = 1, 0x300
INET_DIAG_INFO = 2
ESTABLISHED, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT, LISTEN = 1, 4, 5, 8, 10
STATES = 1 << ESTABLISHED | 1 << FIN_WAIT1 | 1 << FIN_WAIT2 | 1 << CLOSE_WAIT | 1 << LISTEN

REQUEST = struct.Struct("=IHHII BBBB48xII")
"""The fields of nlmsghdr (length, type, flags, sequence, port) and of inet_diag_req.

inet_diag_req has the family, lengths, extensions, ID, states and dbs.
"""
HEADER = struct.Struct("=IHHI4x")
"""The fields of nlmsghdr in an answer: length, type, flags and sequence."""
SOCKET = struct.Struct("=16x BB2x 2s2s16s16s12x 12xII")
"""The fields of inet_diag_msg after the header.

They are the family, the state, the local and the remote port, the local and the remote address, the UID and the inode.
Ports and addresses are in network byte order.
"""
ATTRIBUTE = struct.Struct("=HH")
"""The length and the type of an attribute."""
INFO = struct.Struct("=HH 68xI28xI16xQQ")
"""The attribute's length and type, then tcpi_rtt, _total_retrans, _bytes_acked and _bytes_received (Linux 4.1)."""
INFO_AND_SENT = struct.Struct("=HH 68xI28xI16xQQ64xQ")
"""The fields of INFO, then tcpi_bytes_sent (Linux 4.19)."""

MAPPED_PREFIX = bytes(10) + b"\xff\xff"
"""The first 12 bytes of an IPv4 address that is mapped to IPv6."""

MOST_SOCKETS = 20_000
"""A dump ends after this many sockets."""
BUFFER_BYTES = 32_768
"""The size of the receive buffer, in bytes. The kernel would not use more of a larger buffer."""
TIMEOUT_US = 250_000
RETRY_NS = 60_000_000_000
"""How long after a failed dump the next dump is tried, in nanoseconds."""

MOST_FDS = 512
"""The most fd links that are read of one process."""
RELIST_NS = 2_000_000_000
"""How long the list of a process's fd links is used before it is read again, in nanoseconds."""
RELIST_SOON_NS = 200_000_000
"""How long the list is used after a new connection has appeared on this machine, in nanoseconds."""
MOST_LINKS = 400
"""After reading this many fd links, which takes 1 ms, an update leaves further known processes to the next update."""
GROWING_NS = 400_000_000
"""How long a process counts as receiving after its last new bytes, in nanoseconds."""


class TcpSocket(NamedTuple):
    """A TCP socket, with its counts since it was opened.

    received_bytes: the bytes received; the end of the peer's data counts as one byte. peer: the peer in numeric form,
    "10.0.0.3:443" or "[::1]:9000". ends: the local and the remote end, each as its port (2 bytes) and address (4 or 16
    bytes). sent_bytes: the bytes sent, with retransmissions; before Linux 4.19 only acknowledged bytes. rtt_us: the
    round-trip time; None before it is first measured. retransmits: the number of retransmitted segments.
    """

    inode: int
    received_bytes: int
    sent_bytes: int
    peer: str
    ends: tuple[bytes, bytes]
    uid: int
    rtt_us: int | None
    retransmits: int

    @property
    def address(self) -> bytes:
        """The peer's address as bytes."""
        return self.ends[1][2:]


class Traffic(NamedTuple):
    """The TCP traffic of a process. A socket that several processes have open counts for each of them.

    received_bytes_per_s: the rate since the previous update. growing: whether an update in the last 0.4 s saw new
    bytes. peer: the peer of the socket that received most since the previous update, or, if no bytes are new, since the
    socket was opened; "" without sockets that count. sockets: the number of sockets that count; inodes: those sockets.
    near: the number of connected sockets that do not count. A socket does not count if this machine accepts connections
    on its port, or if its other end is in the same job; for the processes in ``remote_only`` of ``JobSockets.update``,
    also if its other end is on this machine.
    """

    received_bytes_per_s: float
    growing: bool
    peer: str
    sockets: int
    near: int = 0
    inodes: frozenset[int] = frozenset()


class SocketDiag:
    """Lists the TCP sockets of this network namespace over a netlink socket that stays open.

    unavailable: the exception of the last dump if it failed; otherwise None. complete: whether the last dump listed
    every socket. own_addresses: the addresses of this machine that its sockets use. listening: the ports on which the
    machine accepts connections, in network byte order.
    """

    def __init__(self, root: Root, clock: Clock) -> None:
        self._clock = clock
        self._socket: socket.socket | None = None
        self._buffer = bytearray(BUFFER_BYTES)
        self._sequence = 0
        self._layouts: dict[int, tuple[int, struct.Struct]] = {}
        """(offset of INET_DIAG_INFO, struct that fits) by the length of the message.

        Messages of the same length usually have the same layout.
        """
        self._retry_ns: int | None = None
        self._live = root.live
        self.unavailable: Unavailable | None = None
        self.complete = True
        self.own_addresses: set[bytes] = set()
        self.listening: set[bytes] = set()

    def dump(self) -> dict[int, TcpSocket]:
        """Return the connected sockets by inode. Raises Unavailable when a dump fails, unless the last one failed too.

        After a failure, calls return {} until a dump succeeds. They try a dump once a minute, or never with --procfs.
        """
        if self.unavailable is not None and not (self._retry_ns and self._clock.monotonic_ns() >= self._retry_ns):
            return {}
        earlier = self.unavailable
        try:
            sockets = self._dump()
        except Unavailable as unavailable:
            self.unavailable = unavailable
        except OSError as error:
            self.unavailable = _as_unavailable(error)
        else:
            self.unavailable = None
            return sockets
        self.close()
        self._retry_ns = self._clock.monotonic_ns() + RETRY_NS if self._live else None
        if earlier is None:
            raise self.unavailable
        return {}

    def close(self) -> None:
        """Close the netlink socket; a second call does nothing."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _dump(self) -> dict[int, TcpSocket]:
        if not self._live:
            raise Unavailable(Status.UNSUPPORTED, "the kernel lists this machine's sockets only, not those of --procfs")
        if self._socket is None:
            self._socket = _open()
        self._sequence = (self._sequence + 1) & 0xFFFFFFFF
        flags = NLM_F_REQUEST | NLM_F_DUMP
        extensions = 1 << (INET_DIAG_INFO - 1)
        head = (REQUEST.size, TCPDIAG_GETSOCK, flags, self._sequence, 0)
        self._socket.send(REQUEST.pack(*head, 0, 0, 0, extensions, STATES, 0))
        sockets: dict[int, TcpSocket] = {}
        self.complete = True
        self.own_addresses, self.listening = set(), set()
        listed = 0
        while (count := self._add(sockets, self._socket.recv_into(self._buffer))) is not None:
            listed += count
            if listed >= MOST_SOCKETS:
                self.complete = False
                self.close()  # this also ends the kernel's dump
                break
        return sockets

    def _add(self, sockets: dict[int, TcpSocket], size: int) -> int | None:
        """Add the sockets in the first ``size`` bytes of the buffer; return the number of messages; None at the end.

        Raises OSError for a damaged message or if the dump failed, and Unavailable if the kernel does not count bytes.
        """
        buffer = self._buffer
        at = count = 0
        while at + HEADER.size <= size:
            length, kind, _, sequence = HEADER.unpack_from(buffer, at)
            if length < HEADER.size or at + length > size:
                break
            if sequence == self._sequence:
                if kind in (NLMSG_DONE, NLMSG_ERROR):
                    _check(bytes(buffer[at + HEADER.size : at + length]))
                    return None
                if length < SOCKET.size:
                    break
                family, state, own_port, port, own_address, address, uid, inode = SOCKET.unpack_from(buffer, at)
                own_address = plain_address(family, own_address)
                self.own_addresses.add(own_address)
                if state == LISTEN:
                    self.listening.add(own_port)
                elif inode:  # a socket with inode 0 is not open in any process
                    rtt, retransmits, sent, received = self._info(at, length)
                    peer = numeric_peer(family, address, port)
                    ends = own_port + own_address, port + plain_address(family, address)
                    sockets[inode] = TcpSocket(inode, received, sent, peer, ends, uid, rtt or None, retransmits)
            count += 1
            at += (length + 3) & ~3
        if not count or at < size:
            raise OSError(errno.EBADMSG, "damaged netlink message")
        return count

    def _info(self, at: int, length: int) -> tuple[int, int, int, int]:
        """Return (rtt, retransmits, bytes sent, bytes received) from the message at offset ``at``."""
        offset, layout = self._layouts.get(length) or self._find_info(at, length)
        fields = layout.unpack_from(self._buffer, at + offset)
        if fields[1] != INET_DIAG_INFO or fields[0] < layout.size:
            offset, layout = self._find_info(at, length)
            fields = layout.unpack_from(self._buffer, at + offset)
        return fields[2], fields[3], fields[-1] if layout is INFO_AND_SENT else fields[4], fields[5]

    def _find_info(self, at: int, length: int) -> tuple[int, struct.Struct]:
        """Return the offset of INET_DIAG_INFO in the message and a struct that fits. Raises Unavailable if missing."""
        offset = SOCKET.size
        while offset + ATTRIBUTE.size <= length:
            size, kind = ATTRIBUTE.unpack_from(self._buffer, at + offset)
            if kind == INET_DIAG_INFO and size >= INFO.size and offset + size <= length:
                self._layouts[length] = offset, INFO_AND_SENT if size >= INFO_AND_SENT.size else INFO
                return self._layouts[length]
            if size < ATTRIBUTE.size:
                break
            offset += (size + 3) & ~3
        raise Unavailable(Status.UNSUPPORTED, "this kernel does not count the bytes of a TCP socket (Linux 4.1 does)")


class _OpenSockets(NamedTuple):
    """The sockets that a process has open, as its fd links show them.

    inodes: the inodes of the sockets; None when the links cannot be read, and for a process in another network
    namespace. links: the number of links that were read. listed_ns: the time of the read.
    """

    inodes: frozenset[int] | None
    links: int
    listed_ns: int

    @property
    def partial(self) -> bool:
        """Whether the process may have more sockets than those listed."""
        return self.links >= MOST_FDS


class JobSockets:
    """Measures the TCP traffic of the processes of training jobs."""

    def __init__(self, root: Root, diag: SocketDiag) -> None:
        self._root = root
        self._diag = diag
        self._namespace = root.link("proc/self/ns/net")
        self._open_sockets: dict[int, _OpenSockets] = {}
        """The open sockets of each process, by PID."""
        self._sockets: dict[int, TcpSocket] | None = None
        """The newest list of sockets; None when it is unknown."""
        self._complete = False
        self._at_ns = 0
        self._grew_ns: dict[int, int] = {}
        """The time at which new bytes were last noticed, by inode; only times within the last 0.4 s."""

    def update(
        self,
        pids: Collection[int],
        now_ns: int,
        remote_only: Collection[int] = (),
        jobs: Mapping[int, ProcessKey] | None = None,
    ) -> dict[int, Traffic]:
        """Return the traffic since the previous update by PID; a process whose traffic is unknown is left out.

        remote_only: PIDs of the processes for which only connections with other machines count. jobs: the job of
        each process by PID; a connection between two processes of the same job does not count.

        At the first update, the traffic of every process with sockets is unknown. Later, traffic is unknown when
        sockets cannot be listed (``SocketDiag.unavailable``), and for processes of other users or of another network
        namespace. The traffic of a process without new bytes is also unknown if the process has 512 descriptors or
        more, or if the list of sockets was cut off and lacks one of the process's sockets. The links are read every
        2 s, and sooner after a new connection.
        """
        earlier = self._sockets
        new_bytes = self._new_bytes()
        has_new_connections = (
            earlier is not None and self._sockets is not None and not self._sockets.keys() <= earlier.keys()
        )
        self._read_due_links(pids, now_ns, RELIST_SOON_NS if has_new_connections else RELIST_NS)
        if new_bytes is not None:
            self._grew_ns |= dict.fromkeys(new_bytes, now_ns)
        self._grew_ns = {inode: at for inode, at in self._grew_ns.items() if now_ns - at < GROWING_NS}
        seconds = (now_ns - self._at_ns) / 1e9
        self._at_ns = now_ns
        within_job = self._within_job(jobs or {})
        out = {}
        for pid, open_sockets in self._open_sockets.items():
            traffic = self._traffic(open_sockets, new_bytes, seconds, pid in remote_only, within_job)
            if traffic is not None:
                out[pid] = traffic
        return out

    def _within_job(self, jobs: Mapping[int, ProcessKey]) -> set[int]:
        """Return the inodes of the sockets whose other end a process of the same job has open."""
        holders: dict[int, set[ProcessKey]] = {}
        for pid, open_sockets in self._open_sockets.items():
            for inode in open_sockets.inodes or () if pid in jobs else ():
                holders.setdefault(inode, set()).add(jobs[pid])
        sockets = self._sockets or {}
        tcp_sockets = {inode: sockets[inode] for inode in holders.keys() & sockets.keys()}
        inode_by_ends = {
            tcp_socket.ends: inode
            for inode, tcp_socket in tcp_sockets.items()
            if tcp_socket.address in self._diag.own_addresses
        }
        return {
            inode
            for (own, peer), inode in inode_by_ends.items()
            if (other := inode_by_ends.get((peer, own))) is not None and holders[inode] & holders[other]
        }

    def _traffic(
        self,
        open_sockets: _OpenSockets,
        new_bytes: dict[int, int] | None,
        seconds: float,
        remote_only: bool,
        within_job: set[int],
    ) -> Traffic | None:
        if not open_sockets.inodes:
            return None if open_sockets.inodes is None or open_sockets.partial else Traffic(0.0, False, "", 0)
        if new_bytes is None or self._sockets is None or seconds <= 0:
            return None
        sockets = self._sockets
        counting = sockets.keys() & open_sockets.inodes
        all_listed, connected = self._complete or len(counting) == len(open_sockets.inodes), len(counting)
        # Leave out the connections of a server with its clients: a server without requests does not wait for data.
        counting = {inode for inode in counting - within_job if sockets[inode].ends[0][:2] not in self._diag.listening}
        if remote_only:
            counting = {inode for inode in counting if sockets[inode].address not in self._diag.own_addresses}
        growing = not counting.isdisjoint(self._grew_ns)
        if not growing and (open_sockets.partial or not all_listed):
            return None
        busiest = max(
            counting, key=lambda inode: (new_bytes.get(inode, 0), sockets[inode].received_bytes), default=None
        )
        total = sum(new_bytes.get(inode, 0) for inode in counting)
        peer = "" if busiest is None else sockets[busiest].peer
        near = connected - len(counting)
        return Traffic(total / seconds, growing, peer, len(counting), near, frozenset(counting))

    def _new_bytes(self) -> dict[int, int] | None:
        """Return the bytes received since the previous update by inode, without zeros; None when they are unknown."""
        earlier, was_complete = self._sockets, self._complete
        self._sockets, self._complete = self._dump(), self._diag.complete
        if earlier is None or self._sockets is None:
            return None
        out = {}
        for inode, now in self._sockets.items():
            before = earlier.get(inode)
            if before is not None:
                count = now.received_bytes - before.received_bytes
            else:  # the socket is newer than the earlier list, unless that list was cut
                count = now.received_bytes if was_complete else 0
            if count > 0:
                out[inode] = count
        return out

    def _dump(self) -> dict[int, TcpSocket] | None:
        """Return the current sockets; None when they are unknown."""
        try:
            sockets = self._diag.dump()
        except Unavailable:  # diag.unavailable keeps the reason
            return None
        return sockets if self._diag.unavailable is None else None

    def _read_due_links(self, pids: Collection[int], now_ns: int, after_ns: int) -> None:
        """Read the fd links of new processes, and of those last read at least ``after_ns`` ago, the oldest first."""
        open_sockets = {pid: self._open_sockets[pid] for pid in pids if pid in self._open_sockets}
        due = sorted((row.listed_ns, pid) for pid, row in open_sockets.items() if now_ns - row.listed_ns >= after_ns)
        for pid in pids:
            if pid not in open_sockets:
                open_sockets[pid] = self._read(pid, now_ns)
        links = 0
        for _, pid in due:
            if links >= MOST_LINKS:
                break
            open_sockets[pid] = self._read(pid, now_ns)
            links += open_sockets[pid].links
        self._open_sockets = open_sockets

    def _read(self, pid: int, now_ns: int) -> _OpenSockets:
        links = self._root.links(f"proc/{pid}/fd", MOST_FDS)
        if links is None or self._root.link(f"proc/{pid}/ns/net") != self._namespace:
            return _OpenSockets(None, 0, now_ns)
        inodes = frozenset(int(target[8:-1]) for target in links.values() if target.startswith("socket:["))
        return _OpenSockets(inodes, len(links), now_ns)


@lru_cache(4096)
def plain_address(family: int, address: bytes) -> bytes:
    """Return 4 bytes for an IPv4 address, even if it is mapped to IPv6, and 16 bytes for an IPv6 address."""
    if family != socket.AF_INET6:
        return address[:4]
    return address.removeprefix(MAPPED_PREFIX)


@lru_cache(4096)
def numeric_peer(family: int, address: bytes, port: bytes) -> str:
    """Return ``10.0.0.3:443`` or ``[::1]:9000`` from an address and port in network byte order.

    An IPv4 address that is mapped to IPv6 is written as IPv4.
    """
    address = plain_address(family, address)
    number = int.from_bytes(port, "big")
    if len(address) > 4:
        return f"[{socket.inet_ntop(family, address)}]:{number}"
    return f"{socket.inet_ntop(socket.AF_INET, address)}:{number}"


def _open() -> socket.socket:
    """Open a netlink socket whose calls time out after a quarter of a second. Raises OSError."""
    netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG)
    try:
        netlink.bind((0, 0))
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            netlink.setsockopt(socket.SOL_SOCKET, option, struct.pack("@ll", 0, TIMEOUT_US))
    except OSError:
        netlink.close()
        raise
    return netlink


def _check(payload: bytes) -> None:
    """Raise the OSError that ended a dump, if an error ended it."""
    code = -int(struct.unpack_from("=i", payload)[0]) if len(payload) >= 4 else 0
    if code:
        raise OSError(code, os.strerror(code))


def _as_unavailable(error: OSError) -> Unavailable:
    if error.errno in (errno.EPERM, errno.EACCES):
        return Unavailable(Status.DENIED, "the kernel's list of sockets is not permitted here (NETLINK_SOCK_DIAG)")
    return Unavailable(Status.UNSUPPORTED, f"the kernel does not list its sockets: {error.strerror or error}")
