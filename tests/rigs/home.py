"""A home directory that hangs like that of a dead NFS server: bindfs (FUSE) over a folder, stopped and continued.

A program that touches a hung mount waits in the kernel. Therefore, for root, the mount can be in a separate mount
namespace, which only programs started with ``home.inside`` see.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

_FUSECTL = "mount -t fusectl none /sys/fs/fuse/connections"


def why_no_home() -> str:
    """The reason why this rig cannot run here; "" if it can."""
    for program, package in (("bindfs", "bindfs"), ("fusermount3", "fuse3")):
        if not shutil.which(program):
            return f"needs {program} ({package})"
    return "" if os.access("/dev/fuse", os.R_OK | os.W_OK) else "needs /dev/fuse"


def may_hide() -> bool:
    """Whether the mount can be hidden from other programs."""
    return os.geteuid() == 0 and bool(shutil.which("unshare") and shutil.which("nsenter"))


class Home:
    """Use it as ``with Home(folder) as home: home.hang()``. path: the mount. behind: the same files without the mount.

    A stopped server reads no requests: a caller waits in the kernel until SIGKILL, or until the server ends. A hard NFS
    mount behaves the same. hidden: whether only programs started with ``inside`` see the mount.
    """

    def __init__(self, folder: Path, hidden: bool = False) -> None:
        self.behind = folder / "behind"
        self.path = folder / "home"
        self.inside: tuple[str, ...] = ()
        """The words before a command that make it see the mount. Its current folder is then "/"."""
        self._hidden = hidden
        self._server: subprocess.Popen[bytes] | None = None
        self._holder: subprocess.Popen[bytes] | None = None
        """The process that keeps the mount namespace alive."""

    def __enter__(self) -> Home:
        for place in (self.behind, self.path):
            place.mkdir(parents=True)
        try:
            self._mount()
        except BaseException:
            self._end()
            raise
        return self

    def _mount(self) -> None:
        if self._hidden:
            command = ["unshare", "-m", "--propagation", "private", "sh", "-c", "echo && exec sleep infinity"]
            self._holder = subprocess.Popen(command, stdout=subprocess.PIPE)
            assert self._holder.stdout is not None
            assert self._holder.stdout.readline()
            self.inside = ("nsenter", f"--mount=/proc/{self._holder.pid}/ns/mnt", "--wd=/")
        # without caching, each access sends a request to the server
        options = "attr_timeout=0,entry_timeout=0,negative_timeout=0"
        self._server = subprocess.Popen([*self.inside, "bindfs", "-f", "-o", options, str(self.behind), str(self.path)])
        seen = Path(f"/proc/{self._holder.pid}/root{self.path}") if self._holder is not None else self.path
        end = time.monotonic() + 30
        while not os.path.ismount(seen):
            if self._server.poll() is not None or time.monotonic() > end:
                raise RuntimeError("bindfs does not mount")
            time.sleep(0.02)
        self._number = os.minor(seen.stat().st_dev)

    def _end(self) -> None:
        """End what was started, in any state."""
        if self._server is not None:
            self._server.kill()
            self._server.wait(10)
            subprocess.run([*self.inside, "fusermount3", "-u", "-z", str(self.path)], capture_output=True)
        self._end_holder()

    def _end_holder(self) -> None:
        if self._holder is not None:
            self._holder.kill()
            self._holder.communicate()

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment variables that put the home, the state, the settings and the cache below the mount."""
        below = {"XDG_STATE_HOME": "state", "XDG_CONFIG_HOME": "config", "XDG_CACHE_HOME": "cache"}
        return {"HOME": str(self.path), **{name: str(self.path / part) for name, part in below.items()}}

    def hang(self) -> None:
        """Stop answering, at a moment between two requests.

        A process cannot leave a request that the FUSE server has already read, not even by SIGKILL, whereas NFS allows
        it.
        """
        assert self._server is not None
        for _ in range(50):
            os.kill(self._server.pid, signal.SIGSTOP)
            while Path(f"/proc/{self._server.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
                time.sleep(0.01)
            if not self._requests():
                return
            os.kill(self._server.pid, signal.SIGCONT)
            time.sleep(0.02)
        raise RuntimeError("bindfs is never idle")

    def _requests(self) -> int:
        """The number of unanswered requests, by fusectl; 0 if fusectl cannot be mounted."""
        done = subprocess.run(
            ["unshare", "-m", "sh", "-c", f"{_FUSECTL} && cat /sys/fs/fuse/connections/{self._number}/waiting"],
            capture_output=True,
        )
        return int(done.stdout or 0)

    def release(self) -> None:
        """Answer again, including the requests that wait."""
        assert self._server is not None
        os.kill(self._server.pid, signal.SIGCONT)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self.release()
        subprocess.run([*self.inside, "fusermount3", "-u", "-z", str(self.path)], check=True)
        self._server.wait(10)
        self._end_holder()
