"""The keys that change the machine. They open a dialog, which acts after the user has confirmed.

Such an action runs only live and on the machine itself: not in a replay, on a remote screen, while looking back, or
with --readonly.
"""

from __future__ import annotations

from collections.abc import Callable

from textual.message import Message

from iotop_ai.collectors.io.root import Root
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.present.machine.drop_caches_dialog import TITLE as DROP_TITLE
from iotop_ai.present.process.dialog import DELAY_TITLE, TITLE, process_target, tagged_target
from iotop_ai.present.process.groups import selected_group
from iotop_ai.present.screen.keymap import first_key
from iotop_ai.present.screen.view import Problem, View
from iotop_ai.store.source import Source
from iotop_ai.tui.dialogs.base import Backdrop, DialogScreen
from iotop_ai.tui.dialogs.notice import NoticeScreen
from iotop_ai.tui.screens.main.state import MainState
from iotop_ai.tui.threads.actions import ActionThreads
from iotop_ai.tui.threads.doctor import search_once

ENDED = "it has ended"


def choose_first_text(view: View) -> str:
    """The answer to a key that needs a process while no process is chosen."""
    key = first_key("cursor.down", view.keymap)
    return "choose a process first" + (f": {key} moves to it" if key else "")


class MachineActions:
    """The controller of the keys that change the machine.

    threads: the threads that run the actions. backdrop: returns the parts of the main screen that a dialog needs.
    open_dialog: opens a dialog.
    """

    def __init__(
        self,
        state: MainState,
        source: Source,
        threads: ActionThreads,
        backdrop: Callable[[], Backdrop],
        open_dialog: Callable[[DialogScreen], None],
        post_message: Callable[[Message], bool],
    ) -> None:
        self._state = state
        self._source = source
        self.threads = threads
        self._backdrop = backdrop
        self._open_dialog = open_dialog
        self._post_message = post_message

    def look_for_problems(self) -> None:
        """Start a thread that looks once for the problems that doctor would find on this machine."""
        root = self.root
        if self._source.live and not self._state.view.remote and root is not None and root.live:
            search_once(root, self._state.newest.snapshot, self._post_message)

    def show_problems(self, problems: tuple[Problem, ...]) -> None:
        """Show the problems that the user has not dismissed."""
        state = self._state
        remaining = tuple(problem for problem in problems if problem.name not in state.view.dismissed)
        if remaining:
            state.change(state.view.message, problems=remaining)

    def dismiss(self) -> None:
        """Remove the row of problems, in this and in later sessions."""
        view = self._state.view
        if not view.problems:
            self._state.change("doctor's row is not shown")
            return
        names = view.dismissed | {problem.name for problem in view.problems}
        self._state.change("done: dismissed; iotop-ai doctor lists all", problems=(), dismissed=names)

    def why_not(self) -> str:
        """Why the machine cannot be changed from this screen; "" if it can."""
        view = self._state.view
        if view.why_not_live:
            return view.why_not_live
        if view.readonly:
            return "this screen is read-only"
        return "" if self._source.live else "only on the live screen of the machine itself"

    def _ask(self, title: str, make: Callable[[], DialogScreen | str]) -> None:
        """Open the dialog that ``make`` returns, or a notice that says why it cannot open. The notice takes
        the keys that the user types next.
        """
        dialog_or_reason = self.why_not() or make()
        self._open_dialog(
            NoticeScreen(self._backdrop(), title, dialog_or_reason)
            if isinstance(dialog_or_reason, str)
            else dialog_or_reason
        )

    def open_drop_dialog(self) -> None:
        """Open the dialog that drops the machine's caches."""

        def make() -> DialogScreen:
            from iotop_ai.tui.dialogs.drop_caches import DropCachesScreen  # slow to import

            return DropCachesScreen(self._backdrop(), self.threads)

        self._ask(DROP_TITLE, make)

    def open_delay_dialog(self) -> None:
        """Open the dialog that switches the kernel's delay accounting."""

        def make() -> DialogScreen:
            from iotop_ai.tui.dialogs.process import DelayScreen

            return DelayScreen(self._backdrop(), self.threads)

        self._ask(DELAY_TITLE, make)

    def storage_check_dialog(self, backdrop: Backdrop, device: str = "") -> DialogScreen:
        """The dialog that measures storage, or a notice that says why it cannot open. device: the device of the screen
        in front; "" on the main screen.
        """
        from iotop_ai.present.preflight.storage_dialog import TITLE as CHECK_TITLE
        from iotop_ai.present.preflight.storage_dialog import proposed_path

        view = self._state.view
        why = view.why_not_live or ("" if self._source.live else "only on the live screen of the machine itself")
        if why:
            return NoticeScreen(backdrop, CHECK_TITLE, why)
        from iotop_ai.tui.dialogs.storage_check import CheckScreen  # slow to import

        path = proposed_path(self._state.frame, view, device)
        return CheckScreen(
            backdrop, path, write=not view.readonly, note=lambda text: self._source.add_event("action", text)
        )

    def open_check_dialog(self) -> None:
        """Open the dialog that measures storage."""
        self._open_dialog(self.storage_check_dialog(self._backdrop()))

    def single_process_dialog(self, key: ProcessKey, text: str, backdrop: Backdrop) -> DialogScreen:
        """The dialog that asks for a command for this process, or a notice that says why it cannot open. text: the
        beginning of the command.
        """
        from iotop_ai.tui.dialogs.process import ProcessScreen

        target = process_target(self._state.newest.snapshot, (key,))
        why = self.why_not()
        if not why and target is None:
            why = ENDED
        if why or target is None:
            return NoticeScreen(backdrop, TITLE, why)
        return ProcessScreen(backdrop, self.threads, target, text)

    @property
    def root(self) -> Root | None:
        """The root of the /proc that shows the processes; None if the source does not read a machine."""
        root: Root | None = getattr(self._source, "root", None)
        return root

    def open_process_dialog(self, text: str = "") -> None:
        """Open the dialog for the tagged processes, or else for those in the selected row. text: the beginning of the
        command.
        """
        self._ask(TITLE, lambda: self._process_dialog(text))

    def _process_dialog(self, text: str) -> DialogScreen | str:
        from iotop_ai.tui.dialogs.process import ProcessScreen

        view, newest = self._state.view, self._state.newest.snapshot
        target = tagged_target(newest, view.tagged)
        if target is None:
            group = selected_group(self._state.frame, view)
            if group is None:
                return choose_first_text(view)
            target = process_target(newest, group.keys)
            if target is None:
                return ENDED
        return ProcessScreen(self._backdrop(), self.threads, target, text)
