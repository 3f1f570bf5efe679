"""Switches the kernel's delay accounting, which measures how long each task waits for block I/O.

The switch is kernel.task_delayacct. It is off by default since Linux 5.14, and the kernel measures only tasks that
start while it is on. Source: https://docs.kernel.org/accounting/delay-accounting.html.
"""

from __future__ import annotations

from iotop_ai.actions.audit import Audit
from iotop_ai.actions.kernel_switch import TASK_DELAYACCT, set_switch
from iotop_ai.actions.outcome import Outcome, audited
from iotop_ai.collectors.io.root import Root


def set_delayacct(on: bool, root: Root, audit: Audit) -> Outcome:
    """Switch delay accounting on or off; return the outcome. Never raises."""

    def act() -> Outcome:
        why, remedy = set_switch(TASK_DELAYACCT, "1" if on else "0", root)
        if why:
            return Outcome(False, f"not done: {why}", remedy)
        return Outcome(True, f"delay accounting switched {'on' if on else 'off'}")

    return audited(audit, f"task_delayacct {'on' if on else 'off'}", TASK_DELAYACCT.name, act)
