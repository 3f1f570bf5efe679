"""Rig A: a loop device over a file whose disk is throttled for the processes of one control group.

The loop device's worker runs in the block control group of the process that issued the request, so the loop device's
counters show the whole wait. A limit on the loop device itself would not be visible, because its requests would wait
before they are counted.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
import uuid
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.rigs.slowdisk.loop import attach, detach, name_of, run, whole_disk

BLKIO = Path("/sys/fs/cgroup/blkio")
ENTER = 'echo $$ > "$0/cgroup.procs" && exec "$@"'


def why_no_throttled_disk(folder: Path) -> str:
    """The reason why this machine cannot have a throttled disk in ``folder``; "" if it can."""
    if os.geteuid():
        return "needs root for loop devices and control groups"
    if not shutil.which("losetup"):
        return "needs losetup (util-linux)"
    if not (BLKIO / "blkio.throttle.read_iops_device").exists():
        return "needs cgroup v1 with the blkio controller's throttling"
    if whole_disk(folder) is None:
        return f"{folder} is not on a disk that can be throttled"
    return ""


class ThrottledDisk:
    """Use it as ``with ThrottledDisk(folder) as disk: disk.limit(read_iops=50); disk.popen("fio", ...)``.

    node: "/dev/loopN". name: "loopN". Only processes that ``popen`` starts or that ``enter`` moves are slowed down.
    Their other reads from the underlying disk, such as those of libraries, are slow too, so read those files first.
    """

    def __init__(self, folder: Path, mebibytes: int = 64) -> None:
        self.image = folder / "throttled.img"
        self._mebibytes = mebibytes
        self._under = ""
        self.group = BLKIO / f"slowdisk-{uuid.uuid4().hex[:8]}"
        self.node = ""

    @property
    def name(self) -> str:
        """The kernel's name of the loop device."""
        return name_of(self.node)

    def __enter__(self) -> ThrottledDisk:
        self._under = whole_disk(self.image.parent) or ""
        # The blocks are written, because a hole is answered without I/O to the disk below and could not be slow.
        run(*f"dd if=/dev/zero of={self.image} bs=1M count={self._mebibytes} oflag=direct status=none".split())
        self.node = attach(self.image)
        try:
            self.group.mkdir()
        except OSError:
            detach(self.node)
            raise
        return self

    def limit(self, *, read_iops: int = 0, read_bps: int = 0, write_iops: int = 0, write_bps: int = 0) -> None:
        """Set all four limits; 0 means no limit. They may be changed while processes run."""
        wanted = {"read_iops": read_iops, "read_bps": read_bps, "write_iops": write_iops, "write_bps": write_bps}
        for key, value in wanted.items():
            (self.group / f"blkio.throttle.{key}_device").write_text(f"{self._under} {value}")

    def popen(self, *argv: str, **options: Any) -> subprocess.Popen[Any]:
        """Start a command in the control group that is slowed down."""
        return subprocess.Popen(["sh", "-c", ENTER, str(self.group), *argv], **options)

    def enter(self, pid: int) -> None:
        """Slow down a running process, whose own files were loaded at full speed."""
        (self.group / "cgroup.procs").write_text(str(pid))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self.limit()
        for pid in (self.group / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        detach(self.node)
        for _ in range(200):  # a killed process leaves its group only when it has been reaped
            try:
                self.group.rmdir()
                break
            except OSError:
                time.sleep(0.02)
        self.image.unlink()
