"""Only tui/textual_internals/ uses private parts of Textual, and each assumption about them is true."""

from __future__ import annotations

import ast
import gc
import importlib
import inspect
import io
import re
import signal
import weakref
from functools import cache
from pathlib import Path

import pytest
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.dom import NoScreen
from textual.driver import Driver
from textual.drivers._writer_thread import WriterThread
from textual.drivers.linux_driver import LinuxDriver
from textual.drivers.web_driver import WebDriver
from textual.events import Key
from textual.filter import Monochrome, NoColor
from textual.message_pump import MessagePump

import iotop_ai.tui
from iotop_ai.tui.textual_internals.app_ends import ExceptionKeepingApp, restore_terminal
from iotop_ai.tui.textual_internals.driver import LEAVE_CODES
from iotop_ai.tui.textual_internals.ended_apps import free_ended_apps
from iotop_ai.tui.textual_internals.theme_switch import switch_textual_theme
from iotop_ai.tui.textual_internals.web_packets import START_LINE, Packet, web_driver_environment
from tests.waiting import until

TUI = Path(iotop_ai.tui.__file__).parent
OUTSIDE = [path for path in sorted(TUI.rglob("*.py")) if path.parent.name != "textual_internals"]
PUBLIC = {"_replace", "_asdict", "_fields", "_exit"}
"""The underscored methods of NamedTuple, and os._exit, which are public."""


def module_name(path: Path) -> str:
    return "iotop_ai." + ".".join(path.relative_to(TUI.parent).with_suffix("").parts).removesuffix(".__init__")


def own_names(tree: ast.ClassDef) -> set[str]:
    """The private names that the source of a class uses on ``self``."""
    on_self = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    }
    methods = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    return {name for name in on_self | methods if name.startswith("_") and not name.startswith("__")}


@cache
def private_names(cls: type) -> set[str]:
    """The private names of one class of Textual: its methods, and the attributes it sets on ``self``."""
    names = {name for name in vars(cls) if name.startswith("_")}
    return names | set(re.findall(r"self\.(_[a-z]\w*)\b", inspect.getsource(cls)))


def textual_names(cls: type) -> set[str]:
    """The private names of a class's Textual bases."""
    return {name for base in cls.__mro__ if base.__module__.startswith("textual.") for name in private_names(base)}


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: str(path.relative_to(TUI)))
def test_no_other_file_uses_a_private_attribute_of_textual(path: Path) -> None:
    tree = ast.parse(path.read_text())
    foreign = {
        f"{ast.unparse(node)}, line {node.lineno}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and node.attr not in PUBLIC
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
    }
    assert foreign == set()
    modules = {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not [name for name in modules if name.startswith(("textual._", "textual.drivers"))]


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: str(path.relative_to(TUI)))
def test_no_class_of_ours_reuses_a_private_name_of_its_textual_base(path: Path) -> None:
    module = importlib.import_module(module_name(path))
    trees = {node.name: node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)}
    for cls in vars(module).values():
        if isinstance(cls, type) and cls.__module__ == module.__name__ and issubclass(cls, MessagePump | Driver):
            assert own_names(trees[cls.__name__]) & textual_names(cls) == set(), cls


async def test_a_batch_of_updates_is_counted() -> None:
    app = App[None]()
    assert not app._batch_count
    with app.batch_update():
        assert app._batch_count


async def test_the_driver_is_found_and_an_exit_is_noted() -> None:
    app = App[None]()
    restore_terminal(app)  # without a driver, this does nothing
    async with app.run_test():
        assert isinstance(app._driver, Driver)
        assert not app._exit
        app.exit()
        assert app._exit


async def test_an_exception_ends_the_app_and_is_stored() -> None:
    class Failing(ExceptionKeepingApp):
        def on_key(self, event: Key) -> None:
            raise ZeroDivisionError("a key")

    app = Failing()
    with pytest.raises(ZeroDivisionError):
        async with app.run_test() as pilot:
            await pilot.press("x")
    assert isinstance(app.failure, ZeroDivisionError)


