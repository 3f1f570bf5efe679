"""The Textual app: one main screen that follows a source."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from textual.app import App
from textual.driver import Driver
from textual.screen import Screen

from iotop_ai.model.errors import InputError, IotopError
from iotop_ai.model.frame import HISTORY_S, Frame
from iotop_ai.present.keymap import APP_ACTS, Act
from iotop_ai.present.mouse import key_at
from iotop_ai.present.theme import looks
from iotop_ai.present.view import View
from iotop_ai.store.recording import Source
from iotop_ai.tui.bindings import APP_KEYS, textual_keymap
from iotop_ai.tui.follow import Follower, Takes
from iotop_ai.tui.looks import ANSI_THEMES
from iotop_ai.tui.messages import FrameReady, SourceEnded
from iotop_ai.tui.screens.main import MainScreen
from iotop_ai.tui.screens.moments import RecordSaid
from iotop_ai.tui.widgets.lines import PlaceClicked
from iotop_ai.tui.widgets.styles import Styles

if TYPE_CHECKING:
    from iotop_ai.tui.deck import Deck, PastRead, Played, TimelineRead
    from iotop_ai.tui.keeper import Keeper

STOP_WAIT_S = 1.0
END_WAIT_S = 10.0
"""How long an app that was told to end may take before it is ended by force."""
ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class MonitorApp(App[None], inherit_bindings=False):
    """The monitor on the terminal.

    frames: continue after ``first``, which is shown at once. keeper: gets each of them, the first too. deck: makes
    what plays a recording instead; ``frames`` is then empty. ended_by: the signal that ended the app, if one did;
    failure: the exception, if one did. Both are for the front to put into words once the terminal is back. look: the
    theme that is shown. save: writes a picture and returns its path; None where nothing may be written.
    """

    ENABLE_COMMAND_PALETTE = False
    BINDINGS = APP_KEYS

    def __init__(
        self,
        first: Frame,
        frames: Iterable[Frame],
        source: Source,
        view: View,
        theme: str,
        driver_class: type[Driver] | None = None,
        keeper: Keeper | None = None,
        deck: Callable[[Takes], Deck] | None = None,
        save: Callable[[str], str] | None = None,
    ) -> None:
        ansi = ANSI_THEMES.get(theme)
        super().__init__(driver_class=driver_class, ansi_color=True if ansi else None)
        if ansi:
            self.theme = ansi
        if view.keymap:
            self.set_keymap(textual_keymap(view.keymap))
        self.look = theme
        self._save = save
        self._ground = looks(theme)["bg"].bg
        self.keeper = keeper
        self.main = MainScreen(first, view, source, Styles(theme), keeper, self._look_back)
        if deck is not None:
            self.main.deck = deck(self)
        if keeper is not None:
            keeper.put(first)
        self.follower = Follower(frames, source, self, keeper.put if keeper is not None else None)
        self.ended_by: signal.Signals | None = None
        self.failure: BaseException | None = None
        self._sized = False
        """Whether the size was told that the app begins with: all is painted then anyway."""

    @property
    def uses_alt(self) -> bool:
        """Whether the user has bound a key with Alt."""
        return any("alt" in key.split("+")[:-1] for _, keys in self.main.view.keymap for key in keys)

    def get_default_screen(self) -> Screen[None]:
        """The main screen is there from the start."""
        return self.main

    def on_load(self) -> None:
        """Before the terminal is taken: from here on a signal ends the app, not the thread that it hits."""
        if not self.is_headless:
            loop = asyncio.get_running_loop()
            for number in ENDING_SIGNALS:
                loop.add_signal_handler(number, partial(self._end, number))

    def on_mount(self) -> None:
        """Follow the source."""
        if self._ground:
            self.styles.background = self._ground
            self.main.styles.background = self._ground
        self.app_resume_signal.subscribe(self, self._come_back)
        if self.main.deck is not None:
            self.main.deck.start()
        else:
            self.follower.start()
        if self.main.view.message:  # from here on it goes away by itself
            self.main.change(self.main.view.message)
        self.call_after_refresh(gc.freeze)

    def on_resize(self) -> None:
        """A terminal that was smaller for a moment has lost what stood there, also where its size is as it was."""
        if self._sized and self.screen_stack:
            self.screen.refresh()
        self._sized = True

    def on_unmount(self) -> None:
        """Give the source back before the program goes on."""
        if self.main.deck is not None:
            self.main.deck.close(STOP_WAIT_S)
        self.main.wait_for_acts(STOP_WAIT_S)
        self.follower.stop(STOP_WAIT_S)
        if self.keeper is not None:
            self.keeper.close()

    def on_frame_ready(self, message: FrameReady) -> None:
        """Show it."""
        self.main.receive(message.take())
        self._follow()

    def on_played(self, message: Played) -> None:
        """Show where the recording stands."""
        self.main.played(message)
        self._follow()

    def action_time(self, name: str, *arguments: int) -> None:
        """A key of time on a screen above the main one."""
        getattr(self.main, f"action_{name}")(*arguments)
        self._follow()

    def _follow(self) -> None:
        # A message may still come when the app is leaving and has no screen any more.
        front = self.screen_stack[-1:] and self.screen_stack[-1]
        # Told by what it can, not by its class: a screen is imported when it is first opened.
        follow = getattr(front, "follow", None)
        if follow is not None:
            follow()

    def on_past_read(self, message: PastRead) -> None:
        """Show what came before."""
        self.main.show_past(message.at_ns, message.past)

    def on_timeline_read(self, message: TimelineRead) -> None:
        """Show the time line as far as it has been read."""
        self.main.show_timeline(message.timeline)

    def on_record_said(self, message: RecordSaid) -> None:
        """Answer the key."""
        self.main.watch_recording()
        self.main.change(message.text)

    def on_source_ended(self, message: SourceEnded) -> None:
        """A source that broke ends the app; one that is through leaves its last Frame on the screen."""
        if message.error is not None:
            self.failure = message.error
            self.exit(return_code=2)
        elif self.main.view.remote:
            self.main.ended()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The list of actions is not opened by a key that belongs to what is being typed."""
        if action != "palette":
            return True
        front = self.screen_stack[-1] if self.screen_stack else None
        return bool(getattr(front, "ACTS", ())) and not getattr(front, "types", False)

    async def action_palette(self) -> None:
        """Every action of the screen in front."""
        from iotop_ai.present.palette import entries
        from iotop_ai.tui.screens.palette import PaletteScreen

        front = self.screen

        async def do(act: Act) -> None:
            await self.run_action(act.action, self if act in APP_ACTS else front)

        acts: tuple[Act, ...] = getattr(front, "ACTS", ())
        every = entries(acts, self.main.view.keymap)
        await self.push_screen(PaletteScreen(every, self.main.book, do, ascii_only=self.main.view.ascii_only))

    def action_picture(self) -> None:
        """Save a picture of the screen, and say where."""
        if self._save is None:
            self._say("failed: nothing may be written from here")
            return
        from iotop_ai.tui.picture import picture

        try:
            self._say(f"done: picture in {self._save(picture(self))}")
        except IotopError as error:
            self._say(f"failed: {error}")
        except OSError as error:
            self._say(f"failed: {error.filename or 'picture'}: {error.strerror}")

    def _say(self, text: str) -> None:
        self.main.change(text)
        self._follow()

    def on_place_clicked(self, event: PlaceClicked) -> None:
        """A click on a key of the last row is that key."""
        if event.line is event.panel.lines[-1] and (key := key_at(event.line, event.x)):
            self.simulate_key(key)

    def _look_back(self) -> Deck | None:
        """A deck over what is kept in memory; None when that is too little yet."""
        from iotop_ai.collectors.clock import Clock
        from iotop_ai.tui.deck import Deck
        from iotop_ai.tui.tape import Tape

        ring = self.keeper.ring if self.keeper is not None else None
        held = ring.recording() if ring is not None else None
        if held is None:
            return None
        # The ring has dropped what the history of its first minute would need.
        whole_ns = held.blocks[0].at_ns + int(HISTORY_S * 1e9) if held.blocks[0].offset > 1 else 0
        try:
            tape = Tape([held], shown_from_ns=whole_ns)
        except InputError:
            return None
        return Deck(tape, self, Clock(), follows=True, slots=lambda: 2 * self.size.width)

    def _come_back(self, _app: object) -> None:
        """After Ctrl-Z and fg the terminal is empty: every row is painted, changed or not."""
        self.screen.refresh()

    def _end(self, number: signal.Signals) -> None:
        if self.ended_by is None:
            # A handler that waits for ever keeps every message, also this one, from being seen.
            asyncio.get_running_loop().call_later(END_WAIT_S, self._end_by_force)
        self.ended_by = number
        self.exit(return_code=128 + number)

    def _end_by_force(self) -> None:
        """Give the terminal back, close the recording, and end the process."""
        assert self.ended_by is not None
        with contextlib.suppress(Exception):  # whatever of it fails, the rest is to be done
            if self._driver is not None:
                self._driver.stop_application_mode()
                self._driver.close()  # what is to be written is written by a thread
        if self.keeper is not None:
            self.keeper.close()
        os._exit(128 + self.ended_by)

    def hung_up(self) -> None:
        """The terminal is gone; its SIGHUP does not reach everybody (a process of another session gets none)."""
        if self.ended_by is None:
            self._end(signal.SIGHUP)

    def _fatal_error(self) -> None:
        """Keep the exception for one line after the terminal is back, instead of Textual's page of traceback."""
        self.failure = sys.exc_info()[1]
        self._close_messages_no_wait()
