"""Functions that return why the cause of a scenario cannot be produced on this machine; "" when it can."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

BLKIO = Path("/sys/fs/cgroup/blkio")
MEMORY = Path("/sys/fs/cgroup/memory")


def why_no_blkio() -> str:
    """Return why the reads of a control group cannot be limited here; "" when they can."""
    if os.geteuid():
        return "needs root for control groups"
    return "" if (BLKIO / "blkio.throttle.read_bps_device").exists() else "needs cgroup v1 with blkio"


def why_no_losetup() -> str:
    """Return why a throttled loop device below another loop device is impossible here; "" when it is possible."""
    if not shutil.which("losetup"):
        return "needs losetup (util-linux)"
    return why_no_blkio()


def why_no_memory_group() -> str:
    """Return why the memory of a control group cannot be limited here; "" when it can."""
    if os.geteuid():
        return "needs root for control groups"
    return "" if (MEMORY / "memory.limit_in_bytes").exists() else "needs cgroup v1 with memory"


def why_no_zram() -> str:
    """Return why this machine cannot swap to compressed memory alone; "" when it can."""
    if not Path("/sys/class/zram-control/hot_add").exists():
        return "needs zram"
    if len(Path("/proc/swaps").read_text().splitlines()) > 1:
        return "would meddle with the machine's own swap"
    return "needs mkswap (util-linux)" if not shutil.which("mkswap") else why_no_memory_group()


def why_no_namespace() -> str:
    """Return why a separate mount namespace is impossible here; "" when it is possible."""
    if os.geteuid():
        return "needs root for mount namespaces"
    return "" if shutil.which("unshare") else "needs unshare (util-linux)"
