"""The dialog that measures storage on this machine, as ``iotop-ai check`` does."""

from __future__ import annotations

from collections.abc import Callable

from textual.events import Key, Paste

from iotop_ai.model.clean import clean
from iotop_ai.present.preflight.storage_dialog import SECONDS, TITLE, CheckView, check_body
from iotop_ai.present.screen.dialog import Row
from iotop_ai.tui.dialogs.base import Backdrop, DialogScreen
from iotop_ai.tui.threads.storage_check import CheckEnded, CheckStep, CheckThread


class CheckScreen(DialogScreen):
    """Measures storage and shows the result.

    path: the proposed path. write: whether a test file may be written. note: records a text as an event. Closing the
    dialog stops a running check.
    """

    seconds = SECONDS
    """How long a check measures, in seconds."""
    takes_paste = True

    def __init__(self, backdrop: Backdrop, path: str, *, write: bool, note: Callable[[str], None]) -> None:
        super().__init__(backdrop)
        self.text = path
        self._proposed = bool(path)
        self._note = note
        self._thread: CheckThread | None = None
        self.check = CheckView(self.typed, write=write)

    def heading(self) -> tuple[str, str]:
        """The title; once the check has begun, also the path."""
        return TITLE, "" if self._thread is None else clean(self.text)

    def body(self, width: int) -> tuple[list[Row], list[Row]]:
        """The question, the progress or the figures."""
        return check_body(self.check._replace(typed=self.typed), width)

    def handle_special_key(self, key: str) -> bool:
        """Ignore all keys that edit the text once the check has begun."""
        return self._thread is not None

    def text_changed(self) -> None:
        """Remove the complaint about the previous path."""
        self.check = self.check._replace(error="")

    def enter(self) -> None:
        """Begin the check, or close the dialog if the check is over."""
        if self.check.ended:
            self.leave()
        elif self._thread is None:
            path = self.text.strip()
            if not path.startswith(("/", "~")):
                self.check = self.check._replace(error="type a full path: /data, or /dev/nvme0n1")
                return
            thread = CheckThread(path, self.seconds, write=self.check.write, post_message=self.post_message)
            try:
                thread.start()
            except RuntimeError as error:  # this user has too many threads
                self.check = self.check._replace(error=f"failed: {error}")
                return
            self._thread = thread
            self.text = path
            self.check = self.check._replace(step="...", error="")
            self._note(f"storage check of {clean(path)}")

    def press(self, event: Key) -> None:
        """Stop a running check with the first Esc, and close the dialog with the next."""
        if event.key == "escape" and self._thread is not None and not self.check.ended and not self.check.stopping:
            self.check = self.check._replace(stopping=True)
            self._thread.stop()
            self.draw()
        else:
            if self._thread is None:
                self._replace_proposed(event.character is not None and event.character.isprintable())
            super().press(event)

    def on_paste(self, event: Paste) -> None:
        """Let a pasted path replace a proposed one. Textual then calls the handler of the base class, which takes the
        text.
        """
        if self._thread is None:
            self._replace_proposed(True)
        else:
            event.prevent_default()

    def _replace_proposed(self, is_text: bool) -> None:
        """Handle the first key or paste: text replaces the proposed path; any other key keeps it for editing."""
        if self._proposed and is_text:
            self.text = ""
        self._proposed = False

    def on_check_step(self, message: CheckStep) -> None:
        """Show the running phase."""
        report = message.report
        self.check = self.check._replace(
            report=report, step=message.step, done=len(report.results), phases=message.phases
        )
        self.draw()

    def on_check_ended(self, message: CheckEnded) -> None:
        """Show the figures; after a failure, let the user type a path again."""
        if message.report is None:
            self._thread = None
            self.check = CheckView(error=message.error, write=self.check.write)
        else:
            self.check = self.check._replace(report=message.report, step="", ended=True, stopping=False)
        self.draw()

    def on_unmount(self) -> None:
        """Stop a running check; its thread then removes the file that it wrote."""
        if self._thread is not None:
            self._thread.stop()
