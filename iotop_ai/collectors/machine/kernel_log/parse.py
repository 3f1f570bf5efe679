"""Parses lines of the kernel log that explain why training is slow or has failed.

The forms of the lines are those of Linux 4.18 to 6.18 in block/blk-core.c (blk_print_req_error),
drivers/nvme/host/pci.c (nvme_timeout), mm/oom_kill.c (__oom_kill_process, dump_oom_summary), kernel/hung_task.c,
drivers/md/md.c and raid*.c, fs/ext4/super.c, fs/xfs/{xfs_fsops,xfs_error,xfs_log}.c, fs/btrfs/{messages,volumes}.c,
net/sunrpc/clnt.c and fs/smb/client/connect.c; https://docs.nvidia.com/deploy/xid-errors/ lists the Xids.
hardware.py parses the lines about hardware errors.
"""

from __future__ import annotations

from iotop_ai.collectors.machine.kernel_log.event import (
    FILESYSTEM,
    HUNG_TASK,
    IO_ERROR,
    OOM_CGROUP,
    OOM_KILL,
    RAID,
    READ_ONLY,
    SERVER,
    TIMEOUT,
    XID,
    LogEvent,
)
from iotop_ai.collectors.machine.kernel_log.hardware import PARSERS as HARDWARE_PARSERS
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.lazy.regex import pattern
from iotop_ai.model.clean import clean_bytes
from iotop_ai.model.gpu.xid import ASKS_RECOVERY

KERNEL = 0
"""The facility of the kernel's own records. Records that programs write to /dev/kmsg never have it (printk docs)."""
_LONGEST_RECORD = 1024
"""The most characters of a record that are kept; the kernel writes no more (PRINTKRB_RECORD_MAX, kernel/printk)."""


class Record(NamedTuple):
    """One record of /dev/kmsg. facility: KERNEL, or the facility of the program that wrote the record."""

    facility: int
    text: str


_RECORD = pattern(rb"(\d{1,4}),\d+,\d+,[^;]{0,64};")
_ESCAPED = pattern(rb"\\x([0-9a-f]{2})")
_NAME = r"([A-Za-z0-9!_.-]{1,32})"

_REQUEST = pattern(
    rf"^(?:(?:blk_update_request|print_req_error|end_request): )?([A-Za-z/ ]{{1,40}}) error, dev {_NAME}, "
    r"sector (\d{1,20})(?: op 0x[0-9a-f]+:\(([A-Z_]{1,20})\))?"
)
_BUFFER = pattern(rf"^Buffer I/O error on dev(?:ice)? {_NAME}, logical block (\d{{1,20}}), lost ([a-z ]{{1,20}})$")
_NVME = pattern(r"^nvme (nvme\d{1,5}): I/O (?:tag )?\d+.{0,60}? QID \d+ timeout, (aborting|reset|completion polled)")
_OOM = pattern(r"^(Memory cgroup out of memory|Out of memory(?: \([a-z_]+\))?): Killed process (\d{1,10}) \((.*)\)")
_XID = pattern(
    r"^NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]{7,16})(?: GPU-I:\d{1,4})?(?: GPU-CI:\d{1,4})?\): (\d{1,4})(?:, (.*))?$"
)
"""The line of an Xid. GPU-I and GPU-CI are the MIG instances that the Xid concerns.

Sample: "NVRM: Xid (PCI:0000:01:00 GPU-I:05 GPU-CI:00): 13, pid=7194, name=python, Graphics Exception".
"""
_RECOVERY = pattern(r"GPU recovery action changed from 0x[0-9a-f]+ \([^)]{0,40}\) to (0x[0-9a-f]{1,4}) \(")
"""The text of an Xid 154, which names the recovery action that earlier Xids require.

Sample: "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)".
"""
_EXT4 = pattern(rf"^EXT4-fs \({_NAME}\): Remounting filesystem read-only")
_XFS = pattern(rf"^XFS \({_NAME}\): .{{0,200}}?(?:Shutting down filesystem|Filesystem has been shut down)")
_BTRFS = pattern(rf"^BTRFS info \(device {_NAME}(?: state [A-Z]+)?\): forced readonly")
_MD_RUNS = pattern(rf"^md: (resync|recovery|reshape|data-check|requested-resync) of RAID array {_NAME}$")
_MD_ENDS = pattern(rf"^md: {_NAME}: (resync|recovery|reshape|data-check|requested-resync) (done|interrupted)\.$")
_MD_FAILS = pattern(rf"^md/raid\d*:{_NAME}: Disk failure on {_NAME}, disabling device")
_HUNG = pattern(r"^INFO: task (.{1,64}):(\d{1,10}) blocked (?:in I/O wait )?for more than (\d{1,9}) seconds")
_OOM_CGROUP = pattern(
    r"^oom-kill:constraint=CONSTRAINT_MEMCG,.*,oom_memcg=(.{1,400}),task_memcg=.*,pid=(\d{1,10}),uid=\d+$"
)
_EXT4_ERROR = pattern(rf"^EXT4-fs error \(device {_NAME}\): (\w{{1,64}}):\d+: ")
_XFS_ERROR = pattern(
    rf"^XFS \({_NAME}\): (Metadata corruption|Metadata CRC error|[Mm]etadata I/O error|log I/O error|Internal error)\b"
)
_BTRFS_ERRORS = pattern(
    rf"^BTRFS error \(device {_NAME}(?: state [A-Z]+)?\): bdev /dev/(\S{{1,64}}) errs: "
    r"wr (\d+), rd (\d+), flush (\d+), corrupt (\d+), gen (\d+)$"
)
_BTRFS_CSUM = pattern(rf"^BTRFS warning \(device {_NAME}(?: state [A-Z]+)?\): csum failed root -?\d+ ino (\d+) ")
_SERVER = pattern(r"^([a-z0-9_]{1,16}): server (\S{1,256}) (not responding, (?:still trying|timed out)|OK)$")
_SMB = pattern(r"^CIFS: (?:VFS: )?\\\\(\S{1,256}) has not responded in (\d{1,9}) seconds\. Reconnecting")

