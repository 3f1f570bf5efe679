"""Rig B: a loop device over a FUSE file, whose latency, bandwidth and errors can be changed at run time."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.rigs.slowdisk.loop import attach, detach, name_of, run

SOURCE = Path(__file__).with_name("slowfs.c")
FAILING_SOURCE = Path(__file__).with_name("failfs.c")


def why_no_fuse_disk() -> str:
    """The reason why this machine cannot have a FuseDisk; "" if it can."""
    if os.geteuid():
        return "needs root for loop devices"
    for program, package in (
        ("losetup", "util-linux"),
        ("cc", "gcc"),
        ("pkg-config", "pkg-config"),
        ("fusermount3", "fuse3"),
    ):
        if not shutil.which(program):
            return f"needs {program} ({package})"
    if not os.path.exists("/dev/fuse"):
        return "needs /dev/fuse"
    if subprocess.run(["pkg-config", "--exists", "fuse3"]).returncode:
        return "needs libfuse3-dev"
    return ""


def build(target: Path, source: Path = SOURCE) -> None:
    """Compile a FUSE filesystem. This takes about half a second."""
    flags = run("pkg-config", "--cflags", "--libs", "fuse3").split()
    run("cc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(target), str(source), *flags)


class FuseDisk:
    """Use it as ``with FuseDisk(folder) as disk: disk.set(delay_us=10_000)``. node: "/dev/loopN". name: "loopN".

    serial: whether the requests are served one after the other, so that they queue. If not, they are served at
    the same time; with libfuse 3.12 or later, at most ``at_once``. source: the mount's source in /proc/self/mounts.
    """

    def __init__(
        self, folder: Path, mebibytes: int = 64, *, serial: bool = False, at_once: int = 10, source: str = "slowfs"
    ) -> None:
        self._folder = folder
        self._image = folder / "fuse.img"
        self._control = folder / "fuse.ctl"
        self._mount = folder / "fuse.mnt"
        self._mebibytes = mebibytes
        parallel = ["-o", "max_idle_threads=64"]
        if at_once != 10 and subprocess.run(["pkg-config", "--atleast-version=3.12", "fuse3"]).returncode == 0:
            parallel += ["-o", f"max_threads={at_once}"]
        self._how = ("-o", f"fsname={source}", *(("-s",) if serial else parallel))
        self._server: subprocess.Popen[bytes] | None = None
        self.node = ""

    @property
    def name(self) -> str:
        """The kernel's name of the loop device."""
        return name_of(self.node)

    def __enter__(self) -> FuseDisk:
        program = self._folder / "slowfs"
        build(program)
        with self._image.open("wb") as image:
            image.truncate(self._mebibytes << 20)
        self._mount.mkdir()
        self.set()
        self._server = subprocess.Popen(
            [str(program), str(self._image), str(self._control), str(self._mount), "-f", *self._how]
        )
        try:
            for _ in range(500):
                if (self._mount / "disk.img").exists():
                    break
                if self._server.poll() is not None:
                    raise RuntimeError(f"slowfs ended with {self._server.returncode}")
                time.sleep(0.01)
            self.node = attach(self._mount / "disk.img")
        except BaseException:
            self._stop()
            raise
        return self

    def set(self, *, delay_us: int = 0, bytes_per_s: int = 0, fail: bool = False) -> None:
        """Set the latency of a request, the total bandwidth (0: no limit), and whether each request fails with EIO."""
        fresh = self._control.with_suffix(".new")
        fresh.write_text(f"{delay_us} {bytes_per_s} {int(fail)}")
        os.replace(fresh, self._control)

    def popen(self, *argv: str, **options: Any) -> subprocess.Popen[Any]:
        """Start a command. The disk is slow for every process, so nothing more is needed."""
        return subprocess.Popen(argv, **options)

    def enter(self, pid: int) -> None:
        """Do nothing, because the disk is slow for every process. Rig A needs this method."""

    def _stop(self) -> None:
        if self._server is None:
            return
        for _ in range(100):  # the loop device releases its file only a moment after it was detached
            if subprocess.run(["fusermount3", "-u", str(self._mount)], capture_output=True).returncode == 0:
                break
            time.sleep(0.05)
        self._server.terminate()  # another program's new mount namespace may still hold the mount
        self._server.wait(10)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.set()
        detach(self.node)
        self._stop()
        self._image.unlink()


class FailingFolder:
    """A folder whose files ``set`` makes fail or hang: ``with FailingFolder(scratch) as rig: rig.folder / "a"``."""

    def __init__(self, scratch: Path) -> None:
        self.folder = scratch / "failing"
        self.behind = scratch / "behind"
        """The underlying folder, which always answers."""
        self._control = scratch / "failing.ctl"
        self._program = scratch / "failfs"
        self._server: subprocess.Popen[bytes] | None = None

    def set(self, what: str = "ok", name: str = "*") -> None:
        """Set the fault of the files.

        what: "ok", "eio" (writes, truncations and fsync fail), "sync" (only fsync fails) or "hang".
        name: the name of the file that has the fault; "*" for all.
        """
        fresh = self._control.with_suffix(".new")
        fresh.write_text(f"{what} {name}")
        os.replace(fresh, self._control)

    def __enter__(self) -> FailingFolder:
        build(self._program, FAILING_SOURCE)
        for folder in (self.folder, self.behind):
            folder.mkdir(mode=0o700)
        self.set()
        before = self.folder.stat().st_dev
        argv = [str(self._program), str(self.behind), str(self._control), str(self.folder), "-f"]
        self._server = subprocess.Popen(argv)
        try:
            for _ in range(1000):
                if self.folder.stat().st_dev != before:
                    return self
                if self._server.poll() is not None:
                    break
                time.sleep(0.01)
            raise RuntimeError("failfs does not come up")
        except BaseException:
            self._server.kill()
            self._server.wait(10)
            subprocess.run(["fusermount3", "-u", "-z", str(self.folder)], capture_output=True)
            raise

    def stop(self) -> None:
        """Answer nothing at all until ``go_on``, like a dead server."""
        assert self._server is not None
        self._server.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Answer requests again."""
        assert self._server is not None
        self._server.send_signal(signal.SIGCONT)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.set()
        assert self._server is not None
        for _ in range(100):
            if subprocess.run(["fusermount3", "-u", str(self.folder)], capture_output=True).returncode == 0:
                break
            time.sleep(0.05)
        self._server.terminate()  # another program's new mount namespace may still hold the mount
        self._server.wait(10)
