"""The keys that change the machine: they open a dialog, which acts once the user has confirmed.

Actions run only at now, on the machine itself: not in a replay, on a remote screen, while looking back, or with
--readonly.
"""

from __future__ import annotations

from collections.abc import Callable

from iotop_ai.collectors.io.root import Root
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.present.process.groups import groups
from iotop_ai.store.source import Source
from iotop_ai.tui.dialogs.base import Backdrop, DialogScreen
from iotop_ai.tui.screens.main.state import MainState
from iotop_ai.tui.threads.actions import ActionThreads

AT_NOW = ("live", "paused")
PROCESS_PREFIX = "process:"
CHOOSE_PROCESS = "failed: choose a process first: Tab there, then Down"


class MachineActions:
    """backdrop: makes what a dialog needs of the main screen. open_dialog: shows a dialog."""

    def __init__(
        self,
        state: MainState,
        source: Source,
        threads: ActionThreads,
        backdrop: Callable[[], Backdrop],
        open_dialog: Callable[[DialogScreen], None],
    ) -> None:
        self._state = state
        self._source = source
        self._threads = threads
        self._backdrop = backdrop
        self._open_dialog = open_dialog

    def why_not(self) -> str:
        """Why nothing may be changed from here; "" where it may."""
        view = self._state.view
        if view.readonly:
            return "this screen is read-only"
        if view.mode == "back":
            return "not while looking back: End returns to now"
        if view.remote or view.mode not in AT_NOW or not self._source.live:
            return "only on the live screen of the machine itself"
        return ""

    def _refused(self) -> bool:
        """Whether nothing may be changed from here; answers the key then."""
        why = self.why_not()
        if why:
            self._state.change(f"failed: {why}")
        return bool(why)

    def drop_caches(self) -> None:
        """Ask before dropping the host's caches."""
        if not self._refused():
            from iotop_ai.tui.dialogs.drop_caches import DropCachesScreen  # slow to import

            self._open_dialog(DropCachesScreen(self._backdrop(), self._threads))

    def delay_accounting(self) -> None:
        """Ask before switching the kernel's delay accounting."""
        if not self._refused():
            from iotop_ai.tui.dialogs.process import DelayScreen

            self._open_dialog(DelayScreen(self._backdrop(), self._threads))

    def one_process(self, key: ProcessKey, text: str, backdrop: Backdrop) -> DialogScreen | None:
        """The dialog that asks for a command for one process; None, with an answer, where that is not possible."""
        if self._refused():
            return None
        from iotop_ai.present.process.dialog import process_target
        from iotop_ai.tui.dialogs.process import ProcessScreen

        target = process_target(self._state.newest.snapshot, key.pid, (key,))
        if target is None or target.keys != (key,):
            self._state.change("failed: it has ended")
            return None
        return ProcessScreen(backdrop, self._threads, target, text)

    @property
    def root(self) -> Root | None:
        """The /proc of the processes on the screen; None where no machine is being read."""
        root: Root | None = getattr(self._source, "root", None)
        return root

    def process(self, text: str = "") -> None:
        """Ask for a command for the tagged processes, else for those under the cursor. text: the begin of it."""
        if self._refused():
            return
        from iotop_ai.present.process.dialog import process_target, tagged_target
        from iotop_ai.tui.dialogs.process import ProcessScreen

        view, newest = self._state.view, self._state.newest.snapshot
        targets = tagged_target(newest, view.tagged)
        if not targets:
            pid = view.cursor.removeprefix(PROCESS_PREFIX)
            if not (view.focus == "process" and view.cursor.startswith(PROCESS_PREFIX) and pid.isdigit()):
                self._state.change(CHOOSE_PROCESS)
                return
            keys = next((g.keys for g in groups(self._state.frame, view) if g.row_key == view.cursor), ())
            targets = process_target(newest, int(pid), keys)
            if targets is None:
                self._state.change("failed: it has ended")
                return
        self._open_dialog(ProcessScreen(self._backdrop(), self._threads, targets, text))