async def test_the_first_exception_is_kept_if_another_follows_while_the_app_closes() -> None:
    class Failing(ExceptionKeepingApp):
        def on_key(self, event: Key) -> None:
            for error in (ZeroDivisionError("a key"), NoScreen("node has no screen")):
                try:
                    raise error
                except Exception as caught:
                    self._handle_exception(caught)

    app = Failing()
    with pytest.raises(ZeroDivisionError):
        async with app.run_test() as pilot:
            await pilot.press("x")
    assert isinstance(app.failure, ZeroDivisionError)


async def test_an_exception_outside_of_a_handler_ends_the_app() -> None:
    async def session() -> None:
        app = ExceptionKeepingApp()
        async with app.run_test() as pilot:
            app._handle_exception(ZeroDivisionError("a callback"))
            await pilot.pause()

    with pytest.raises(ZeroDivisionError):
        await session()


async def test_a_theme_removes_the_filters_of_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = App[None]()
    async with app.run_test():
        assert any(isinstance(one, NoColor | Monochrome) for one in app.get_line_filters())
        switch_textual_theme(app, "light")
        assert not any(isinstance(one, NoColor | Monochrome) for one in app.get_line_filters())


def test_the_linux_driver_has_the_parts_that_our_driver_replaces() -> None:
    source = inspect.getsource(LinuxDriver)
    for name in ("_key_thread", "_writer_thread", "_file", "fileno", "exit_event", "attrs_before"):
        assert f"self.{name}" in source
    assert "self._loop" in inspect.getsource(Driver)
    assert "self._debug" in inspect.getsource(Driver)


async def test_a_forced_end_leaves_the_terminal_with_all_codes_of_textual() -> None:
    written: list[str] = []
    kept = {number: signal.getsignal(number) for number in (signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH)}
    driver = LinuxDriver(App[None]())
    driver._in_band_window_resize = True
    driver.write = written.append  # type: ignore[method-assign]
    driver.stop_application_mode()
    for number, handler in kept.items():
        signal.signal(number, handler)
    assert set(written) == {f"\x1b{code}" for code in LEAVE_CODES.split("\x1b")[1:]}


def test_the_output_thread_flushes_each_text_after_which_its_queue_is_empty() -> None:
    """Otherwise our driver would leave every text to this thread."""
    calls: list[str] = []

    class File(io.StringIO):
        def write(self, text: str) -> int:
            calls.append(text)
            return len(text)

        def flush(self) -> None:
            calls.append("flush")

    thread = WriterThread(File())
    thread.start()
    thread.write("x")
    until(lambda: calls == ["x", "flush"], "the flush", 20)
    thread.stop()


def test_the_cache_of_keys_keeps_a_parser_until_ended_apps_are_freed() -> None:
    parser = XTermParser()
    parser._parse_extended_key("\x1b[97u")
    kept = weakref.ref(parser)
    del parser
    gc.collect()
    assert kept() is not None
    free_ended_apps()
    assert kept() is None


def test_the_web_driver_writes_the_expected_packets() -> None:
    sent: list[bytes] = []
    driver = WebDriver.__new__(WebDriver)
    driver._write = sent.append  # type: ignore[method-assign]
    driver.write("é")
    driver.write_meta({"type": "exit"})
    assert sent == [Packet(b"D", "é".encode()).encoded(), Packet(b"M", b'{"type": "exit"}').encoded()]
    assert repr(START_LINE).strip("b'") in inspect.getsource(WebDriver)


def test_the_web_driver_takes_its_size_from_the_environment() -> None:
    environment = web_driver_environment(100, 30)
    assert (environment["COLUMNS"], environment["ROWS"]) == ("100", "30")
    source = inspect.getsource(WebDriver.__init__)
    assert 'os.environ.get("COLUMNS"' in source
    assert 'os.environ.get("ROWS"' in source
