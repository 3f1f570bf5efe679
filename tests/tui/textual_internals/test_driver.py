"""The terminal driver.

The input thread sleeps until a key comes. All keys arrive, even a single Escape, and the thread can end at once. What
the terminal takes at once is written without the output thread, and every text arrives in its order.
"""

import asyncio
import os
import pty
import signal
import sys
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
import textual
from textual import events
from textual.app import App
from textual.drivers._writer_thread import WriterThread

from iotop_ai.tui.textual_internals import driver as driver_module
from iotop_ai.tui.textual_internals.driver import MonitorDriver, driver_class
from iotop_ai.tui.textual_internals.version import installed_version
from tests.rigs.pty_pair import readable


@pytest.fixture
def handlers() -> Iterator[None]:
    kept = {number: signal.getsignal(number) for number in (signal.SIGTSTP, signal.SIGCONT)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


class Listening(MonitorDriver):
    def process_message(self, message) -> None:
        self.seen.append(message)


def listening(app, handle: int) -> Listening:
    """A driver of the app, whose thread reads keys from this descriptor."""
    driver = Listening(app, mouse=False)
    driver.seen = []
    driver.fileno = handle
    driver._key_thread = threading.Thread(target=driver.run_input_thread)
    driver._key_thread.start()
    return driver


async def until(condition, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.005)


async def test_keys_arrive_and_the_thread_ends_at_once(handlers: None) -> None:
    reading, writing = os.pipe()
    driver = listening(App(), reading)
    thread = driver._key_thread
    os.write(writing, "aé\x1b[A".encode())
    await until(lambda: len(driver.seen) == 3)
    assert [event.key for event in driver.seen] == ["a", "é", "up"]
    os.write(writing, b"\x1b")
    await until(lambda: len(driver.seen) == 4)
    assert driver.seen[3].key == "escape"
    assert all(isinstance(event, events.Key) for event in driver.seen)
    start = time.monotonic()
    driver.disable_input()
    assert not thread.is_alive()
    assert time.monotonic() - start < 5  # if it were not woken up, it would sleep forever
    os.close(writing)
    os.close(reading)


@pytest.mark.parametrize(
    ("chunks", "keys"),
    [
        (["\x1bq"], ["escape", "q"]),
        (["\x1b>"], ["escape", "greater_than_sign"]),
        (["\x1b", "1"], ["escape", "1"]),
        (["\x1b\x1b", "r"], ["escape", "escape", "r"]),
        (["x\x1b[A\x1bb"], ["x", "up", "escape", "b"]),
        (["\x1b", "[", "B"], ["down"]),
        (["\x1b[1;", "5C\x1bOP"], ["ctrl+right", "f1"]),
        (["\x1b["], ["escape", "left_square_bracket"]),
        (["\x1b\t"], ["escape", "tab"]),
    ],
)
async def test_an_escape_and_the_key_right_after_it_are_two_keys(
    handlers: None, monkeypatch: pytest.MonkeyPatch, chunks: list[str], keys: list[str]
) -> None:
    monkeypatch.setattr(driver_module, "ESCAPE_WAIT_MS", 500)  # on a busy machine the parts of the input may come late
    reading, writing = os.pipe()
    driver = listening(App(), reading)
    for chunk in chunks:
        os.write(writing, chunk.encode())
        await asyncio.sleep(0.01)
    await until(lambda: len(driver.seen) >= len(keys))
    await asyncio.sleep(0.6)
    assert [event.key for event in driver.seen] == keys
    driver.disable_input()
    os.close(writing)
    os.close(reading)


async def test_alt_with_a_letter_is_one_key_where_it_is_bound(handlers: None) -> None:
    class Alt(App):
        uses_alt = True

    reading, writing = os.pipe()
    driver = listening(Alt(), reading)
    os.write(writing, b"\x1bq")
    await until(lambda: driver.seen)
    assert [event.key for event in driver.seen] == ["alt+q"]
    driver.disable_input()
    os.close(writing)
    os.close(reading)


async def test_keys_for_the_shell_are_left_to_it(handlers: None) -> None:
    """Keys that are typed when the shell has its screen back do not belong to the app."""
    ours, theirs = pty.openpty()

    class Writer:
        def write(self, data: str) -> None:
            if data == "\x1b[?1049l":
                os.write(ours, b"ls\n")

    driver = listening(App(), theirs)
    thread = driver._key_thread
    driver.attrs_before = None
    driver._direct = None
    driver._writer_thread = Writer()
    driver.stop_application_mode()
    assert not thread.is_alive()
    assert readable(theirs, 1)
    assert os.read(theirs, 100) == b"ls\n"
    os.close(ours)
    os.close(theirs)


async def test_a_closed_terminal_causes_no_busy_loop(handlers: None) -> None:
    reading, writing = os.pipe()
    driver = listening(App(), reading)
    thread = driver._key_thread
    os.close(writing)
    before = time.process_time()
    await asyncio.sleep(0.3)
    assert time.process_time() - before < 0.1
    assert thread.is_alive()
    driver.disable_input()
    assert not thread.is_alive()
    os.close(reading)


def test_another_version_of_textual_uses_its_own_driver() -> None:
    assert driver_class(version="9.0.0") is None
    made = driver_class(True, [1])
    assert made is not None
    assert issubclass(made, MonitorDriver)
    assert made.entered
    assert not MonitorDriver.entered


async def test_the_alternate_screen_is_entered_once(handlers: None) -> None:
    written = []

    class Writer:
        def write(self, data: str) -> None:
            written.append(data)

    made = driver_class(True)
    driver = made(App())
    driver._direct = None
    driver._writer_thread = Writer()
    for data in ("\x1b[?1049h", "x", "\x1b[?1049h"):
        driver.write(data)
    assert written == ["x", "\x1b[?1049h"]


def test_the_checked_version_is_that_of_textual() -> None:
    assert installed_version() == textual.__version__


@contextmanager
def on_a_terminal() -> Iterator[tuple[MonitorDriver, int, int]]:
    """A driver whose output is a pseudo-terminal, with the terminal's and the program's descriptor."""
    ours, theirs = pty.openpty()
    attributes = termios.tcgetattr(theirs)
    attributes[1] &= ~termios.OPOST
    termios.tcsetattr(theirs, termios.TCSANOW, attributes)
    with open(theirs, "w", encoding="utf-8") as file, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "__stderr__", file)
        driver = MonitorDriver(App(), mouse=False)
        driver._writer_thread = WriterThread(driver._file)
        driver._writer_thread.start()
        yield driver, ours, theirs
        driver._writer_thread.stop()
    os.close(ours)


