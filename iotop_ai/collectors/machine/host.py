"""The host, the user, the container, and the monitor's own cost."""

from __future__ import annotations

import os

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import KeptFile, Root
from iotop_ai.collectors.io.with_timeout import HOME_TIMEOUT_S
from iotop_ai.collectors.process.users import Users
from iotop_ai.lazy.regex import pattern
from iotop_ai.model.clean import clean
from iotop_ai.model.snapshot import Host, OwnCost

_CONTAINER = pattern(r"(docker|kubepods|libpod|lxc|containerd|crio)")


def read_host(root: Root) -> Host:
    """The Host of this session. boot_id: the boot time if the kernel has no boot ID, else ""."""
    uname = os.uname()
    users = Users(root, timeout_s=HOME_TIMEOUT_S)
    host = Host(
        name=root.text_or("proc/sys/kernel/hostname") or ("" if root.foreign else clean(uname.nodename)),
        boot_id=root.text_or("proc/sys/kernel/random/boot_id") or _boot_time(root),
        kernel=root.text_or("proc/sys/kernel/osrelease") or ("" if root.foreign else clean(uname.release)),
        euid=os.geteuid(),
        user=users.name(os.geteuid()),
        ptrace=_reads_others(root),
        container=read_container(root),
    )
    users.close()
    return host


def _boot_time(root: Root) -> str:
    return next((line for line in root.lines("proc/stat") if line.startswith("btime ")), "")


def _reads_others(root: Root) -> bool:
    """Whether /proc/PID/io of other users is readable: needs CAP_SYS_PTRACE and one of CAP_DAC_*.

    Tests capabilities instead of a process, since even root may be denied /proc/1/io (a VM's init).
    """
    for line in root.lines("proc/self/status"):
        if line.startswith("CapEff:"):
            caps = int(line.split()[1], 16)
            return bool(caps >> 19 & 1 and caps >> 1 & 0b11)
    return False


def read_container(root: Root) -> str:
    """The kind of container we run in: "docker", "podman", "kubernetes", "lxc", ...; "" on a plain machine.

    Trees given by --procfs or --sysfs belong to the whole machine. A VM whose root file system was made from an image
    has the image's marks, too, but its processes are in the initial PID namespace, whose number is fixed
    (PROC_PID_INIT_INO).
    """
    if root.has_given_trees or root.link("proc/self/ns/pid") == "pid:[4026531836]":
        return ""
    if root.exists(".dockerenv"):
        return "docker"
    if root.exists("run/.containerenv"):
        return "podman"
    if root.live and "KUBERNETES_SERVICE_HOST" in os.environ:
        return "kubernetes"
    found = _CONTAINER.search(root.text_or("proc/1/cgroup"))
    return found[1] if found else ""


class OwnCostReader:
    """Reads this process's own CPU time and memory from a kept descriptor."""

    def __init__(self, root: Root, clock: Clock) -> None:
        self._clock = clock
        self._pid = root.own_pid if root.has_given_trees else os.getpid()
        self._page = os.sysconf("SC_PAGE_SIZE")
        try:
            self._statm: KeptFile | None = (Root() if root.has_given_trees else root).keep("proc/self/statm", 256)
        except OSError:
            self._statm = None

    def read(self, collect_ns: int, late_ns: int) -> OwnCost:
        """Cumulative CPU ns, resident bytes now (None when unreadable), and the tick's duration and delay."""
        rss = None
        if self._statm is not None:
            try:
                rss = int(self._statm.read_record().split()[1]) * self._page
            except (OSError, ValueError, IndexError):
                rss = None
        return OwnCost(self._pid, self._clock.process_ns(), rss, collect_ns, late_ns)

    def close(self) -> None:
        """Close the kept file."""
        if self._statm is not None:
            self._statm.close()
