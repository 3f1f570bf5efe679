"""Receives the exit codes of processes from the kernel, through the taskstats interface of generic netlink.

Documentation: https://docs.kernel.org/accounting/taskstats.html. Kernel sources: kernel/taskstats.c,
include/uapi/linux/taskstats.h, include/uapi/linux/genetlink.h. The interface needs CAP_NET_ADMIN in the initial user
namespace, and the reader must be in the initial PID namespace.
"""

from __future__ import annotations

import _socket as socket  # importing socket itself (selectors, enums) would add 2 ms to each start
import contextlib
import errno
import os
import struct
from collections.abc import Iterator

from iotop_ai.collectors.base import Unavailable
from iotop_ai.collectors.io.root import Root
from iotop_ai.model.reading import Status

NETLINK_GENERIC = 16
NLMSG_ERROR = 2
NLM_F_REQUEST, NLM_F_ACK = 1, 4
GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME = 16, 3, 1, 2
TASKSTATS_CMD_GET, REGISTER_CPUMASK, DEREGISTER_CPUMASK = 1, 3, 4
TYPE_PID, TYPE_STATS, TYPE_AGGR_PID, TYPE_AGGR_TGID = 1, 3, 4, 5
ATTRIBUTE_TYPE = 0x3FFF
"""A mask of the bits that hold an attribute's type. The two higher bits are flags."""

HEADER = struct.Struct("=IHHIIBBH")
"""The fields of nlmsghdr (length, type, flags, sequence, port) and of genlmsghdr (command, version, reserved)."""
ATTRIBUTE = struct.Struct("=HH")
VERSION_AND_CODE = struct.Struct("=HxxI")
"""The first fields of struct taskstats: version and ac_exitcode."""
TGID_OFFSET = 368
TGID_SINCE = 12
"""The first version of struct taskstats that has ac_tgid, at TGID_OFFSET (Linux 5.19)."""
MOVED_OFFSET = 464
MOVED_VERSION = 15
"""The one version (Linux 6.14) in which ac_tgid has another offset.

This version inserted the longest and the shortest time of six delays before ac_tgid; version 16 moved them to the end
("taskstats: fix struct taskstats breaks backward compatibility since version 15").
"""
BUFFER_BYTES = 1 << 20
MOST_MESSAGES = 2000
"""The most messages that one call reads. When very many processes exit at once, some exit codes are lost."""


class ExitWatch:
    """Listens for the exits of processes. Raises Unavailable when the kernel does not permit it."""

    def __init__(self, root: Root) -> None:
        self._buffer = bytearray(8192)
        self._sequence = 0
        self._cpus = root.text_or("sys/devices/system/cpu/possible", "0").encode() + b"\0"
        try:
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC)
        except OSError as error:
            raise self._as_unavailable(error) from error
        try:
            self._socket.bind((0, 0))
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
            self._socket.settimeout(2.0)
            self._family = self._find_family()
            self._ask(self._family, TASKSTATS_CMD_GET, NLM_F_ACK, attribute(REGISTER_CPUMASK, self._cpus))
            self._socket.setblocking(False)
        except OSError as error:
            self._socket.close()
            raise self._as_unavailable(error) from error

    def read(self) -> dict[int, int]:
        """Return, by PID, the exit codes since the last call: 0 to 255, or minus the signal. Raises OSError."""
        codes: dict[int, int] = {}
        view = memoryview(self._buffer)
        for _ in range(MOST_MESSAGES):
            try:
                size = self._socket.recv_into(view)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno == errno.ENOBUFS:  # the kernel dropped some messages, but those in the queue are intact
                    continue
                raise
            parsed = parse_exit(bytes(view[:size]))
            if parsed is not None:
                pid, code = parsed
                codes[pid] = code
        return codes

    def close(self) -> None:
        """Stop listening; safe to call twice."""
        if self._socket.fileno() >= 0:
            # Otherwise the kernel removes a closed listener only at the next exit on each CPU.
            with contextlib.suppress(OSError):
                self._send(self._family, TASKSTATS_CMD_GET, 0, attribute(DEREGISTER_CPUMASK, self._cpus))
            self._socket.close()

    def _send(self, family: int, command: int, flags: int, payload: bytes) -> None:
        self._sequence += 1
        size = HEADER.size + len(payload)
        header = HEADER.pack(size, family, NLM_F_REQUEST | flags, self._sequence, 0, command, 1, 0)
        self._socket.send(header + payload)

    def _ask(self, family: int, command: int, flags: int, payload: bytes) -> bytes:
        self._send(family, command, flags, payload)
        answer = self._socket.recv(8192)
        if HEADER.unpack_from(answer)[1] == NLMSG_ERROR:
            code = -int(struct.unpack_from("=i", answer, 16)[0])
            if code:
                raise OSError(code, os.strerror(code))
        return answer

    def _find_family(self) -> int:
        name = attribute(CTRL_ATTR_FAMILY_NAME, b"TASKSTATS\0")
        answer = self._ask(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 0, name)
        family_id = dict(attributes(answer[HEADER.size :])).get(CTRL_ATTR_FAMILY_ID)
        if family_id is None:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        return int(struct.unpack_from("=H", family_id)[0])

    @staticmethod
    def _as_unavailable(error: OSError) -> Unavailable:
        if error.errno in (errno.EPERM, errno.EACCES):
            return Unavailable(Status.DENIED, "exit codes of others need root (CAP_NET_ADMIN)", "run as root")
        return Unavailable(Status.UNSUPPORTED, f"no taskstats here: {error.strerror or error}")