def read_all(handle: int, length: int) -> bytes:
    """Read this many bytes, and fail if they do not arrive."""
    content = b""
    while len(content) < length:
        assert readable(handle, 20), content
        content += os.read(handle, 65536)
    return content


async def test_a_text_is_written_without_the_output_thread(handlers: None) -> None:
    with on_a_terminal() as (driver, ours, _theirs):
        queued: list[str] = []
        driver._writer_thread.write = queued.append
        driver.write("é" * 100)
        assert os.read(ours, 1000) == "é".encode() * 100
        assert queued == []


async def test_texts_for_a_stopped_terminal_wait_and_keep_their_order(handlers: None) -> None:
    """The app does not wait for a user who has pressed Ctrl+S."""
    with on_a_terminal() as (driver, ours, theirs):
        driver.write("a")
        termios.tcflow(theirs, termios.TCOOFF)
        begin = time.monotonic()
        for text in "bcde":
            driver.write(text)
        assert time.monotonic() - begin < 5
        assert os.read(ours, 100) == b"a"
        assert not readable(ours, 0.1)
        termios.tcflow(theirs, termios.TCOON)
        driver.write("f")
        assert read_all(ours, 5) == b"bcdef"
        await until(lambda: driver._terminal.flushed == 6)
        driver.write("g")
        assert os.read(ours, 100) == b"g"


