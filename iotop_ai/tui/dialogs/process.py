"""The dialogs that signal processes or change their priority, and the dialog that switches delay accounting."""

from __future__ import annotations

from iotop_ai.actions.audit import Audit
from iotop_ai.actions.delay_accounting import set_delayacct
from iotop_ai.actions.kernel_switch import TASK_DELAYACCT, Permission
from iotop_ai.actions.process_signals import act_on, act_on_each, parse_command, why_protected
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.present.process.dialog import DELAY_TITLE, TITLE, DelayView, ProcessTarget, delay_body, process_body
from iotop_ai.present.screen.dialog import Row
from iotop_ai.tui.dialogs.base import Backdrop, DialogScreen
from iotop_ai.tui.dialogs.kernel_switch import KernelSwitchScreen, PermissionResult
from iotop_ai.tui.threads.actions import ActionResult, ActionThreads


class ProcessScreen(DialogScreen):
    """Asks for a command for one process, for all processes that share a row, or for all tagged processes.

    Typing the command confirms it. text: the beginning of the command.
    """

    def __init__(self, backdrop: Backdrop, threads: ActionThreads, target: ProcessTarget, text: str = "") -> None:
        super().__init__(backdrop)
        self._threads = threads
        self._target = target
        self._complaint = ""
        self.text = text

    def heading(self) -> tuple[str, str]:
        """The title and the processes."""
        return TITLE, self._target.label

    def body(self, width: int) -> tuple[list[Row], list[Row]]:
        """The processes, the jobs that they are part of, and the commands."""
        return process_body(self.state.newest.snapshot, self._target, self.typed, self._complaint, width)

    def text_changed(self) -> None:
        """Remove the complaint about the previous command."""
        self._complaint = ""

    def enter(self) -> None:
        """Run the typed command if it is valid."""
        command = parse_command(self.text)
        if command is None:
            self._complaint = "unknown command; use term, kill, nice 10, io idle ..."
            return
        root, target = Root("/"), self._target
        why = why_protected(target.keys[0], root) if len(target.keys) == 1 else ""
        if why:
            self._complaint = f"not done: {why}"
            self.text = ""
            return

        def act() -> ActionResult:
            if target.names:
                pairs = tuple(zip(target.keys, target.names, strict=True))
                outcomes = act_on_each(command, pairs, root, Audit(Clock()))
                return ActionResult.of_action(outcomes.whole.done, outcomes.whole.full_text, outcomes.successes)
            outcome = act_on(command, target.keys, target.name, root, Audit(Clock()))
            return ActionResult.of_action(outcome.done, outcome.full_text)

        self._threads.run("process-act", act)
        self.leave()


class DelayScreen(KernelSwitchScreen):
    """Asks for confirmation, then switches kernel.task_delayacct, as Ctrl-T does in iotop."""

    switch = TASK_DELAYACCT
    dialog_title = DELAY_TITLE

    def __init__(self, backdrop: Backdrop, threads: ActionThreads) -> None:
        super().__init__(backdrop, threads)
        self._permission: Permission | None = None
        self._complaint = ""
        self._switching = False

    def wanted_value(self) -> str:
        """The value that turns delay accounting on, or off if it is on."""
        return "1" if self.view.word == "on" else "0"

    def on_permission_result(self, message: PermissionResult) -> None:
        """Show whether the user can switch delay accounting."""
        self._permission = message.permission
        self.draw()

    @property
    def view(self) -> DelayView:
        """The state of the dialog."""
        table = self.state.newest.snapshot.processes.value
        how, reason, remedy = (None, "", "") if self._permission is None else self._permission
        on = None if table is None else table.delayacct
        return DelayView(on, how, reason, remedy, self.typed, self._complaint, self._switching)

    def body(self, width: int) -> tuple[list[Row], list[Row]]:
        """The text of the dialog."""
        return delay_body(self.view, width)

    def text_changed(self) -> None:
        """Remove the complaint about the previous word."""
        self._complaint = ""

    def enter(self) -> None:
        """Switch delay accounting if the user typed the right word."""
        view = self.view
        if self._switching:
            return
        if not view.how:
            unknown = view.how is None
            self._complaint = "permissions are still being checked" if unknown else "that is not permitted"
            return
        if self.text.strip() != view.word:
            self._complaint, self.text = f'type "{view.word}" to confirm; Esc closes the dialog', ""
            return
        self._switching = True

        def act() -> ActionResult:
            outcome = set_delayacct(view.word == "on", Root("/"), Audit(Clock()))
            return ActionResult.of_action(outcome.done, outcome.full_text)

        self._threads.run("delayacct", act)
        self.leave()