def attribute(kind: int, data: bytes) -> bytes:
    """Return one netlink attribute, padded to a multiple of four bytes."""
    size = ATTRIBUTE.size + len(data)
    return ATTRIBUTE.pack(size, kind) + data + b"\0" * (-size % 4)


def attributes(raw: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield (type, data) of each netlink attribute, up to the first damaged one."""
    at = 0
    while at + ATTRIBUTE.size <= len(raw):
        size, kind = ATTRIBUTE.unpack_from(raw, at)
        if size < ATTRIBUTE.size or at + size > len(raw):
            return
        yield kind & ATTRIBUTE_TYPE, raw[at + ATTRIBUTE.size : at + size]
        at += (size + 3) & ~3


def exit_code(status: int) -> int:
    """Convert a wait status into the form that subprocess uses: the exit code (0 to 255), or minus the signal."""
    return -(status & 0x7F) if status & 0x7F else (status >> 8) & 0xFF


def parse_exit(message: bytes) -> tuple[int, int] | None:
    """Return (PID, exit code) of a process from the message of an exiting thread; None for other messages.

    A process gives a result when its thread group leader exits, and again when its last thread exits; the message of
    the last thread also holds the totals of the group. The later result is the right one, because the leader may exit
    before another thread calls exit_group.

    Before Linux 5.19, each exiting thread gives a result under its own ID, because the message does not show whether
    the thread is the leader. Only the leader's result is that of a process: many of these kernels put an exit code
    only into the leader's message.
    """
    # The type of a message is the ID of its family. Types up to the controller's ID are answers and errors.
    if len(message) < HEADER.size or HEADER.unpack_from(message)[1] <= GENL_ID_CTRL:
        return None
    parts = dict(attributes(message[HEADER.size :]))
    inner = dict(attributes(parts.get(TYPE_AGGR_PID, b"")))
    pid, stats = inner.get(TYPE_PID, b""), inner.get(TYPE_STATS, b"")
    if len(pid) < 4 or len(stats) < VERSION_AND_CODE.size:
        return None
    version, status = VERSION_AND_CODE.unpack_from(stats)
    thread = int(struct.unpack("=I", pid)[0])
    if version < TGID_SINCE:
        return thread, exit_code(status)
    offset = MOVED_OFFSET if version == MOVED_VERSION else TGID_OFFSET
    if len(stats) < offset + 4:
        return None
    group = int(struct.unpack_from("=I", stats, offset)[0])
    return (group, exit_code(status)) if thread == group or TYPE_AGGR_TGID in parts else None
