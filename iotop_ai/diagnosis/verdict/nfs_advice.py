"""The advice about the options of an NFS mount, from nfsiostat's figures of its reads."""

from __future__ import annotations

from iotop_ai.diagnosis.facts.gather import Args, Facts
from iotop_ai.diagnosis.facts.window import mean
from iotop_ai.model.finding import Advice
from iotop_ai.model.job.records import JobMount

RESENT = 0.01
"""A network loses requests if at least this part of the reads is sent again: over TCP only after a timeout or a lost
connection. Source: nfs(5), timeo and retrans."""
LEAST_RSIZE = 1 << 18
"""A smaller rsize, in bytes, splits the reads of a loader into many requests; the kernel's default is 1 MiB."""
CONNECTIONS = 8
"""The number of connections that the advice names; the kernel allows 16. Source: nfs(5), nconnect."""


def nfs_advice(facts: Facts, job_mount: JobMount) -> tuple[Advice, ...]:
    """The advice about this NFS mount; () for another filesystem, and if its options are not the reason.

    They are not if the time of a read is spent at the server, or if a network link is full.
    """
    table, path = facts.snapshot.netfs.value, job_mount.path
    mount = None if table is None else table.nfs.get(path)
    if mount is None or mount.source != job_mount.source:  # a container has mounts of its own
        return ()
    reads = [
        rates.ops["READ"]
        for sample in facts.window.samples
        if (rates := (sample.netfs.value or {}).get(path)) is not None and "READ" in rates.ops
    ]
    rtt_ms, queue_ms = mean(read.rtt_ms for read in reads), mean(read.queue_ms for read in reads)
    if rtt_ms is None or queue_ms is None:
        return ()
    args: Args = (("mount", path), ("rtt_ms", rtt_ms), ("queue_ms", queue_ms))
    resent = mean(read.retransmit_ratio for read in reads)
    if resent is not None and resent >= RESENT:
        return (Advice("nfs_options", (*args, ("resent", resent))),)
    if mount.rsize is not None and mount.rsize < LEAST_RSIZE:
        return (Advice("nfs_options", (*args, ("rsize", float(mount.rsize)))),)
    if mount.nconnect is not None and mount.nconnect < CONNECTIONS and queue_ms >= rtt_ms and not _link_is_full(facts):
        numbers = (("nconnect", float(mount.nconnect)), ("then", float(CONNECTIONS)))
        return (Advice("nfs_options", (*args, *numbers, ("fstype", mount.fstype))),)
    return ()


def _link_is_full(facts: Facts) -> bool:
    busiest = [
        max((link.busy_ratio or 0.0 for link in (sample.network.value or {}).values()), default=0.0)
        for sample in facts.window.samples
    ]
    return (mean(busiest) or 0.0) >= facts.limits.network_full
