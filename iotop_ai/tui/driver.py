"""The terminal driver: input that sleeps until a key comes, and an entry that repaints nothing.

Textual's own input thread wakes ten times a second, which costs more than drawing a quiet screen.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import select
import termios
from codecs import getincrementaldecoder
from collections.abc import Iterable
from typing import Any, TextIO

from textual import constants
from textual._xterm_parser import XTermParser
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Key

from iotop_ai.tui.escapes import ESCAPE, Escapes
from iotop_ai.tui.textual_version import installed_version

ENTER_ALTERNATE = "\x1b[?1049h"
LAST_ROW = "\x1b[0m\x1b[9999;1H\x1b[2K"
"""Where there is no alternate screen, what the shell says next comes below the last picture instead of amid it."""
KNOWN_VERSIONS = ("8.2.",)
"""Textual releases whose input thread has been read and tried with ours in its place."""

FEW = 255
"""As VMIN: so many characters must wait before the kernel tells anybody who polls that the terminal can be read."""
LOOK_MS = 25
"""How often a terminal is looked at that tells nobody."""
ESCAPE_WAIT_MS = int(constants.ESCAPE_DELAY * 1000) + 5
"""How long a lone Escape may still turn out to be the start of a sequence."""


class GoneFile:
    """A terminal's file to which writing is no error when the terminal has gone.

    Textual's output thread would end with that error, and the app wait for ever for room in its queue. A hang-up
    also brings a SIGCONT, upon which Textual begins to write anew.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> int:
        """Write, or drop."""
        with contextlib.suppress(OSError):
            self._file.write(text)
        return len(text)

    def flush(self) -> None:
        """Write out, or drop."""
        with contextlib.suppress(OSError):
            self._file.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class QuietDriver(LinuxDriver):
    """A LinuxDriver whose input thread blocks in poll() until there is input or ``disable_input`` ends it."""

    entered: bool = False
    """Set by the front when the terminal shows the alternate screen already: it is then not entered again."""

    attributes_before: list[Any] | None = None
    """The terminal's attributes as the user's shell left them, where they were changed before the app started."""

    shared: bool = False
    """Whether a program before our pipe may read the same terminal, as ssh does: it would take every other key."""

    def __init__(self, app: Any, *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None):
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._end = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._skip_entry = type(self).entered
        self._file = GoneFile(self._file)  # type: ignore[arg-type, assignment]

    def _get_terminal_size(self) -> tuple[int, int]:
        try:
            size = os.get_terminal_size(self.fileno)
        except OSError:
            return super()._get_terminal_size()
        return size.columns or 80, size.lines or 24

    def write(self, data: str) -> None:
        """Write to the terminal; the first entry into the alternate screen is left out where it is shown already."""
        if self._skip_entry and data == ENTER_ALTERNATE:
            self._skip_entry = False
            return
        super().write(data)

    def start_application_mode(self) -> None:
        """Take the terminal; what is restored later is what the shell had, not what the first frame needed.

        A hang-up while the app leaves brings a SIGCONT, which must not begin anew what nobody would end again.
        """
        if self._app._exit:
            return
        with contextlib.suppress(BlockingIOError):  # what ended the input before a suspension
            os.eventfd_read(self._end)
        super().start_application_mode()  # type: ignore[no-untyped-call]
        if self.shared:
            self._keep_keys()
        if type(self).attributes_before is not None:
            self.attrs_before = type(self).attributes_before

    def _keep_keys(self) -> None:
        """Let no poll() see a key: who sleeps in it, as ssh does, leaves them to us, who look without waiting.

        The descriptor is our own (the front has opened the terminal anew), so nobody else becomes non-blocking.
        """
        with contextlib.suppress(termios.error, OSError):
            attributes = termios.tcgetattr(self.fileno)
            attributes[6][termios.VMIN], attributes[6][termios.VTIME] = FEW, 0
            os.set_blocking(self.fileno, False)
            termios.tcsetattr(self.fileno, termios.TCSANOW, attributes)

    def run_input_thread(self) -> None:
        """Read keys until ``disable_input``; between them the thread sleeps, for ever where it is told of keys."""
        parser = XTermParser(self._debug)
        # Who has bound a key with Alt gets it, and a fast key behind an Escape with it.
        escapes = None if getattr(self._app, "uses_alt", False) else Escapes()
        decode = getincrementaldecoder("utf-8")("replace").decode
        poll = select.poll()
        if not self.shared:
            poll.register(self.fileno, select.POLLIN)
        poll.register(self._end, select.POLLIN)
        rest_ms = LOOK_MS if self.shared else None
        timeout_ms = rest_ms
        while True:
            ready = dict(poll.poll(timeout_ms))
            if self._end in ready:
                return
            timeout_ms = rest_ms
            raw: bytes | None = None
            if self.fileno in ready or self.shared:
                try:
                    raw = os.read(self.fileno, 4096)
                except BlockingIOError:
                    pass
                except OSError:
                    raw = b""
                if raw == b"":  # the terminal is gone
                    if self.fileno in ready:
                        poll.unregister(self.fileno)
                    self._loop.call_soon_threadsafe(self._hung_up)
                    continue
                if raw:
                    text = decode(raw)
                    self._take(parser, [text] if escapes is None else escapes.feed(text))
                    timeout_ms = ESCAPE_WAIT_MS
            if not raw and escapes is not None:
                self._take(parser, escapes.late())
            for event in parser.tick():
                self.process_message(event)

    def _take(self, parser: XTermParser, pieces: Iterable[str]) -> None:
        for piece in pieces:
            if piece == ESCAPE:
                self.process_message(Key("escape", ESCAPE))
                continue
            for event in parser.feed(piece):
                self.process_message(event)

    def _hung_up(self) -> None:
        hung_up = getattr(self._app, "hung_up", None)
        if hung_up is not None:
            hung_up()

    def disable_input(self) -> None:
        """End the input thread and wait for it."""
        if self.exit_event.is_set():
            return
        os.eventfd_write(self._end, 1)
        super().disable_input()

    def stop_application_mode(self) -> None:
        """Give the terminal back; the input thread ends even when the terminal is gone and takes no more writes."""
        try:
            self.write(LAST_ROW)
            super().stop_application_mode()
        finally:
            # Once it has ended, the input belongs to the shell: ending it again would drop what is typed for that.
            if self._key_thread is not None and self._key_thread.is_alive():
                self.disable_input()


def driver_class(
    entered: bool = False,
    attributes_before: list[Any] | None = None,
    version: str | None = None,
    *,
    shared: bool = False,
) -> type[Driver] | None:
    """The quiet driver where this Textual is one that it fits, else None: Textual then takes its own.

    entered, attributes_before, shared: as of QuietDriver; kept in a subclass, because Textual makes the instance.
    version: of Textual, None as it is installed.
    """
    version = version or installed_version()
    if not version.startswith(KNOWN_VERSIONS) or not _fits(LinuxDriver):
        return None
    kept = {"entered": entered, "attributes_before": attributes_before, "shared": shared, "__doc__": None}
    return type("QuietDriver", (QuietDriver,), kept)


def _fits(base: type) -> bool:
    for name in ("run_input_thread", "disable_input", "start_application_mode", "_get_terminal_size"):
        method = getattr(base, name, None)
        if method is None or list(inspect.signature(method).parameters) != ["self"]:
            return False
    source_names = base.__init__.__code__.co_names  # type: ignore[misc]
    return all(name in source_names for name in ("exit_event", "fileno", "attrs_before"))
