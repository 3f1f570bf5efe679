"""Reads facts about the host, the user and the container, and the monitor's own cost."""

from __future__ import annotations

import os

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import KeptFile, Root
from iotop_ai.collectors.io.with_timeout import HOME_TIMEOUT_S
from iotop_ai.collectors.process.users import Lookup, Users, look_up_name
from iotop_ai.lazy.regex import pattern
from iotop_ai.model.clean import clean
from iotop_ai.model.snapshot import Host, OwnCost

INITIAL_USER_NAMESPACE = "user:[4026531837]"
"""The target of /proc/self/ns/user in the initial namespace (PROC_USER_INIT_INO in include/linux/proc_ns.h)."""
_CONTAINER = pattern(r"(docker|kubepods|libpod|lxc|containerd|crio)")


class HostReader:
    """Reads the facts about the host once per session. If the user name is not known at once, it is added later.

    look_up: a function like ``look_up_name``. Only one thread at a time may use a HostReader.
    """

    def __init__(self, root: Root, clock: Clock, look_up: Lookup = look_up_name) -> None:
        uname, self._euid = os.uname(), os.geteuid()
        self._users: Users | None = Users(root, look_up, HOME_TIMEOUT_S, clock)
        self._host = Host(
            name=root.text_or("proc/sys/kernel/hostname") or ("" if root.foreign else clean(uname.nodename)),
            boot_id=root.text_or("proc/sys/kernel/random/boot_id") or _boot_time(root),
            kernel=root.text_or("proc/sys/kernel/osrelease") or ("" if root.foreign else clean(uname.release)),
            euid=self._euid,
            user=self._users.name(self._euid),
            ptrace=_can_read_others(root),
            container=read_container(root),
        )
        if self._host.user != str(self._euid):
            self.close()

    def read(self) -> Host:
        """Return the Host without waiting for the user name.

        The boot_id is the boot time if the kernel has no boot ID; "" if neither exists. The user is the UID as text
        while the name is unknown.
        """
        if self._users is not None and (name := self._users.late_names().get(self._euid)):
            self._host = self._host._replace(user=name)
            self.close()
        return self._host

    def close(self) -> None:
        """End the thread that looks for the user name."""
        if self._users is not None:
            self._users.close()
            self._users = None


def _boot_time(root: Root) -> str:
    return next((line for line in root.lines("proc/stat") if line.startswith("btime ")), "")


def _can_read_others(root: Root) -> bool:
    """Whether we can read /proc/PID/io of other users.

    This needs CAP_SYS_PTRACE, and CAP_DAC_OVERRIDE or CAP_DAC_READ_SEARCH. The function tests the capabilities and does
    not open a file, because even root may be denied /proc/1/io in some VMs.
    """
    caps = effective_capabilities(root)
    return bool(caps >> 19 & 1 and caps >> 1 & 0b11)


def effective_capabilities(root: Root) -> int:
    """Return our effective capabilities: bit N is the capability number N of capabilities(7). 0 when unknown."""
    for line in root.lines("proc/self/status"):
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    return 0


def in_initial_user_namespace(root: Root) -> bool:
    """Whether we are in the initial user namespace; True also if the kernel does not support user namespaces.

    The root user of another user namespace is an ordinary user of the machine.
    """
    return root.link("proc/self/ns/user") in ("", INITIAL_USER_NAMESPACE)


def read_container(root: Root) -> str:
    """Return the kind of container that we run in: "docker", "podman", "kubernetes", "lxc", ...; "" outside containers.

    Trees given by --procfs or --sysfs belong to the whole machine, so the result is "". A VM whose root filesystem was
    made from a container image has the image's marker files too. The processes of the VM, however, are in the initial
    PID namespace, which has a fixed number (PROC_PID_INIT_INO).
    """
    if root.has_given_trees or root.link("proc/self/ns/pid") == "pid:[4026531836]":
        return ""
    if root.exists(".dockerenv"):
        return "docker"
    if root.exists("run/.containerenv"):
        return "podman"
    if root.live and "KUBERNETES_SERVICE_HOST" in os.environ:
        return "kubernetes"
    match = _CONTAINER.search(root.text_or("proc/1/cgroup"))
    return match[1] if match else ""


class OwnCostReader:
    """Reads the CPU time and the memory of this process, through a file that is kept open."""

    def __init__(self, root: Root, clock: Clock) -> None:
        self._clock = clock
        self._pid = root.own_pid if root.has_given_trees else os.getpid()
        self._page = os.sysconf("SC_PAGE_SIZE")
        try:
            self._statm: KeptFile | None = (Root() if root.has_given_trees else root).keep("proc/self/statm", 256)
        except OSError:
            self._statm = None

    def read(self, collect_ns: int, late_ns: int) -> OwnCost:
        """Return the cost so far. collect_ns: the duration of the tick. late_ns: how late the tick began.

        CPU time is cumulative. The resident memory is the present amount; None when it cannot be read.
        """
        rss = None
        if self._statm is not None:
            try:
                rss = int(self._statm.read_record().split()[1]) * self._page
            except (OSError, ValueError, IndexError):
                rss = None
        return OwnCost(self._pid, self._clock.process_ns(), rss, collect_ns, late_ns)

    def close(self) -> None:
        """Close the file that is kept open."""
        if self._statm is not None:
            self._statm.close()
