"""Network filesystems: NFS from /proc/self/mountstats, with nfsiostat's formulas, and the waiting requests of FUSE.

Source: tools/nfs-iostat in nfs-utils; net/sunrpc/stats.c. The kernel truncates times to milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.counter import delta, per_second, quotient, total
from iotop_ai.model.metric import Metric


class NfsOp(NamedTuple):
    """The counters of one kind of operation since the mount.

    ops, trans: the operations, and the RPC transmissions, which include repeated ones
    queue_ms, rtt_ms, exe_ms: sums over all operations
    errors: None before Linux 5.3
    """

    ops: int
    trans: int
    timeouts: int
    sent_bytes: int
    received_bytes: int
    queue_ms: int
    rtt_ms: int
    exe_ms: int
    errors: int | None = None


class NfsMount(NamedTuple):
    """One NFS mount.

    *_bytes: the counters of the ``bytes:`` line
    sends, backlog: the counters of the ``xprt:`` lines, summed over all connections
    ops: the counters of each operation, by its name ("READ")
    age_s: the seconds since it was mounted; None without an ``age:`` line
    rsize, nconnect: these mount options from the ``opts:`` line: the most bytes of one read request, and the number of
        connections to the server; None if unknown
    """

    mount: str
    source: str
    fstype: str
    normal_read_bytes: int
    normal_write_bytes: int
    direct_read_bytes: int
    direct_write_bytes: int
    server_read_bytes: int
    server_write_bytes: int
    sends: int | None
    backlog: int | None
    ops: Mapping[str, NfsOp]
    age_s: int | None = None
    rsize: int | None = None
    nconnect: int | None = None


class FuseMount(NamedTuple):
    """One FUSE connection, and how many requests wait for its server now.

    mount: the mount point; "" if unknown
    waiting: the number of waiting requests; None while fusectl is not mounted, and for another user's connection
    """

    mount: str
    source: str
    fstype: str
    waiting: int | None
    max_background: int | None


class NetfsTable(NamedTuple):
    """The network filesystems.

    nfs: the NFS mounts by mount point; of several mounts of one filesystem, that with the shortest mount point
    fuse: all FUSE connections by number
    """

    nfs: Mapping[str, NfsMount]
    fuse: Mapping[str, FuseMount]


class NfsOpRates(NamedTuple):
    """nfsiostat's figures of one operation; None if unknown, and also, for means and ratios, if none completed."""

    ops_per_s: Annotated[float | None, Metric("1/s", "Operations per second.", "ops/s")]
    bytes_per_s: Annotated[float | None, Metric("B/s", "Bytes sent and received per second.", "kB/s")]
    bytes_per_op: Annotated[float | None, Metric("B", "Bytes per operation.", "kB/op")]
    retransmits_per_s: Annotated[float | None, Metric("1/s", "Retransmissions per second.", "retrans")]
    retransmit_ratio: Annotated[float | None, Metric("ratio", "Retransmissions per operation.")]
    rtt_ms: Annotated[float | None, Metric("ms", "Mean time on the wire and at the server.", "avg RTT (ms)")]
    exe_ms: Annotated[float | None, Metric("ms", "Mean time from start to end of the operation.", "avg exe (ms)")]
    queue_ms: Annotated[float | None, Metric("ms", "Mean time queued before sending.", "avg queue (ms)")]
    error_ratio: Annotated[float | None, Metric("ratio", "Share of operations that ended in an error.", "errors")]


UNKNOWN_NFS_OP = NfsOpRates(*[None] * len(NfsOpRates._fields))


class NfsRates(NamedTuple):
    """The figures of one NFS filesystem.

    ops: the rates by operation: READ and WRITE, and others that completed in the interval
    """

    ops_per_s: Annotated[float | None, Metric("1/s", "RPC requests sent per second.", "ops/s")]
    backlog: Annotated[float | None, Metric("count", "Mean client backlog per request.", "rpc bklog")]
    server_read_bytes_per_s: Annotated[float | None, Metric("B/s", "Bytes read from the server per second.")]
    server_write_bytes_per_s: Annotated[float | None, Metric("B/s", "Bytes written to the server per second.")]
    cache_hit_ratio: Annotated[float | None, Metric("ratio", "Share of read bytes served by the page cache.")]
    ops: Mapping[str, NfsOpRates]


def nfs_op_rates(before: NfsOp, after: NfsOp, seconds: float | None) -> NfsOpRates:
    """nfsiostat's figures between two readings of one operation; all are None after a reset, such as a new mount."""
    if any(b is not None and a is not None and b < a for a, b in zip(before, after, strict=True)):
        return UNKNOWN_NFS_OP
    ops = delta(before.ops, after.ops)
    moved = total(delta(before.sent_bytes, after.sent_bytes), delta(before.received_bytes, after.received_bytes))
    trans = delta(before.trans, after.trans)
    retransmits = None if ops is None or trans is None else max(0, trans - ops)
    return NfsOpRates(
        per_second(ops, seconds),
        per_second(moved, seconds),
        quotient(moved, ops),
        per_second(retransmits, seconds),
        quotient(retransmits, ops),
        quotient(delta(before.rtt_ms, after.rtt_ms), ops),
        quotient(delta(before.exe_ms, after.exe_ms), ops),
        quotient(delta(before.queue_ms, after.queue_ms), ops),
        quotient(delta(before.errors, after.errors), ops),
    )


def _is_new_mount(before: NfsMount, after: NfsMount) -> bool:
    if before.age_s is not None and after.age_s is not None and after.age_s < before.age_s:
        return True
    # Fields 3 to 10 are the counters normal_read_bytes to backlog.
    pairs = zip(before[3:11], after[3:11], strict=True)
    return any(isinstance(a, int) and isinstance(b, int) and b < a for a, b in pairs)


def nfs_rates(before: NfsMount, after: NfsMount, seconds: float | None) -> NfsRates:
    """The figures of one mount. The cache hit ratio is computed as in nfsiostat and limited to 0 to 1.

    If the age or a counter fell, another filesystem was mounted there, so the figures of the interval are unknown.
    """
    if _is_new_mount(before, after):
        return NfsRates(None, None, None, None, None, {})
    sends = delta(before.sends, after.sends)
    normal = delta(before.normal_read_bytes, after.normal_read_bytes)
    direct = delta(before.direct_read_bytes, after.direct_read_bytes)
    server = delta(before.server_read_bytes, after.server_read_bytes)
    missed = None if server is None or direct is None else server - direct
    hits = None if normal is None or missed is None else quotient(min(normal, max(0, normal - missed)), normal)
    ops = {
        name: nfs_op_rates(old, now, seconds)
        for name, now in after.ops.items()
        if (old := before.ops.get(name)) is not None and (now.ops != old.ops or name in ("READ", "WRITE"))
    }
    return NfsRates(
        per_second(sends, seconds),
        quotient(delta(before.backlog, after.backlog), sends),
        per_second(server, seconds),
        per_second(delta(before.server_write_bytes, after.server_write_bytes), seconds),
        hits,
        ops,
    )


def netfs_rates(before: NetfsTable | None, after: NetfsTable, seconds: float | None) -> dict[str, NfsRates]:
    """The rates of each NFS mount that is in both readings with the same source; FUSE has no counters and no rates."""
    if before is None:
        return {}
    return {
        mount: nfs_rates(old, now, seconds)
        for mount, now in after.nfs.items()
        if (old := before.nfs.get(mount)) is not None and old.source == now.source
    }
