"""The dialog that drops the machine's caches, or evicts a single dataset from memory."""

from __future__ import annotations

import os
from collections.abc import Callable

from textual.message import Message

from iotop_ai.actions.audit import Audit
from iotop_ai.actions.cache.drop import Dropped, drop_caches, wait_s
from iotop_ai.actions.cache.evict import evict
from iotop_ai.actions.kernel_switch import DROP_CACHES
from iotop_ai.actions.outcome import Outcome
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.machine.page_cache import PageCache
from iotop_ai.model.machine.page_cache import Evicted
from iotop_ai.present.machine import caches
from iotop_ai.present.machine.drop_caches_dialog import EVICT, TITLE, DropView, drop_body, may_choose
from iotop_ai.present.screen.dialog import Row
from iotop_ai.present.text.units import amount
from iotop_ai.tui.dialogs.base import Backdrop
from iotop_ai.tui.dialogs.kernel_switch import KernelSwitchScreen, PermissionResult
from iotop_ai.tui.threads.actions import ActionResult, ActionThreads

WHICH_PATH = "type the full path of an existing folder or file: /data/set"


class ProgressUpdate(Message):
    """The progress of the running action, in words."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__()


class CacheResult(Message):
    """The result of a drop or an eviction.

    dropped: None for an eviction; its ``effect`` is None if the drop was refused or failed. evicted: None for a drop,
    or if the eviction was refused or failed.
    """

    def __init__(self, outcome: Outcome, dropped: Dropped | None = None, evicted: Evicted | None = None) -> None:
        self.outcome = outcome
        self.dropped = dropped
        self.evicted = evicted
        super().__init__()


class DropCachesScreen(KernelSwitchScreen):
    """Asks for the word that confirms a drop, or for the path to evict; then shows the progress and the effect.

    A running action continues after the dialog is closed.
    """

    switch = DROP_CACHES
    dialog_title = TITLE

    def __init__(self, backdrop: Backdrop, threads: ActionThreads) -> None:
        super().__init__(backdrop, threads)
        self._clock = Clock()
        self._started_ns = self._wait_counted_ns = 0
        self.drop = DropView()

    def wait_s(self) -> float:
        """The seconds until this user can drop caches again."""
        return wait_s(self._root, self._clock)

    def on_permission_result(self, message: PermissionResult) -> None:
        """Show whether the user can drop caches; if not, choose the eviction, which does not need root."""
        self._wait_counted_ns = self._clock.monotonic_ns()
        self.drop = self.drop._replace(**message.permission._asdict(), wait_s=message.wait_s)
        if not self.drop.may_drop and not self.text:
            self._choose(EVICT)
        self.draw()

    def body(self, width: int) -> tuple[list[Row], list[Row]]:
        """The text of the dialog."""
        self._count_wait_down()
        seconds = (self._clock.monotonic_ns() - self._started_ns) / 1e9 if self.drop.doing else 0.0
        view = self.drop._replace(typed=self.typed, seconds=seconds)
        return drop_body(self.state.newest.snapshot, view, width)

    def _count_wait_down(self) -> None:
        """Count down the minute that must pass between two drops."""
        if self.drop.wait_s > 0:
            now_ns = self._clock.monotonic_ns()
            passed_s, self._wait_counted_ns = (now_ns - self._wait_counted_ns) / 1e9, now_ns
            self.drop = self.drop._replace(wait_s=max(0.0, self.drop.wait_s - passed_s))

    @property
    def finished(self) -> bool:
        """Whether the effect is shown."""
        return self.drop.effect is not None or self.drop.evicted is not None

    def handle_special_key(self, key: str) -> bool:
        """Choose with Up, Down and the digits. While a path is being typed, a digit is part of the path.

        While an action runs, and once its effect is shown, no key edits the text.
        """
        if self.drop.doing or self.finished:
            return True
        if key in ("up", "down"):
            self._choose((self.drop.choice - 1 + (1 if key == "down" else -1)) % EVICT + 1)
            return True
        if key in ("1", "2", "3", "4") and not (self.drop.choice == EVICT and self.text):
            self._choose(int(key))
            return True
        return False

    def _choose(self, choice: int) -> None:
        self.text = ""
        self.takes_paste = choice == EVICT
        self.drop = self.drop._replace(choice=choice, error="")

    def _complain(self, text: str) -> None:
        self.drop = self.drop._replace(error=text)

    def text_changed(self) -> None:
        """Remove the complaint about the previous input."""
        self._complain("")

    def enter(self) -> None:
        """Drop the caches if the word is right, or evict the typed path; close the dialog if the effect is shown."""
        drop = self.drop
        if self.finished:
            self.leave()
        elif drop.doing:
            return
        elif drop.choice == EVICT:
            self._enter_path(self.text.strip())
        elif drop.how is None:
            self._complain("permissions are still being checked")
        elif not may_choose(drop, drop.choice):
            self._complain("not permitted; 4 evicts one dataset")
            self.text = ""
        elif self.text.strip() != caches.WORD:
            self._complain(f'type "{caches.WORD}" to confirm; Esc closes the dialog')
            self.text = ""
        else:
            self._start("drop-caches", lambda: self._drop(drop.choice), caches.STEPS["sync"])

    def _enter_path(self, path: str) -> None:
        if not path.startswith(("/", "~")):
            self._complain(WHICH_PATH)
            return
        self._start("evict", lambda: self._evict(path), "evicting ...")

    def _start(self, name: str, action: Callable[[], ActionResult], step: str) -> None:
        """Start an action, and show its first step. If it could not be started, the user can try again."""
        if failure := self._threads.run(name, action):
            self._complain(failure)
            return
        self._started_ns = self._clock.monotonic_ns()
        self.text, self.takes_paste = "", False
        self.drop = self.drop._replace(doing=step, error="")

    def _drop(self, level: int) -> ActionResult:
        audit = Audit(self._clock)
        dropped = drop_caches(level, self._root, self._clock, audit, lambda step: self._report(caches.STEPS[step]))
        self.post_message(CacheResult(dropped.outcome, dropped=dropped))
        effect = dropped.effect
        text = caches.effect_text(effect) if effect is not None else dropped.outcome.full_text
        return ActionResult.of_action(dropped.outcome.done, text)

    def _evict(self, typed_path: str) -> ActionResult:
        path = os.path.expanduser(typed_path)
        if not os.path.exists(path):  # checked on this thread, because a dead mount does not answer
            self.post_message(CacheResult(Outcome(False, WHICH_PATH)))
            return ActionResult.of_action(False, WHICH_PATH)
        outcome, evicted = evict(
            path,
            Audit(self._clock),
            PageCache(),
            lambda now: self._report(f"evicting ... {now.files} files, {amount(now.size_bytes)},"),
        )
        if not outcome.done:
            evicted = None  # no file was evicted
        self.post_message(CacheResult(outcome, evicted=evicted))
        text = outcome.full_text if evicted is None else caches.evicted_text(evicted)
        return ActionResult.of_action(outcome.done, text)

    def _report(self, text: str) -> None:
        self.post_message(ProgressUpdate(text))

    def on_progress_update(self, message: ProgressUpdate) -> None:
        """Show the progress."""
        if self.drop.doing:
            self.drop = self.drop._replace(doing=message.text)
            self.draw()

    def on_cache_result(self, message: CacheResult) -> None:
        """Show the effect, or why the action was refused."""
        effect = message.dropped.effect if message.dropped is not None else None
        self.drop = self.drop._replace(doing="", effect=effect, evicted=message.evicted)
        if effect is None and message.evicted is None:
            self.takes_paste = self.drop.choice == EVICT
            self._complain(message.outcome.full_text)
        self.draw()
