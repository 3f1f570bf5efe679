"""Reads the pressure stall information of the system and of our own cgroup, from files that are kept open."""

from __future__ import annotations

from iotop_ai.collectors.base import Unavailable
from iotop_ai.collectors.io.root import KeptFile, Root, is_transient
from iotop_ai.model.clean import clean_bytes
from iotop_ai.model.machine.pressure import PressureTotals
from iotop_ai.model.reading import Status

RESOURCES = ("cpu", "io", "memory")


def parse_pressure(raw: bytes) -> PressureTotals | None:
    """Return the totals in µs from one pressure file; None when it has no ``some`` line.

    ``some avg10=0.32 avg60=0.90 avg300=0.36 total=5914261``
    ``full avg10=0.00 avg60=0.00 avg300=0.00 total=0``
    """
    totals: dict[bytes, int] = {}
    for line in raw.splitlines():
        name, _, shares = line.partition(b" ")
        _, mark, us = shares.rpartition(b"total=")
        if mark and name in (b"some", b"full") and us.isdigit():
            totals[name] = int(us)
    if b"some" not in totals:
        return None
    return PressureTotals(totals[b"some"], totals.get(b"full"))


def own_cgroup(cgroup: bytes, mountinfo: bytes) -> tuple[str, str] | None:
    """Return (the path of our cgroup v2, its folder without the leading "/"); None when cgroup v2 is not mounted.

    cgroup: the content of /proc/self/cgroup (``0::/user.slice/session-1.scope``). mountinfo: the content of
    /proc/self/mountinfo, from which the root, the mount point and the type (after " - ") are used.
    """
    path = next((line[3:] for line in cgroup.splitlines() if line.startswith(b"0::/")), None)
    if path is None:
        return None
    for line in mountinfo.splitlines():
        head, _, tail = line.partition(b" - ")
        fields = head.split()
        if not tail.startswith(b"cgroup2 ") or len(fields) < 5:
            continue
        mounted_root = fields[3].rstrip(b"/")
        if mounted_root and path != mounted_root and not path.startswith(mounted_root + b"/"):
            continue
        inside = path[len(mounted_root) :].strip(b"/")
        directory = b"/".join(filter(None, (fields[4].strip(b"/"), inside)))
        return clean_bytes(path), directory.decode("utf-8", "surrogateescape")
    return None


class PressureCollector:
    """Reads the totals of the system and of the cgroup in which we run.

    The system's totals have the keys "cpu", "io" and "memory"; those of the cgroup have keys such as
    "cgroup:<path>:io".
    """

    field = "pressure"
    every_s = 0.0

    def __init__(self, root: Root) -> None:
        self._root = root
        self._files: dict[str, KeptFile] | None = None

    def read(self) -> dict[str, PressureTotals]:
        """Return the totals of each file that can be read.

        Raises Unavailable(OFF) when none of the system's files can be read, and OSError when too many files are open.
        """
        if self._files is None:
            self._files = self._open()
        out = {}
        for key, file in list(self._files.items()):
            try:
                totals = parse_pressure(file.read_record())
            except OSError:
                # The cgroup was removed, or the kernel refuses the read, so do not try again.
                self._files.pop(key).close()
                continue
            if totals is not None:
                out[key] = totals
        if not any(key in out for key in RESOURCES):
            self.close()
            raise Unavailable(Status.OFF, "PSI is off", "boot with psi=1")
        return out

    def _open(self) -> dict[str, KeptFile]:
        paths = {name: f"proc/pressure/{name}" for name in RESOURCES}
        cgroup = self._own_cgroup()
        # The root cgroup, which has no cgroup.events, is left out: its pressure is the system's.
        if cgroup is not None and self._root.exists(f"{cgroup[1]}/cgroup.events"):
            paths |= {f"cgroup:{cgroup[0]}:{name}": f"{cgroup[1]}/{name}.pressure" for name in RESOURCES}
        files: dict[str, KeptFile] = {}
        for key, path in paths.items():
            try:
                files[key] = self._root.keep(path, 4096)
            except OSError as error:
                if is_transient(error):
                    for file in files.values():
                        file.close()
                    raise
        return files

    def _own_cgroup(self) -> tuple[str, str] | None:
        """Return the result of ``own_cgroup``; None also with --procfs or --sysfs, or if a file cannot be read."""
        if self._root.has_given_trees:
            return None
        try:
            return own_cgroup(self._root.read("proc/self/cgroup"), self._root.read("proc/self/mountinfo"))
        except OSError as error:
            if is_transient(error):
                raise
            return None

    def close(self) -> None:
        """Close the files that are kept open."""
        for file in (self._files or {}).values():
            file.close()
        self._files = None
