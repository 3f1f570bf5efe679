"""The terminal driver. Its input thread sleeps until a key arrives. The driver does not clear a first frame that is
already on the terminal. It needs its output thread only for text that the terminal does not accept at once.

Textual's input thread wakes ten times a second, which costs more than drawing a quiet screen. Waking Textual's output
thread for each refresh takes 0.5 of 10 ms/s of CPU at 120x40.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import select
import signal
import termios
import threading
from codecs import getincrementaldecoder
from collections.abc import Iterable
from typing import Any, Literal, TextIO

from textual import constants
from textual._xterm_parser import XTermParser
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Key

from iotop_ai.tui.job_control import in_background
from iotop_ai.tui.terminal_output import open_again, write_in_time
from iotop_ai.tui.textual_internals.escape_keys import ESCAPE, EscapeSplitter
from iotop_ai.tui.textual_internals.version import installed_version

ENTER_ALTERNATE = "\x1b[?1049h"
LEAVE_CODES = (
    "\x1b[?2004l\x1b[?7h\x1b[?2048l\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[<u\x1b[?1049l\x1b[?25h\x1b[?1004l"
)
"""All codes with which Textual leaves a terminal."""
LAST_ROW = "\x1b[0m\x1b[9999;1H\x1b[2K"
"""Moves to the last row. On a terminal without an alternate screen, the shell then continues below the last frame, not
inside it.
"""
KNOWN_VERSIONS = ("8.2.",)
"""The releases of Textual whose input thread was examined, and with which this driver was tested."""

HIGHEST_VMIN = 255
"""With this VMIN, poll() reports the terminal as readable only when this many characters wait."""
POLL_MS = 25
"""The polling interval in ms for a terminal on which poll() cannot wait."""
LEAVE_WAIT_S = 1.0
"""How long, in seconds, a forced end waits for a terminal that takes no output."""
ESCAPE_WAIT_MS = int(constants.ESCAPE_DELAY * 1000) + 5
"""How long, in ms, the rest of a sequence may take to arrive after its Escape."""


class TerminalFile:
    """A terminal's file that drops writes after the terminal was closed, and counts the texts that it has flushed.

    Otherwise, Textual's output thread would end with the error, and the app would wait forever for room in its queue.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self.flushed = 0
        """The number of texts that were flushed or dropped."""
        self._unflushed = 0

    def write(self, text: str | bytes) -> int:
        """Write the text, or drop it if the terminal is closed. Bytes are the rest of a text, which may begin within a
        character; they only come after a flush.
        """
        with contextlib.suppress(OSError):
            if isinstance(text, bytes):
                self._file.buffer.write(text)
            else:
                self._file.write(text)
        self._unflushed += 1
        return len(text)

    def flush(self) -> None:
        """Flush the file, unless the terminal is closed."""
        with contextlib.suppress(OSError):
            self._file.flush()
        count, self._unflushed = self._unflushed, 0
        self.flushed += count

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class MonitorDriver(LinuxDriver):
    """A LinuxDriver whose input thread sleeps in poll() until there is input or ``disable_input`` ends the thread.

    It writes a text at once, as far as the terminal takes it, if the output thread has nothing left to write. The
    output thread writes the rest, so the app waits for a terminal that is stopped (Ctrl+S), or whose connection hangs,
    only when that thread's queue is full.
    """

    entered: bool = False
    """Whether the terminal already shows the alternate screen."""

    attributes_before: list[Any] | None = None
    """The terminal's attributes as the user's shell left them; None if they were not changed before the app started."""

    shared: bool = False
    """Whether another program can read the same terminal and take some of the keys, such as an ssh whose output is
    shown.
    """

    def __init__(self, app: Any, *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None):
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._stop_event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._input_ended = False
        self._phase: Literal["new", "active", "suspended", "left"] = "new"
        """Whether the app has not yet taken over the terminal, controls it, has lent it to the shell until the app
        continues, or has given it back.
        """
        self._own_attributes: list[Any] | None = None
        """The terminal's attributes as this driver has set them; None if it could not."""
        self._skip_entry = type(self).entered
        file: TextIO = self._file  # type: ignore[assignment]
        self._terminal = TerminalFile(file)
        self._file = self._terminal  # type: ignore[assignment]
        self._write_lock = threading.RLock()  # a signal's handler writes, too, perhaps during a write
        self._sent = 0
        """The number of texts for the terminal so far, including those that still wait in the output thread's queue."""
        self._direct = _open_again(file)
        """A descriptor of the terminal that never waits; None if only the output thread can write."""

    def _get_terminal_size(self) -> tuple[int, int]:
        try:
            size = os.get_terminal_size(self.fileno)
        except OSError:
            return super()._get_terminal_size()
        return size.columns or 80, size.lines or 24

    def write(self, data: str) -> None:
        """Write to the terminal, but skip the first entry into the alternate screen if the terminal shows it
        already. While the app is suspended, drop the text.
        """
        if self._phase == "suspended":
            return
        if self._skip_entry and data == ENTER_ALTERNATE:
            self._skip_entry = False
            return
        with self._write_lock:
            is_drained = self._terminal.flushed == self._sent
            self._sent += 1
            rest = self._write_now(data) if is_drained else data
            if rest:
                super().write(rest)  # type: ignore[arg-type]
            else:
                self._terminal.flushed += 1

    def _write_now(self, data: str) -> str | bytes:
        """Write as much as the terminal takes at once; return the rest, "" or b"" if there is none."""
        if self._direct is None or self._writer_thread is None:
            return data
        content = data.encode(self._terminal.encoding, self._terminal.errors)
        try:
            return content[os.write(self._direct, content) :]
        except BlockingIOError:
            return data
        except OSError:  # the terminal is closed
            return b""

    def close(self) -> None:
        """Close the driver and its own descriptor of the terminal."""
        direct, self._direct = self._direct, None
        if direct is not None:
            os.close(direct)
        super().close()

    def start_application_mode(self) -> None:
        """Take over the terminal, unless the app ends. The attributes to restore at the end are those of the shell, not
        of the first frame.
        """
        if self._app._exit:
            return
        if self._direct is None:  # a suspension has closed it
            self._direct = _open_again(self._terminal)
        with contextlib.suppress(BlockingIOError):  # clears the event by which a suspension ended the input thread
            os.eventfd_read(self._stop_event)
        self._input_ended = False
        writer_before, self._phase = self._writer_thread, "new"
        super().start_application_mode()  # type: ignore[no-untyped-call]
        if self._writer_thread is writer_before:  # another program controls the terminal
            self._phase = "suspended"
            return
        self._phase = "active"
        if self.shared:
            self._keep_keys()
        self._own_attributes = self._attributes()
        if type(self).attributes_before is not None:
            self.attrs_before = type(self).attributes_before

    def _attributes(self) -> list[Any] | None:
        try:
            return termios.tcgetattr(self.fileno)
        except termios.error:
            return None

    def _keep_keys(self) -> None:
        """Hide keys from poll(), so that a program that sleeps in poll(), such as ssh, leaves the keys to this program,
        which reads without waiting.

        cli has opened the terminal a second time for this program, so that other programs' descriptors do not become
        non-blocking.
        """
        with contextlib.suppress(termios.error, OSError):
            attributes = termios.tcgetattr(self.fileno)
            attributes[6][termios.VMIN], attributes[6][termios.VTIME] = HIGHEST_VMIN, 0
            os.set_blocking(self.fileno, False)
            termios.tcsetattr(self.fileno, termios.TCSANOW, attributes)

    def run_input_thread(self) -> None:
        """Read keys until ``disable_input``. Between keys, the thread sleeps in poll(); if ``shared``, it wakes every
        POLL_MS.
        """
        parser = XTermParser(self._debug)
        # For a user who has bound a key with Alt, a key that follows an Escape quickly counts as Alt with that key.
        escapes = None if getattr(self._app, "uses_alt", False) else EscapeSplitter()
        decode = getincrementaldecoder("utf-8")("replace").decode
        poll = select.poll()
        if not self.shared:
            poll.register(self.fileno, select.POLLIN)
        poll.register(self._stop_event, select.POLLIN)
        idle_timeout_ms = POLL_MS if self.shared else None
        timeout_ms = idle_timeout_ms
        while True:
            ready = dict(poll.poll(timeout_ms))
            if self._stop_event in ready:
                return
            timeout_ms = idle_timeout_ms
            raw: bytes | None = None
            if self.fileno in ready or self.shared:
                try:
                    raw = os.read(self.fileno, 4096)
                except BlockingIOError:
                    pass
                except OSError:
                    raw = b""
                if raw == b"":  # the terminal is closed
                    if self.fileno in ready:
                        poll.unregister(self.fileno)
                    self._loop.call_soon_threadsafe(self._report_hangup)
                    continue
                if raw:
                    text = decode(raw)
                    self._feed(parser, [text] if escapes is None else escapes.feed(text))
                    timeout_ms = ESCAPE_WAIT_MS
            if not raw and escapes is not None:
                self._feed(parser, escapes.flush())
            for event in parser.tick():
                self.process_message(event)

    def _feed(self, parser: XTermParser, pieces: Iterable[str]) -> None:
        for piece in pieces:
            if piece == ESCAPE:
                self.process_message(Key("escape", ESCAPE))
                continue
            for event in parser.feed(piece):
                self.process_message(event)

    def _report_hangup(self) -> None:
        handle_hangup = getattr(self._app, "handle_hangup", None)
        if handle_hangup is not None:
            handle_hangup()

    def disable_input(self) -> None:
        """End the input thread, and wait for it. Only the first call acts, because Textual drops unread input each
        time.

        Textual calls it again while it shuts down, when the terminal belongs to the shell and the user may already
        type.
        """
        if self._input_ended:
            return
        self._input_ended = True
        os.eventfd_write(self._stop_event, 1)
        super().disable_input()

    def stop_application_mode(self) -> None:
        """Give the terminal back, and end the input thread even if the terminal is closed. Does nothing if the terminal
        already belongs to the shell, because the app is suspended.
        """
        if self._phase == "suspended":
            return
        if in_background(self.fileno):  # the shell has set its own attributes
            self.attrs_before = None
        try:
            self.write(LAST_ROW)
            super().stop_application_mode()
        finally:
            self.disable_input()
            self._phase = "left"

    def leave_by_force(self) -> None:
        """Give the terminal back without the output thread and the lock, for which the app may wait forever."""
        if self._phase in ("suspended", "left"):
            return
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTTOU,))  # it would stop a background process
        attributes = self.attrs_before or type(self).attributes_before
        if attributes is not None and not in_background(self.fileno):
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self.fileno, termios.TCSANOW, attributes)
        write_in_time(self._terminal.fileno(), LAST_ROW + LEAVE_CODES, LEAVE_WAIT_S)

    def _sigtstp_application(self, *_: object) -> None:
        """Give the terminal to the shell, and stop this process."""
        if self._auto_restart and self._phase == "active":
            self._suspend()
        os.kill(os.getpid(), signal.SIGSTOP)

    def _suspend(self) -> None:
        self.suspend_application_mode()
        self._phase, self._must_signal_resume = "suspended", True

    def _sigcont_application(self, *_: object) -> None:
        """Let the event loop handle the continuation, because this handler may interrupt a write or another handler."""
        if self._auto_restart and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._continue)

    def _continue(self) -> None:
        """Show the app again after SIGCONT, also if the stop came from outside (kill -STOP), or if there was none.

        A signal that ends the app has been handled by now, because shells send it before SIGCONT.
        """
        if self._app._exit:
            return
        if in_background(self.fileno):  # a shell's kill and bg continue a job without giving it the terminal
            os.kill(os.getpid(), signal.SIGSTOP)
            return
        try:
            if self._phase == "active" and self._attributes() == self._own_attributes:
                signal.raise_signal(signal.SIGWINCH)  # its handler reads the size, which may have changed meanwhile
                self._app.post_message(self.SignalResume())
                return
            if self._phase == "active":  # a shell has used the terminal meanwhile
                self._suspend()
            if self._phase == "suspended":
                self.start_application_mode()
        except Exception as error:  # asyncio would only log it
            self._app._handle_exception(error)


