"""The bare command: the live screen."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import FrameType

from iotop_ai.cli.first_frame import FirstFrame
from iotop_ai.cli.lean import without_tls
from iotop_ai.cli.log import quiet_log
from iotop_ai.cli.remembered import Remembered, as_left, device_as_left, keep, left, recall
from iotop_ai.cli.terminal import Terminal, terminal
from iotop_ai.collectors.clock import Clock
from iotop_ai.collectors.log import prepare_now
from iotop_ai.collectors.state_folder import state_folder, state_path
from iotop_ai.model.errors import UsageError
from iotop_ai.model.frame import Frame
from iotop_ai.model.record import NamedTuple
from iotop_ai.model.settings import Settings
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.model.typed import TYPE_CHECKING, Any
from iotop_ai.pipeline import frames, unjudged
from iotop_ai.present.view import View

if TYPE_CHECKING:
    import signal as _signal

    from iotop_ai.sources.live import LiveSource
    from iotop_ai.store.recording import Source
    from iotop_ai.tui.app import MonitorApp
    from iotop_ai.tui.deck import Deck
    from iotop_ai.tui.follow import Takes
    from iotop_ai.tui.keeper import Keeper
else:
    import _signal  # what signal wraps: its enumerations would cost each start a millisecond

NO_TERMINAL = 2
IN_BROWSER = Terminal("dark", 2**24, False)


def refusal(term: str, is_terminal: bool) -> str:
    """Why no screen can be painted here, in one line; "" when one can."""
    if not is_terminal:
        return "usage: no terminal to paint on: use iotop-ai -b for text, or iotop-ai snapshot"
    if term in ("", "dumb", "unknown"):
        return f"usage: TERM={term or '(unset)'} cannot paint: use iotop-ai -b for text, or iotop-ai snapshot"
    return ""


def is_terminal() -> bool:
    """Whether keys come from a terminal and both outputs go to one. Textual paints on stderr."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


class Opening(NamedTuple):
    """What a screen begins with. frames: continue after ``first``; where that is not judged yet, they begin with the
    same Frame judged, which is waited for when it is on the screen. changes: of the View, by field.

    keeper: makes what keeps a live session, after the first frame is on the screen; deck: what plays a recording.
    left: is told the View, the theme ("" as it began) and the newest Frame when the user has left.
    shared: a program before our pipe may read the same terminal. shown: called when ``first`` is on the screen.
    """

    first: Frame
    frames: Iterable[Frame]
    source: Source
    changes: Mapping[str, Any] = {}
    keeper: Callable[[], Keeper] | None = None
    deck: Callable[[Takes], Deck] | None = None
    left: Callable[[View, str, Frame], None] | None = None
    shared: bool = False
    shown: Callable[[], None] | None = None
    judged: bool = True


def run_monitor(settings: Settings, source: LiveSource, shown: Callable[[], None] | None = None) -> int:
    """Show the live screen until the user leaves it; the exit code. shown: called when the first frame is there.

    Raises what broke, after the terminal has been given back.
    """
    if served():
        settings = settings._replace(readonly=True, remember=False)
    was, trouble = recall(state_path()) if settings.remember else (Remembered(), "")
    begun = as_left(settings, _shown_here(was))

    def opening() -> Opening:
        snapshots = iter(source)
        snapshot = next(snapshots)
        first = unjudged(snapshot)
        check_job(snapshot, settings.job)
        base = snapshot if settings.accumulated else None
        changes = {"base": base, "device": device_as_left(first, was), "message": trouble}
        keeper = memory_keeper if served() else partial(_keeper, settings, source)
        stream = frames(_again(snapshot, snapshots))
        return Opening(first, stream, source, changes, keeper, left=leave, shown=shown, judged=False)

    def leave(view: View, look: str, newest: Frame) -> None:
        from iotop_ai.cli.learned import keep_baselines

        keep_baselines(settings, newest)
        now = left(view, look, newest, begun, was)
        if settings.remember and (now != was or trouble):
            with contextlib.suppress(OSError):  # a home that may not be written is no reason to say anything
                keep(state_folder(), now)

    return run_screen(begun, opening, source.close)


def _again(first: Snapshot, others: Iterator[Snapshot]) -> Iterator[Snapshot]:
    """Both in turn; the first is let go of with its turn, as it holds a whole machine."""
    yield first
    del first
    yield from others


def check_job(snapshot: Snapshot, pid: int) -> None:
    """Raises UsageError for a process that is not there; 0 asks for none."""
    table = snapshot.processes.value
    if pid and table is not None and table.complete and all(key.pid != pid for key in table.stat):
        raise UsageError(f"--job {pid}: there is no such process")


