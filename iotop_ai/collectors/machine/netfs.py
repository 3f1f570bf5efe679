"""Reads network filesystems: /proc/self/mountstats for NFS, and /sys/fs/fuse/connections for FUSE."""

from __future__ import annotations

import os
from typing import Protocol

from iotop_ai.collectors.io.root import KeptFile, Root
from iotop_ai.collectors.machine.mounts import unescape
from iotop_ai.model.block.counters import Mount
from iotop_ai.model.clean import clean_bytes
from iotop_ai.model.machine.netfs import FuseMount, NetfsTable, NfsMount, NfsOp

_LONGEST_NUMBER = 10
"""The most digits of the number in a mount option."""
_BYTES_FIELDS = 6
"""The number of fields that are read from the line ``bytes``."""
_OP_FIELDS = (9, 8)
"""The numbers of columns that the line of an operation can have, with and without errors."""
_SENDS_AT = {b"tcp": 5, b"rdma": 5, b"udp": 2, b"local": 4}
"""The column of ``sends``, counted from 0 after the name of the transport; the backlog is four columns further.

Source: net/sunrpc/xprtsock.c.
"""


class MountSource(Protocol):
    """The part of MountsCollector that this module uses."""

    mounts: tuple[Mount, ...]


def parse_mountstats(raw: bytes) -> dict[str, NfsMount]:
    """Return the counters of each NFS mount by mount point; other filesystems and damaged blocks are left out.

    A block begins with ``device srv:/data mounted on /data with fstype nfs4 statvers=1.1``. Indented lines follow:
    ``age: 85``, ``bytes: 8 numbers``, ``xprt: tcp ...`` (one for each connection of nconnect), ``READ: 8 or 9
    numbers``. Source: fs/nfs/super.c nfs_show_stats, net/sunrpc/stats.c rpc_clnt_show_stats.
    """
    by_path: dict[str, NfsMount] = {}
    for block in raw.split(b"\ndevice "):
        head, _, body = block.removeprefix(b"device ").partition(b"\n")
        source, mounted, rest = head.partition(b" mounted on ")
        path, _, fstype = rest.rpartition(b" with fstype ")
        kind = fstype.split(b" ")[0]
        if not mounted or kind not in (b"nfs", b"nfs4"):
            continue
        mount = _parse_nfs(unescape(path), unescape(source), clean_bytes(kind), body)
        if mount is not None:
            by_path[mount.mount] = mount
    return by_path


def _parse_nfs(path: str, source: str, fstype: str, body: bytes) -> NfsMount | None:
    byte_counts: tuple[int, ...] = ()
    sends: int | None = None
    backlog: int | None = None
    age: int | None = None
    options: dict[bytes, bytes] = {}
    ops: dict[str, NfsOp] = {}
    in_ops = False
    for line in body.split(b"\n"):
        label, colon, rest = line.strip().partition(b":")
        fields = rest.split()
        if not colon or not fields:
            in_ops = in_ops or line.strip() == b"per-op statistics"
            continue
        try:
            if in_ops and (op := _parse_op(fields)) is not None:
                ops[clean_bytes(label)] = op
            elif label == b"bytes" and len(fields) >= _BYTES_FIELDS:
                byte_counts = tuple(int(field) for field in fields[:_BYTES_FIELDS])
            elif label == b"age":
                age = int(fields[0])
            elif label == b"opts":
                options = {name: value for name, _, value in (word.partition(b"=") for word in fields[0].split(b","))}
            elif label == b"xprt" and fields[0] in _SENDS_AT:
                column = 1 + _SENDS_AT[fields[0]]
                sends = (sends or 0) + int(fields[column])
                backlog = (backlog or 0) + int(fields[column + 4])
        except (ValueError, IndexError):
            continue
    if not byte_counts:
        return None
    normal_read, normal_write, direct_read, direct_write, server_read, server_write = byte_counts
    return NfsMount(
        path,
        source,
        fstype,
        normal_read,
        normal_write,
        direct_read,
        direct_write,
        server_read,
        server_write,
        sends,
        backlog,
        ops,
        age,
        _number(options.get(b"rsize")),
        # A mount without the option has one connection.
        _number(options.get(b"nconnect", b"1")) if options else None,
    )


