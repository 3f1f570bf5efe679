"""Finds out what a sleeping task waits for, from its system call and the descriptors that the call names.

The call and its arguments are in /proc/PID/task/TID/syscall. The pollfds or fd sets are in /proc/PID/mem, at the
address in an argument; the targets of an epoll are in fdinfo. The kernel shows these files to root, and to the same
user unless kernel.yama.ptrace_scope forbids it. Sources: man 5 proc; fs/proc/base.c, fs/eventpoll.c and net/socket.c
of Linux.

A read of mem takes the process's mmap_lock, like a read of cmdline, and waits while another thread has this lock. The
process itself can delay the read as long as it likes; see io/process_memory.py.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable

from iotop_ai.collectors.io.process_memory import ProcessMemory
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.job.system_calls import SystemCall, system_calls
from iotop_ai.lazy.namedtuple import NamedTuple

MOST_FDS = 64
"""The most descriptors of one call that are examined."""
MOST_SELECTED = 1024
"""The most bits of an fd set that are read: FD_SETSIZE of glibc."""
MOST_LISTED = 4096
"""The most descriptors of a process that are listed."""
_SYSCALL_SIZE = 256
_EPOLL_SIZE = 16_384
_POLLFD = struct.Struct("=iHH")
_ADDRESS = (1 << 56) - 1
"""A mask for addresses. On arm64, the top byte of an address may be a tag."""
_INT = (1 << 32) - 1
"""A mask for int arguments, which are in the lower half of their register."""
_COMPAT = 1 << 32
"""The stack and program of a 32-bit process are below this address. Its system calls have other numbers."""

_CALLS = system_calls(os.uname().machine)
_WRITE_CALLS = frozenset(["write", "writev", "pwrite64", "pwritev", "fallocate", "ftruncate"])
_WRITE_CALLS |= frozenset(["fsync", "fdatasync", "msync", "sync", "syncfs", "sync_file_range"])
"""The calls that write to a file, or that wait until data is on the device."""
_ORDER = ("socket", "unix", "pipe", "file", "eventfd", "timer", "epoll")
"""The order in which the target is chosen if a call has several descriptors: bytes from the network matter most."""

_TERMINALS = ("/dev/pts/", "/dev/tty", "/dev/console")

_ANONYMOUS = {
    "anon_inode:[eventfd]": "eventfd",
    "anon_inode:[timerfd]": "timer",
    "anon_inode:[eventpoll]": "epoll",
}


class WaitTarget(NamedTuple):
    """What a task waits for.

    kind: "socket" (of a network protocol), "unix", "pipe", "eventfd", "file" (also devices, and calls that take a
    path), "epoll" (an epoll whose target is unknown), "futex", "timer" (also a poll or select without descriptors) or
    "unknown". If the call has several descriptors, kind is the first that occurs in the order socket, unix, pipe, file,
    eventfd, timer, epoll. inodes: the inodes of the pipes and sockets among the descriptors. fds: the descriptors for
    which the call waits; for an epoll, those that it watches. call: the name of the system call; "" when the task runs,
    is in a page fault or in a call that is not listed, or is hidden from us.
    """

    kind: str
    inodes: tuple[int, ...]
    fds: tuple[int, ...]
    call: str


UNKNOWN = WaitTarget("unknown", (), (), "")


def wait_target(root: Root, memory: ProcessMemory, pid: int, tid: int) -> WaitTarget:
    """Return what the task waits for now; ``UNKNOWN`` when it cannot be read, or when /proc is not this machine's.

    This call may wait for the process's memory, so do not hold a lock.
    """
    task = f"proc/{pid}/task/{tid}"  # the process's own files are empty once its main thread has ended
    raw = _syscall(root, task)
    number, *arguments = raw.split() or [b""]
    call = _CALLS.get(int(number)) if number.isdigit() else None
    if call is None or len(arguments) != 8 or root.foreign or root.path != "/":
        return UNKNOWN
    values = [int(word, 16) for word in arguments]
    if values[6] < _COMPAT and values[7] < _COMPAT:
        return UNKNOWN
    if call.waits_on in ("futex", "timer", "file"):
        return WaitTarget(call.waits_on, (), (), call.name)
    unknown = WaitTarget("unknown", (), (), call.name)
    if call.waits_on == "-":
        return unknown
    try:
        fds = _descriptors(root, task, call.waits_on, values, lambda at, size: _bytes(memory, pid, tid, at, size))
    except (OSError, OverflowError):
        return unknown
    if not fds and call.waits_on in ("poll", "select"):
        return WaitTarget("timer", (), (), call.name)
    target = _target_of(root, task, fds, call)
    # The descriptors belong to this call only if the task is still in it.
    return target if _syscall(root, task) == raw else unknown


def at_terminal(root: Root, pid: int, target: WaitTarget) -> bool:
    """Whether one of the descriptors for which a main thread waits is a terminal. target: what the thread waits for."""
    return any(root.link(f"proc/{pid}/fd/{fd}").startswith(_TERMINALS) for fd in target.fds)


def waits_for_input(root: Root, memory: ProcessMemory, pid: int) -> bool:
    """Whether a main thread waits for input from a terminal; False when that is unknown."""
    target = wait_target(root, memory, pid, pid)
    return target.call not in _WRITE_CALLS and at_terminal(root, pid, target)


def is_writing(root: Root, pid: int) -> bool:
    """Whether a blocked main thread is in a call that writes to a file, or that waits until the data is on the device.

    False when the call is unknown.
    """
    number, *arguments = _syscall(root, f"proc/{pid}/task/{pid}").split() or [b""]
    is_32_bit = all(int(word, 16) < _COMPAT for word in arguments[-2:])
    if not number.isdigit() or is_32_bit or root.foreign:
        return False
    call = _CALLS.get(int(number))
    return call is not None and call.name in _WRITE_CALLS


def has_no_socket(root: Root, pid: int) -> bool:
    """Whether a process certainly has no socket open."""
    names = root.names(f"proc/{pid}/fd")
    if not names or len(names) > MOST_LISTED:
        return False
    links = (root.link(f"proc/{pid}/fd/{name}") for name in names)
    return all(link and not link.startswith("socket:") for link in links)


def held_inodes(root: Root, pid: int) -> frozenset[int] | None:
    """Return the inodes of the pipes and sockets among a process's first 4,096 descriptors.

    None when we are not permitted to list the descriptors, or when the process has ended.
    """
    links = root.links(f"proc/{pid}/fd", MOST_LISTED)
    return None if links is None else frozenset(map(_inode, links.values())) - {0}


def _syscall(root: Root, task: str) -> bytes:
    """Return the line of ``syscall``: the number of the call, six arguments, SP and PC.

    The line is "running" for a running task, and "-1 SP PC" outside a call; it is b"" when we cannot read it.
    """
    try:
        return root.read_once(f"{task}/syscall", _SYSCALL_SIZE)
    except OSError:
        return b""


def _descriptors(
    root: Root, task: str, waits_on: str, arguments: list[int], memory: Callable[[int, int], bytes]
) -> dict[int, int]:
    """Return the descriptors that a call waits for, each with its expected inode; 0 for any inode.

    memory: a function that returns the bytes of the process's memory at an address, given (address, size). Raises what
    that function raises, and OSError.
    """
    argument_0, argument_1 = arguments[0] & _INT, arguments[1] & _INT
    if waits_on == "poll":
        size = min(argument_1, MOST_FDS) * _POLLFD.size
        raw = memory(arguments[0], size) if size else b""
        return {fd: 0 for fd, _, _ in _POLLFD.iter_unpack(raw) if fd >= 0}
    if waits_on == "select":
        count = min(argument_0, MOST_SELECTED)
        size = (count + 63) // 64 * 8
        sets = [memory(address, size) for address in arguments[1:4] if address and size]
        bits = 0
        for raw in sets:
            bits |= int.from_bytes(raw, "little")
        return dict.fromkeys([fd for fd in range(count) if bits >> fd & 1][:MOST_FDS], 0)
    if waits_on == "epoll":
        return _epoll_targets(root.read_once(f"{task}/fdinfo/{argument_0}", _EPOLL_SIZE))
    return {argument_0: 0}


def _bytes(memory: ProcessMemory, pid: int, tid: int, address: int, size: int) -> bytes:
    """Return bytes of the process's memory. Raises OSError, also when fewer bytes than ``size`` can be read."""
    raw = memory.read(pid, tid, address & _ADDRESS, size)
    if len(raw) < size:
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    return raw


