"""Capture this machine: ``python -m tests.capture NAME.tree`` (or a folder) copies the files that the collectors read.

The collectors run once over a Root that notes every path. The noted files are then copied, with the links that lead to
them. Serial numbers are replaced by "SERIAL" unless ``--serials`` is given.
"""

from __future__ import annotations

import argparse
import os
import posixpath
import sys
from pathlib import Path

from iotop_ai.collectors.block.diskstats import BlockCollector
from iotop_ai.collectors.block.inventory import BlockInfoCollector
from iotop_ai.collectors.block.temperature import Temperatures
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import READ_LIMIT, KeptFile, Root
from iotop_ai.collectors.machine.mounts import MountsCollector
from iotop_ai.collectors.machine.netfs import NetfsCollector
from tests.machines import Entries, build, pack

WHOLE_MACHINE = (
    *(f"proc/{name}" for name in ("stat", "meminfo", "vmstat", "loadavg", "self/mountstats")),
    *(f"proc/pressure/{name}" for name in ("cpu", "io", "memory")),
)
"""Files of collectors that ``capture`` does not run; their paths are the same on every machine."""


class NotingRoot(Root):
    """A Root that notes every path it is asked for."""

    def __init__(self, path: str = "/") -> None:
        super().__init__(path)
        self.files: set[str] = set()
        self.folders: set[str] = set()

    def read(self, relative: str, limit: int = READ_LIMIT) -> bytes:
        self.files.add(relative)
        return super().read(relative, limit)

    def keep(self, relative: str, size: int = 1 << 16) -> KeptFile:
        self.files.add(relative)
        return super().keep(relative, size)

    def exists(self, relative: str) -> bool:
        self.files.add(relative)
        return super().exists(relative)

    def link(self, relative: str) -> str:
        self.files.add(relative)
        return super().link(relative)

    def names(self, relative: str) -> list[str]:
        self.folders.add(relative)
        return super().names(relative)


class Copy:
    """A copy of the noted paths below a root, in which links stay links."""

    def __init__(self, root: str) -> None:
        self._root = root.rstrip("/")
        self.entries: Entries = {}

    def add(self, relative: str, listed: bool = False) -> None:
        """Copy a file. Of a folder, copy only the links in it, and only if it was listed."""
        real = self._walk(relative)
        place = f"{self._root}/{real}"
        if os.path.isdir(place):
            for name in sorted(os.listdir(place)) if listed else ():
                if os.path.islink(f"{place}/{name}"):
                    self._walk(f"{real}/{name}")
        else:
            try:
                with KeptFile(place) as file:
                    self.entries[real] = file.read()
            except OSError:
                return

    def _walk(self, relative: str) -> str:
        """The real path to which all links lead; each link on the way is noted."""
        rest, at = relative.split("/")[::-1], ""
        while rest:
            part = rest.pop()
            if part in ("", "."):
                continue
            if part == "..":
                at = posixpath.dirname(at)
                continue
            here = f"{at}/{part}" if at else part
            # /proc/self links to our own pid, which does not exist in a captured tree.
            if here == "proc/self" or not os.path.islink(f"{self._root}/{here}"):
                at = here
                continue
            target = os.readlink(f"{self._root}/{here}")
            if target.startswith("/"):
                target = posixpath.relpath(target, "/" + posixpath.dirname(here))
            self.entries[here] = target
            rest += target.split("/")[::-1]
        return at


def capture(root: str = "/", serials: bool = False) -> Entries:
    """Copy the paths that the collectors read."""
    noting, clock = NotingRoot(root), Clock()
    mounts, block = MountsCollector(noting), BlockCollector(noting, clock)
    temperatures = Temperatures(noting, start=lambda work: work())
    for collector in (
        mounts,
        block,
        BlockInfoCollector(noting, clock, block, mounts, temperatures),
        NetfsCollector(noting, mounts),
    ):
        collector.read()
        collector.close()
    copy = Copy(root)
    for path in (*noting.files, *WHOLE_MACHINE):
        copy.add(path)
    for path in noting.folders:
        copy.add(path, listed=True)
    if not serials:
        for path, content in copy.entries.items():
            if path.endswith(("/serial", "/wwid")) and isinstance(content, bytes):
                copy.entries[path] = b"SERIAL\n"
        copy.entries = {path: content for path, content in copy.entries.items() if not path.endswith("/vpd_pg80")}
    return copy.entries


def main(arguments: list[str] | None = None) -> int:
    """Write the tree of this machine to a file or a folder."""
    parser = argparse.ArgumentParser(prog="python -m tests.capture", description=__doc__.splitlines()[0])
    parser.add_argument("target", type=Path, help="NAME.tree, or a folder to build")
    parser.add_argument("--root", default="/", help="another root than /")
    parser.add_argument("--serials", action="store_true", help="keep serial numbers")
    chosen = parser.parse_args(arguments)
    entries = capture(chosen.root, chosen.serials)
    if chosen.target.suffix == ".tree":
        chosen.target.write_text(pack(entries, f"captured by tests/capture.py, kernel {os.uname().release}"))
    else:
        build(entries, chosen.target)
    print(f"{len(entries)} files in {chosen.target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