def _number(text: bytes | None) -> int | None:
    return int(text) if text is not None and text.isdigit() and len(text) <= _LONGEST_NUMBER else None


def _parse_op(fields: list[bytes]) -> NfsOp | None:
    """Parse ``ops trans timeouts sent received queue rtt execute [errors]``; errors are listed since Linux 5.3."""
    columns = next((n for n in _OP_FIELDS if len(fields) >= n), 0)
    return NfsOp(*(int(field) for field in fields[:columns])) if columns else None


class NetfsCollector:
    """Reads the counters of NFS mounts and the waiting requests of FUSE connections; most machines have neither."""

    field = "netfs"
    every_s = 1.0

    def __init__(self, root: Root, mounts: MountSource) -> None:
        self._root = root
        self._mounts = mounts
        self._file: KeptFile | None = None
        self._last_mounts: tuple[Mount, ...] | None = None
        self._has_nfs = False
        self._by_minor: dict[str, Mount] = {}
        """The FUSE mounts by the minor number of their device."""

    def read(self) -> NetfsTable:
        """Return the table. mountstats lists every mount, so it is read only while an NFS filesystem is mounted.

        Raises OSError if mountstats cannot be read then.
        """
        mounts = self._mounts.mounts
        if mounts is not self._last_mounts:
            self._last_mounts = mounts
            self._has_nfs = any(m.fstype in ("nfs", "nfs4") for m in mounts)
            fuse = [m for m in mounts if m.fstype.startswith("fuse") and m.device.startswith("0:")]
            self._by_minor = {m.device.partition(":")[2]: m for m in reversed(fuse)}
        return NetfsTable(self._nfs(mounts) if self._has_nfs else {}, self._fuse())

    def _nfs(self, mounts: tuple[Mount, ...]) -> dict[str, NfsMount]:
        if self._file is None:
            self._file = self._root.keep(f"proc/{self._root.machine_process}/mountstats")
        devices = {mount.path: mount.device for mount in mounts}
        shortest: dict[tuple[str, ...], NfsMount] = {}
        for path, mount in parse_mountstats(self._file.read()).items():
            # All mounts of a device repeat the counters of its superblock, so keep only the shortest path. A device has
            # several mounts after bind mounts, with autofs, and with several exports of one filesystem of the server.
            device = devices.get(path)
            key = (device,) if device else (mount.source, path)
            if key not in shortest or len(path) < len(shortest[key].mount):
                shortest[key] = mount
        return {mount.mount: mount for mount in shortest.values()}

    def _fuse(self) -> dict[str, FuseMount]:
        """Return the FUSE mounts by connection number, which is the minor number of the filesystem's device.

        ``waiting`` is None while fusectl is not mounted, and for a connection of another user (mode 0400).
        """
        folder = "sys/fs/fuse/connections"
        by_minor = self._by_minor
        numbers = dict.fromkeys((*by_minor, *self._root.names(folder)))
        out: dict[str, FuseMount] = {}
        for number in numbers:
            waiting = self._number(f"{folder}/{number}/waiting")
            background = self._number(f"{folder}/{number}/max_background")
            mount = by_minor.get(number)
            path, source, fstype = (mount.path, mount.source, mount.fstype) if mount else ("", "", "fuse")
            out[number] = FuseMount(path, source, fstype, waiting, background)
        return out

    def _number(self, path: str) -> int | None:
        # fusectl opens its files as non-seekable (fs/fuse/control.c), so pread fails on them.
        try:
            with self._root.keep(path) as file:
                return int(os.read(file.fd, 64))
        except (OSError, ValueError):
            return None

    def close(self) -> None:
        """Close the descriptor; a later read opens it again."""
        if self._file is not None:
            self._file.close()
        self._file = None