def served() -> bool:
    """Whether textual-serve shows this screen in a browser: nobody can be asked there, and nothing is written."""
    return os.environ.get("TEXTUAL_DRIVER", "").endswith(":WebDriver")


def memory_keeper() -> Keeper:
    """What keeps the last hour and records nothing."""
    from iotop_ai.cli.keep import new_ring
    from iotop_ai.tui.keeper import Keeper

    return Keeper(Clock(), new_ring)


def _shown_here(was: Remembered) -> Remembered:
    """What is remembered without a theme that this terminal cannot show, or that NO_COLOR forbids."""
    plain = was.theme in (None, "ansi", "ansi-light", "mono")
    fits = plain or terminal(Settings(), os.environ).colours >= 256
    return was if fits and "NO_COLOR" not in os.environ else was._replace(theme=None)


def _save_picture(svg: str) -> str:
    from iotop_ai.cli.keep import save_picture

    return save_picture(svg)


def _keeper(settings: Settings, source: LiveSource) -> Keeper:
    from iotop_ai.cli.keep import live_keeper

    return live_keeper(settings, source.pending)


def run_screen(settings: Settings, opening: Callable[[], Opening], close: Callable[[], None]) -> int:
    """Show what ``opening`` begins until the user leaves it; the exit code. close: gives back what it holds.

    Raises what broke, after the terminal has been given back.
    """
    if not served() and (why := refusal(os.environ.get("TERM", ""), is_terminal())):
        close()
        print(why, file=sys.stderr)
        return NO_TERMINAL
    quiet_log()
    if settings.theme:  # chosen by hand: Textual would turn it grey under NO_COLOR
        os.environ.pop("NO_COLOR", None)
    here = IN_BROWSER._replace(theme=settings.theme or IN_BROWSER.theme) if served() else terminal(settings, os.environ)
    for number in (_signal.SIGTERM, _signal.SIGHUP):
        _signal.signal(number, _leave)
    try:
        app = _watch(settings, opening, close, here)
    except _EndedError as ended:
        return _ended_by(ended.number)
    if app.keeper is not None and app.keeper.last is not None:
        from iotop_ai.present.recorded import recorded_text

        _say(f"recorded: {recorded_text(app.keeper.last)}")
    if app.failure is not None:
        from iotop_ai.cli.crash import note_crash

        raise note_crash(app.failure)
    if app.ended_by is not None:
        return _ended_by(app.ended_by)
    return app.return_code or 0


def _watch(settings: Settings, opening: Callable[[], Opening], close: Callable[[], None], here: Terminal) -> MonitorApp:
    """Paint the first frame, then run the app until it ends; the terminal is given back whatever happens."""
    gc.disable()  # nothing made while starting is garbage
    screen = None if served() else FirstFrame(here)
    try:
        begun = opening()
        view = View(
            interval_s=settings.interval_s,
            sort=settings.sort,
            reverse=settings.reverse,
            only_active=settings.only_active,
            devices=settings.devices,
            ascii_only=here.ascii_only,
            readonly=settings.readonly,
            hidden=frozenset(settings.hidden),
            tree=settings.tree,
            no_columns=frozenset(settings.no_columns),
            keymap=settings.keymap,
            marks=settings.marks,
            cmdline=settings.cmdline,
            job=settings.job,
        )._replace(**begun.changes)
        if screen is not None:
            screen.show(begun.first, view)
        prepare_now()  # Textual and the ring load logging
        if begun.shown is not None:
            begun.shown()

        with without_tls():
            from iotop_ai.tui.app import MonitorApp
        from iotop_ai.tui.driver import driver_class

        coming = iter(begun.frames)
        first = begun.first if begun.judged else next(coming)

        driver = driver_class(True, screen.attributes, shared=begun.shared) if screen is not None else None
        keeper = begun.keeper() if begun.keeper is not None else None
        save = None if served() else _save_picture
        app = MonitorApp(first, coming, begun.source, view, here.theme, driver, keeper, begun.deck, save)
        left = begun.left
        del begun, first  # it holds a whole machine
        gc.enable()
        app.run(mouse=settings.mouse)
        if app.failure is None and left is not None:
            left(app.main.view, "" if app.look == here.theme else app.look, app.main.newest)
    finally:
        close()
        if screen is not None:
            screen.restore()
    return app


def _say(text: str) -> None:
    with contextlib.suppress(OSError):  # the terminal may be what went away
        print(text, file=sys.stderr)


def _ended_by(number: int) -> int:
    from signal import Signals

    _say(f"ended by {Signals(number).name}")
    return 128 + number


class _EndedError(BaseException):
    """A signal before the app has taken over."""

    def __init__(self, number: int) -> None:
        self.number = number


def _leave(number: int, _frame: FrameType | None) -> None:
    """Before the app takes over: unwind, so that the terminal is given back."""
    raise _EndedError(number)