def _open_again(file: TextIO | TerminalFile) -> int | None:
    """Open a pseudo-terminal a second time, for writes that do not wait; None for another file, or if that fails.

    A serial line takes long to send a text, so the output thread must write there.
    """
    try:
        is_pty = os.ttyname(file.fileno()).startswith("/dev/pts/")
        return open_again(file.fileno()) if is_pty else None
    except (OSError, ValueError):
        return None


def driver_class(
    entered: bool = False,
    attributes_before: list[Any] | None = None,
    version: str | None = None,
    *,
    shared: bool = False,
) -> type[Driver] | None:
    """MonitorDriver if it fits the installed Textual; otherwise None, and Textual uses its standard driver.

    entered, attributes_before, shared: become class attributes of a subclass, because Textual makes the instance.
    version: the version of Textual; None for the installed one.
    """
    version = version or installed_version()
    if not version.startswith(KNOWN_VERSIONS) or not _fits(LinuxDriver):
        return None
    attributes = {"entered": entered, "attributes_before": attributes_before, "shared": shared, "__doc__": None}
    return type("MonitorDriver", (MonitorDriver,), attributes)


def _fits(base: type) -> bool:
    """Whether the class has the methods and attributes on which MonitorDriver relies."""
    for name in ("run_input_thread", "disable_input", "start_application_mode", "_get_terminal_size"):
        method = getattr(base, name, None)
        if method is None or list(inspect.signature(method).parameters) != ["self"]:
            return False
    init_names = base.__init__.__code__.co_names  # type: ignore[misc]
    handlers = ("_sigtstp_application", "_sigcont_application")
    return all(name in init_names for name in (*handlers, "exit_event", "fileno", "attrs_before"))