NOT_DISK_FAULTS = frozenset(
    {
        *("operation not supported", "nonblocking retry", "dm internal retry", "kernel resource", "device resource"),
        *("critical nexus", "reservation conflict", "zone open resource", "zone active resource"),
    }
)
"""Errors of requests that are not faults of the disk.

Their causes are unsupported operations, retries, missing resources, a reservation by another host, and too many open
zones.
"""
NO_SPACE = "critical space allocation"
"""The error of a thin volume whose pool is full; the disk itself works."""

_OPTIONAL = ("DISCARD", "SECURE_ERASE", "WRITE_ZEROES")
"""Operations without data that the kernel tries although many disks reject them."""
_REJECTIONS = ("critical target", "I/O")
"""The errors by which a disk rejects an operation. For an operation in _OPTIONAL they do not count as a fault."""


def parse_record(raw: bytes) -> Record | None:
    """Parse the record from one read of /dev/kmsg, without its KEY=value lines; None if it is not a record.

    The record is ``priority,sequence,µs,flags;text``, where \\xNN stands for a byte that is not printable. Source:
    https://docs.kernel.org/admin-guide/abi-testing.html, /dev/kmsg.
    """
    head = _RECORD.match(raw)
    if head is None:
        return None
    line = raw[head.end() :].split(b"\n", 1)[0]
    line = _ESCAPED.sub(lambda escaped: bytes([int(escaped[1], 16)]), line)
    return Record(int(head[1]) >> 3, clean_bytes(line, _LONGEST_RECORD))


def parse_line(text: str) -> LogEvent | None:
    """Return the event that a line of the kernel log reports; None for an irrelevant line."""
    # Most lines do not have the text that a parser requires; they are skipped without a regular expression.
    for required, parse in _ALL_PARSERS:
        if required in text:
            event = parse(text)
            if event is not None:
                return event
    return None


def _request(text: str) -> LogEvent | None:
    match = _REQUEST.match(text)
    if match is None or match[1] in NOT_DISK_FAULTS:
        return None
    kind, name, sector, op = match.groups()
    name = name.replace("!", "/")
    if kind == NO_SPACE:
        return LogEvent(IO_ERROR, name, f"{name}: its pool has no space left for a write: enlarge the pool")
    position = f"{op.lower().replace('_', ' ')} at sector {sector}" if op else f"sector {sector}"
    text = f"{name}: {kind} error, {position}"
    if op in _OPTIONAL and kind in _REJECTIONS:
        return LogEvent(IO_ERROR, name, text)
    return LogEvent(IO_ERROR, name, text, kind, is_counted=True)


def _buffer(text: str) -> LogEvent | None:
    match = _BUFFER.match(text)
    if match is None:
        return None
    name = match[1].replace("!", "/")
    return LogEvent(IO_ERROR, name, f"{name}: lost {match[3]} at block {match[2]}", "lost write", is_counted=True)


def _nvme(text: str) -> LogEvent | None:
    match = _NVME.match(text)
    return match and LogEvent(
        TIMEOUT, match[1], f"{match[1]}: a request timed out, {match[2]}", "timeout", is_counted=True
    )


