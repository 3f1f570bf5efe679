"""Finds out whether the kernel counts how long tasks wait for block I/O, and for which tasks it does so.

Sources: kernel/delayacct.c (delayacct_setup_enable, delayacct_tsk_init), fs/proc/array.c (field 42 of stat), and
https://docs.kernel.org/accounting/delay-accounting.html.
"""

from __future__ import annotations

from collections.abc import Iterable

from iotop_ai.collectors.io.root import READ_LIMIT, KeptFile, Root, is_transient
from iotop_ai.collectors.process.descriptors import open_kept
from iotop_ai.model.process.records import ProcessKey, has_delay_switch

SWITCH = "proc/sys/kernel/task_delayacct"


class DelayAccounting:
    """Follows the sysctl kernel.task_delayacct.

    Linux before 5.14 does not have this sysctl: there, accounting is on unless the kernel was booted with
    ``nodelayacct``.
    """

    def __init__(self, root: Root) -> None:
        self._root = root
        self._switch: KeptFile | OSError | None = None
        self._on_without_switch: bool | None = None
        """Whether accounting is on, for a kernel without the sysctl; None when it is unknown."""
        self._from_boot = False
        """Whether accounting, if it is on, has been on since boot, so that all tasks are counted."""
        self._since: int | None = None
        """The second result of ``read``."""

    def read(self, keys: Iterable[ProcessKey]) -> tuple[bool | None, int | None]:
        """Return (whether accounting is on, the earliest start time of the tasks that are counted).

        The first is None when it is unknown. The second is in clock ticks since boot; None when all tasks are counted,
        or when accounting is not known to be on. The kernel never counts a task that starts while accounting is off
        (delayacct_tsk_init): its counter stays 0. Accounting that was on when the monitor started may have been off
        earlier, so only tasks that start later are certainly counted. keys: the current processes.
        """
        on = self._on()
        if not on:
            self._since = None
            self._from_boot = self._from_boot and on is None
        elif self._since is None and not self._from_boot:
            self._since = 1 + max((key.start_ticks for key in keys), default=-1)
        return on, self._since

    def _on(self) -> bool | None:
        if self._switch is None:
            switch = open_kept(self._root, SWITCH, 64)
            if isinstance(switch, OSError) and is_transient(switch):
                return None  # the next read tries again
            self._switch = switch
            boot_options = self._root.text_or("proc/cmdline", longest=READ_LIMIT).split()
            old = has_delay_switch(self._root.text_or("proc/sys/kernel/osrelease")) is False
            self._from_boot = old or "delayacct" in boot_options
            # A newer kernel without the sysctl was built without delay accounting, so its tasks' waits are unknown.
            self._on_without_switch = "nodelayacct" not in boot_options if old else None
        if isinstance(self._switch, OSError):
            return self._on_without_switch
        return self._switch.read().strip() not in (b"", b"0")

    def close(self) -> None:
        """Close the file of the sysctl; ``read`` opens it again."""
        if isinstance(self._switch, KeptFile):
            self._switch.close()
        self._switch = None