def _epoll_targets(fdinfo: bytes) -> dict[int, int]:
    """Return the descriptors that an epoll watches, each with its inode, from its fdinfo.

    The lines are ``tfd: 5 events: 19 data: 5 pos:0 ino:1a2b sdev:9``. ino is hexadecimal; before Linux 4.15 it is
    missing, and the inode is returned as 0.
    """
    out: dict[int, int] = {}
    for line in fdinfo.splitlines():
        words = line.split()
        if len(words) > 1 and words[0] == b"tfd:" and words[1].isdigit() and len(out) < MOST_FDS:
            inodes = [word[4:] for word in words if word.startswith(b"ino:")]
            out[int(words[1])] = int(inodes[0], 16) if inodes else 0
    return out


def _target_of(root: Root, task: str, fds: dict[int, int], call: SystemCall) -> WaitTarget:
    """Return the target of a call that waits for these descriptors."""
    kinds = set()
    inodes: dict[int, None] = {}
    for fd, expected in fds.items():
        path = f"{task}/fd/{fd}"
        link = root.link(path)
        inode = _inode(link)
        if inode and expected and inode != expected:
            continue  # the number now belongs to another file, and the epoll watches a duplicate of the earlier one
        if inode:
            inodes[inode] = None
        if _ORDER[0] not in kinds:  # otherwise the target already has the first kind in the order
            kinds.add(_kind(root, path, link))
    default = "epoll" if call.waits_on == "epoll" else "unknown"
    kind = next((kind for kind in _ORDER if kind in kinds), default)
    return WaitTarget(kind, tuple(inodes), tuple(fds), call.name)


def _inode(link: str) -> int:
    """Return the inode in "pipe:[81]" or "socket:[82]"; 0 for other links."""
    name, _, rest = link.partition(":[")
    return int(rest[:-1]) if name in ("pipe", "socket") and rest[:-1].isdecimal() else 0


def _kind(root: Root, path: str, link: str) -> str:
    if link.startswith("socket:["):
        protocol = root.attribute(path, "system.sockprotoname")
        return "unix" if protocol.startswith(b"UNIX") else "unknown" if protocol == b"NETLINK\0" else "socket"
    if link.startswith("pipe:["):
        return "pipe"
    return "file" if link.startswith("/") else _ANONYMOUS.get(link, "unknown")
