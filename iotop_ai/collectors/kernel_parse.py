"""Lines of the kernel's log that explain a slow or failed training, taken apart.

The forms are those of block/blk-core.c (blk_print_req_error), drivers/nvme/host/pci.c (nvme_timeout), mm/oom_kill.c
(__oom_kill_process), kernel/hung_task.c, drivers/md/md.c and raid*.c, fs/ext4/super.c, fs/xfs/xfs_fsops.c and
fs/btrfs/messages.c of Linux 4.18 to 6.18, and of https://docs.nvidia.com/deploy/xid-errors/.
"""

from __future__ import annotations

from iotop_ai.model.clean import clean_bytes
from iotop_ai.model.pattern import pattern
from iotop_ai.model.record import NamedTuple

IO_ERROR, OOM_KILL, XID, READ_ONLY, RAID, HUNG_TASK, TIMEOUT = (
    "io_error", "oom_kill", "xid", "read_only", "raid", "hung_task", "disk_timeout",
)  # fmt: skip
KERNEL = 0
"""The facility of what the kernel itself wrote; what programs write to /dev/kmsg never gets it (printk docs)."""


class Record(NamedTuple):
    """One record of /dev/kmsg. facility: KERNEL or that of the program that wrote it."""

    facility: int
    text: str


class Told(NamedTuple):
    """What a line says. subject: the device, GPU address or process; what: of an I/O error its kind; pid: or None."""

    kind: str
    subject: str
    text: str
    what: str = ""
    pid: int | None = None
    number: int | None = None


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
_XID = pattern(r"^NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]{7,16})\): (\d{1,4})(?:, (.*))?$")
_EXT4 = pattern(rf"^EXT4-fs \({_NAME}\): Remounting filesystem read-only")
_XFS = pattern(rf"^XFS \({_NAME}\): .{{0,200}}?(?:Shutting down filesystem|Filesystem has been shut down)")
_BTRFS = pattern(rf"^BTRFS info \(device {_NAME}(?: state [A-Z]+)?\): forced readonly")
_MD_RUNS = pattern(rf"^md: (resync|recovery|reshape|data-check|requested-resync) of RAID array {_NAME}$")
_MD_ENDS = pattern(rf"^md: {_NAME}: (resync|recovery|reshape|data-check|requested-resync) (done|interrupted)\.$")
_MD_FAILS = pattern(rf"^md/raid\d*:{_NAME}: Disk failure on {_NAME}, disabling device")
_HUNG = pattern(r"^INFO: task (.{1,64}):(\d{1,10}) blocked for more than (\d{1,9}) seconds")

NOT_THE_DISKS = frozenset({"operation not supported", "nonblocking retry", "dm internal retry", "kernel resource"})
"""Kinds of request errors that say nothing about the disk: what it cannot do, or what is tried again."""


def parse_record(raw: bytes) -> Record | None:
    """A record as one read of /dev/kmsg gives it; None for what is none. Its KEY=value lines are left out.

    Source: https://docs.kernel.org/admin-guide/abi-testing.html, /dev/kmsg: ``priority,sequence,µs,flags;text``,
    with bytes that are not printable as \\xNN.
    """
    head = _RECORD.match(raw)
    if head is None:
        return None
    line = raw[head.end() :].split(b"\n", 1)[0]
    return Record(int(head[1]) >> 3, clean_bytes(_ESCAPED.sub(lambda found: bytes([int(found[1], 16)]), line)))


def told(text: str) -> Told | None:
    """What a line of the kernel says; None for all that is not looked for."""
    # Nearly every line of a busy log ends here, without a regular expression.
    for words, parse in _PARSERS:
        if words in text:
            found = parse(text)
            if found is not None:
                return found
    return None


def _request(text: str) -> Told | None:
    match = _REQUEST.match(text)
    if match is None or match[1] in NOT_THE_DISKS:
        return None
    what, name, sector, op = match.groups()
    name = name.replace("!", "/")
    at = f"{op.lower().replace('_', ' ')} at sector {sector}" if op else f"sector {sector}"
    return Told(IO_ERROR, name, f"{name}: {what} error, {at}", what)


def _buffer(text: str) -> Told | None:
    match = _BUFFER.match(text)
    if match is None:
        return None
    name = match[1].replace("!", "/")
    return Told(IO_ERROR, name, f"{name}: lost {match[3]} at block {match[2]}", "lost write")


def _nvme(text: str) -> Told | None:
    match = _NVME.match(text)
    return match and Told(TIMEOUT, match[1], f"{match[1]}: a request timed out, {match[2]}", "timeout")


def _oom(text: str) -> Told | None:
    match = _OOM.match(text)
    if match is None:
        return None
    # A process names itself, brackets included: its name ends where the kernel goes on with figures.
    name = match[3].split(") total-vm:", 1)[0][:16]
    why = " by its cgroup's limit" if match[1].startswith("Memory cgroup") else ""
    pid = int(match[2])
    return Told(OOM_KILL, name, f"the kernel killed {name} (pid {pid}) for memory{why}", pid=pid)


def _xid(text: str) -> Told | None:
    match = _XID.match(text)
    if match is None:
        return None
    bus, number, more = match[1], int(match[2]), match[3]
    return Told(XID, bus, f"{bus}: Xid {number}{', ' + more[:200] if more else ''}", number=number)


def _read_only(text: str) -> Told | None:
    match = _EXT4.match(text) or _BTRFS.match(text)
    if match is not None:
        return Told(READ_ONLY, match[1], f"{match[1]}: the kernel made its filesystem read-only after an error")
    match = _XFS.match(text)
    return match and Told(READ_ONLY, match[1], f"{match[1]}: the kernel shut its filesystem down after an error")


def _raid(text: str) -> Told | None:
    if match := _MD_RUNS.match(text):
        return Told(RAID, match[2], f"{match[2]}: {match[1]} began")
    if match := _MD_ENDS.match(text):
        return Told(RAID, match[1], f"{match[1]}: {match[2]} {match[3]}")
    match = _MD_FAILS.match(text)
    return match and Told(RAID, match[1], f"{match[1]}: {match[2]} failed and is out of the array")


def _hung(text: str) -> Told | None:
    match = _HUNG.match(text)
    if match is None:
        return None
    said = f"{match[1]} (pid {match[2]}) is stuck in the kernel for more than {match[3]} s"
    return Told(HUNG_TASK, match[1], said, pid=int(match[2]))


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
    (" blocked for more than ", _hung),
)