async def test_the_app_does_not_wait_for_a_connection_that_hangs(handlers: None) -> None:
    """What the terminal does not take at once follows later, cut within a character or not."""
    with on_a_terminal() as (driver, ours, _theirs):
        begin = time.monotonic()
        for number in range(20):
            driver.write(f"{number:02}" + "─" * 4000)
        assert time.monotonic() - begin < 5
        expected = "".join(f"{number:02}" + "─" * 4000 for number in range(20)).encode()
        assert read_all(ours, len(expected)) == expected
        await until(lambda: driver._terminal.flushed == driver._sent)
        driver.write("end")
        assert os.read(ours, 100) == b"end"


async def test_a_signal_during_a_write_that_waits_may_write_too(handlers: None) -> None:
    """The handler of SIGTSTP writes, while the app may be waiting for room in the full queue."""
    ours, theirs = pty.openpty()
    handled: list[int] = []

    def write_again(number: int, _frame: object) -> None:
        driver.write("again")
        handled.append(number)

    kept = signal.signal(signal.SIGUSR1, write_again)
    with suppress(OSError), open(theirs, "w", encoding="utf-8") as file, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "__stderr__", file)
        driver = MonitorDriver(App(), mouse=False)
        driver._writer_thread = WriterThread(driver._file)
        driver._writer_thread.start()
        signaller = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGUSR1))
        closer = threading.Timer(1.0, os.close, (ours,))
        signaller.start()
        closer.start()
        for _ in range(60):
            driver.write("x" * 4000)
        signaller.join()
        closer.join()
        driver._writer_thread.stop()
        assert handled == [signal.SIGUSR1]
        assert driver._sent == 61
    signal.signal(signal.SIGUSR1, kept)


async def test_texts_for_a_closed_terminal_are_dropped(handlers: None, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    with suppress(OSError), open(theirs, "w", encoding="utf-8") as file:  # the last flush fails
        monkeypatch.setattr(sys, "__stderr__", file)
        driver = MonitorDriver(App(), mouse=False)
        driver._writer_thread = WriterThread(driver._file)
        driver._writer_thread.start()
        os.close(ours)
        for _ in range(100):  # more than the queue of the output thread holds
            driver.write("x")
        driver._writer_thread.stop()
        assert driver._terminal.flushed == driver._sent


async def test_another_file_is_left_to_the_output_thread(handlers: None, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    with open(writing, "w", encoding="utf-8") as file:
        monkeypatch.setattr(sys, "__stderr__", file)
        driver = MonitorDriver(App(), mouse=False)
        queued: list[str] = []
        driver._writer_thread = WriterThread(driver._file)
        driver._writer_thread.write = queued.append
        driver.write("x")
    assert queued == ["x"]
    os.close(reading)


async def test_a_stop_and_a_suspension_leave_one_thread_of_each_kind(
    handlers: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stop from outside leaves the terminal to the app. SIGCONT follows both, and also comes without a stop."""
    ours, theirs = pty.openpty()
    with open(theirs, "w", encoding="utf-8") as file:
        monkeypatch.setattr(sys, "__stderr__", file)
        monkeypatch.setattr(sys, "__stdin__", file)
        app = App()
        driver = MonitorDriver(app, mouse=False)
        driver.start_application_mode()
        for suspended in (False, True):
            if suspended:
                driver._suspend()
            os.read(ours, 65536)
            messages = app._message_queue.qsize()
            os.kill(os.getpid(), signal.SIGCONT)
            await until(lambda messages=messages: app._message_queue.qsize() > messages + 1)
            names = [thread.name for thread in threading.enumerate()]
            assert [names.count(name) for name in ("textual-input", "textual-output")] == [1, 1]
            assert driver._direct is not None
        driver.stop_application_mode()
        driver.close()
    os.close(ours)
