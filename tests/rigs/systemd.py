"""A real systemd as the init of a container, which has the machine's files below an overlay that is discarded."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

NAME = "iotop-ai-test"
TARGET = "iotop-ai-test.target"
BOOT_S = 60.0


def why_no_systemd() -> str:
    """The reason why no systemd can be started here; "" if one can."""
    if os.geteuid() != 0:
        return "needs root"
    if not Path("/lib/systemd/systemd").exists():
        return "needs systemd"
    return "" if shutil.which("systemd-nspawn") else "needs systemd-nspawn (systemd-container)"


def until(done: Callable[[], bool], what: str, within_s: float = BOOT_S) -> None:
    """Wait until a condition is true. Raises TimeoutError."""
    end = time.monotonic() + within_s
    while not done():
        if time.monotonic() > end:
            raise TimeoutError(what)
        time.sleep(0.2)


class Box:
    """The running container."""

    def __init__(self, root: Path, init: int) -> None:
        self.root = root
        self.init = init

    def run(self, *words: str) -> str:
        """Run a command in the container, and return its output. Raises CalledProcessError."""
        argv = ["nsenter", "-t", str(self.init), "-m", "-u", "-i", "-n", "-p", *words]
        return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=100).stdout

    def value_of(self, unit: str, name: str) -> str:
        """The value of one property of a unit."""
        return self.run("systemctl", "show", "-p", name, "--value", unit).strip()


def _init_of(nspawn: int) -> int | None:
    """The pid on the host of the first process in the container; None if it does not run."""
    try:
        children = Path(f"/proc/{nspawn}/task/{nspawn}/children").read_text().split()
    except OSError:
        return None
    for pid in map(int, children):
        with suppress(OSError):  # the child may have ended
            if Path(f"/proc/{pid}/comm").read_text().strip() == "systemd":
                return pid
    return None


@contextmanager
def booted(place: Path, units: dict[str, str], wanted: Sequence[str]) -> Iterator[Box]:
    """Start a container with these ``units`` (text by name). Only those in ``wanted`` are started in it."""
    memory, root = place / "memory", place / "root"
    memory.mkdir()
    root.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", str(memory)], check=True)
    try:
        upper, work = memory / "upper", memory / "work"
        upper.mkdir()
        work.mkdir()
        options = f"lowerdir=/,upperdir={upper},workdir={work}"
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, str(root)], check=True)
        try:
            (root / "etc/fstab").write_text("")
            folder = root / "etc/systemd/system"
            needed = " ".join(["dbus.service", "systemd-journald.service", *wanted])
            for name, text in {**units, TARGET: f"[Unit]\nWants={needed}\n"}.items():
                (folder / name).write_text(text)
            (folder / "systemd-tmpfiles-setup.service").symlink_to("/dev/null")  # this service would empty /tmp
            argv = ["systemd-nspawn", "-D", str(root), "-b", "-M", NAME, "--register=no", "--keep-unit"]
            argv += ["--capability=all", "--link-journal=no", "--resolv-conf=off", "--timezone=off"]
            with (memory / "log").open("wb") as log:
                nspawn = subprocess.Popen(
                    [*argv, f"systemd.unit={TARGET}"],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, "SYSTEMD_NSPAWN_TMPFS_TMP": "0"},  # a checkout below /tmp stays visible
                )
            try:
                until(lambda: nspawn.poll() is not None or _init_of(nspawn.pid) is not None, "no init came up")
                init = _init_of(nspawn.pid)
                if init is None:
                    raise RuntimeError((memory / "log").read_text(errors="replace"))
                yield Box(root, init)
            finally:
                nspawn.terminate()
                nspawn.wait(60)
        finally:
            subprocess.run(["umount", "-l", str(root)], check=True)
    finally:
        subprocess.run(["umount", "-l", str(memory)], check=True)
