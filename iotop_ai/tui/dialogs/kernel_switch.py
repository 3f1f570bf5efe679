"""The base class of the dialogs about a kernel switch: a setting in /proc/sys, which affects the whole machine."""

from __future__ import annotations

import threading
from typing import ClassVar

from textual.message import Message

from iotop_ai.actions.kernel_switch import Permission, Switch, permission_to
from iotop_ai.collectors.io.root import Root
from iotop_ai.present.text.line import plain
from iotop_ai.tui.dialogs.base import Backdrop, DialogScreen
from iotop_ai.tui.threads.actions import ActionThreads


class PermissionResult(Message):
    """``permission``: whether this user can set the switch. wait_s: the seconds until it can be set again."""

    def __init__(self, permission: Permission, wait_s: float) -> None:
        self.permission = permission
        self.wait_s = wait_s
        super().__init__()


class KernelSwitchScreen(DialogScreen):
    """Checks the permission when it opens. A subclass receives the result in ``on_permission_result``."""

    switch: ClassVar[Switch]
    dialog_title: ClassVar[str]

    def __init__(self, backdrop: Backdrop, threads: ActionThreads) -> None:
        super().__init__(backdrop)
        self._threads = threads
        self._root = Root("/")

    def on_mount(self) -> None:
        """Check the permission on a thread, because sudo may be slow."""
        try:
            threading.Thread(target=self._check_permission, name="permission", daemon=True).start()
        except RuntimeError as error:  # this user has too many threads
            self.post_message(PermissionResult(Permission("", str(error)), 0.0))

    def _check_permission(self) -> None:
        permission = permission_to(self.switch, self._root, self.wanted_value())
        self.post_message(PermissionResult(permission, self.wait_s()))

    def wanted_value(self) -> str:
        """The value that the user probably wants to set; "" if that is unknown."""
        return ""

    def wait_s(self) -> float:
        """The seconds until the switch can be written again."""
        return 0.0

    def heading(self) -> tuple[str, str]:
        """The title and the machine."""
        return self.dialog_title, f"of the whole host {plain(self.state.newest.snapshot.host.name)}"