def _oom(text: str) -> LogEvent | None:
    match = _OOM.match(text)
    if match is None:
        return None
    # The name of a process may contain brackets; it ends where the kernel's figures begin.
    name = match[3].split(") total-vm:", 1)[0][:16]
    why = ": its cgroup reached its limit" if match[1].startswith("Memory cgroup") else ""
    pid = int(match[2])
    return LogEvent(OOM_KILL, name, f"the kernel killed {name} (pid {pid}) for memory{why}", pid=pid)


def _xid(text: str) -> LogEvent | None:
    match = _XID.match(text)
    if match is None:
        return None
    bus, number, more = match[1], int(match[2]), match[3]
    recovery_match = _RECOVERY.match(more or "") if number == ASKS_RECOVERY else None
    text = f"{bus}: Xid {number}{', ' + more[:200] if more else ''}"
    return LogEvent(
        XID, bus, text, number=number, recovery=None if recovery_match is None else int(recovery_match[1], 16)
    )


def _read_only(text: str) -> LogEvent | None:
    match = _EXT4.match(text) or _BTRFS.match(text)
    if match is not None:
        return LogEvent(READ_ONLY, match[1], f"{match[1]}: the kernel made its filesystem read-only after an error")
    match = _XFS.match(text)
    return match and LogEvent(READ_ONLY, match[1], f"{match[1]}: the kernel shut its filesystem down after an error")


def _raid(text: str) -> LogEvent | None:
    if match := _MD_RUNS.match(text):
        return LogEvent(RAID, match[2], f"{match[2]}: {match[1]} began")
    if match := _MD_ENDS.match(text):
        return LogEvent(RAID, match[1], f"{match[1]}: {match[2]} {match[3]}")
    match = _MD_FAILS.match(text)
    return match and LogEvent(RAID, match[1], f"{match[1]}: {match[2]} failed and is out of the array")


def _oom_cgroup(text: str) -> LogEvent | None:
    match = _OOM_CGROUP.match(text)
    return match and LogEvent(OOM_CGROUP, match[1], match[1], pid=int(match[2]))


def _filesystem(text: str) -> LogEvent | None:
    if match := _EXT4_ERROR.match(text):
        return LogEvent(FILESYSTEM, match[1], f"{match[1]}: EXT4 found an error ({match[2]})")
    if match := _XFS_ERROR.match(text):
        return LogEvent(FILESYSTEM, match[1], f"{match[1]}: XFS found an error ({match[2][0].lower()}{match[2][1:]})")
    if match := _BTRFS_CSUM.match(text):
        return LogEvent(FILESYSTEM, match[1], f"{match[1]}: BTRFS found data of inode {match[2]} damaged")
    match = _BTRFS_ERRORS.match(text)
    if match is None:
        return None
    kinds = zip(("write", "read", "flush", "corruption", "generation"), map(int, match.groups()[2:]), strict=True)
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds if count)
    name = match[2].split("/")[-1]
    return LogEvent(FILESYSTEM, name, f"{name}: BTRFS counts errors: {counts}", "BTRFS", is_counted=True)


def _server(text: str) -> LogEvent | None:
    if match := _SERVER.match(text):
        message = "answers again" if match[3] == "OK" else "does not answer"
        return LogEvent(
            SERVER, match[2], f"{match[1]} server {match[2]} {message}", what="" if match[3] == "OK" else "silent"
        )
    match = _SMB.match(text)
    return match and LogEvent(
        SERVER, match[1], f"SMB server {match[1]} has not answered for {match[2]} s", what="silent"
    )


def _hung(text: str) -> LogEvent | None:
    match = _HUNG.match(text)
    if match is None:
        return None
    message = f"{match[1]} (pid {match[2]}) has been stuck in the kernel for more than {match[3]} s"
    return LogEvent(HUNG_TASK, match[1], message, pid=int(match[2]))


_PARSERS = (
    (" error, dev ", _request),
    (" lost ", _buffer),
    (" timeout, ", _nvme),
    ("Killed process ", _oom),
    ("NVRM: Xid", _xid),
    ("read-only", _read_only),
    ("readonly", _read_only),
    ("down", _read_only),
    ("md", _raid),
    (" for more than ", _hung),
    ("oom-kill:constraint=CONSTRAINT_MEMCG", _oom_cgroup),
    ("EXT4-fs error", _filesystem),
    ("XFS (", _filesystem),
    ("BTRFS ", _filesystem),
    (": server ", _server),
    ("CIFS: ", _server),
)
_ALL_PARSERS = (*_PARSERS, *HARDWARE_PARSERS)
"""Pairs of (a text that a line must contain, the parser for such lines)."""
