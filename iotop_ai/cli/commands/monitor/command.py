"""``iotop-ai`` without a subcommand: the live screen."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from iotop_ai.cli.commands.monitor.remembered_view import (
    RememberedView,
    read_view,
    restored_device,
    restored_settings,
    view_to_remember,
    write_view,
)
from iotop_ai.cli.options.job import check_job
from iotop_ai.cli.start.ending_signals import EndingSignals, SignalledError
from iotop_ai.cli.start.first_frame import FirstFrame
from iotop_ai.cli.start.logging import quiet_log
from iotop_ai.cli.start.terminal import Terminal, terminal
from iotop_ai.cli.start.without_ssl import ssl_hidden
from iotop_ai.cli.stderr import print_notice
from iotop_ai.cli.subcommands import shell_commands
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.trust import in_browser
from iotop_ai.collectors.io.with_timeout import call_with_timeout
from iotop_ai.collectors.state.folder import state_folder, state_path
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.frame import Frame
from iotop_ai.model.settings import Settings
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.pipeline import frames, unjudged_frame
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.frame_cache import FrameCache
from iotop_ai.present.text.units import use_units

if TYPE_CHECKING:
    from iotop_ai.alerts.config import AlertConfig
    from iotop_ai.playback.session_recording import SessionRecorder
    from iotop_ai.sources.live.source import LiveSource
    from iotop_ai.store.source import Source
    from iotop_ai.tui.app import MonitorApp
    from iotop_ai.tui.threads.alerts import LiveAlerts
    from iotop_ai.tui.threads.playback import PlaybackThread
    from iotop_ai.tui.threads.source import MessageReceiver

CANNOT_SHOW = 2
"""The exit code when a screen cannot be shown."""
LIVE_TEXT = "iotop-ai -b for text, or iotop-ai snapshot"
"""The commands that show this machine without a screen."""
EXIT_S, LEAST_STATE_S = 0.8, 0.1
"""The longest time for the whole exit, and the part of it that is reserved for writing state files, in seconds."""
IN_BROWSER = Terminal("dark", 2**24, False)
"""The capabilities of textual-serve's terminal in a browser."""


def refusal(term: str, is_terminal: bool, instead: str = LIVE_TEXT) -> str:
    """Return the error line for a terminal that cannot show a screen; "" for a usable terminal.

    instead: the commands that show the same without a screen.
    """
    if not is_terminal:
        return f"usage: not a terminal: use {instead}"
    if term in ("", "dumb", "unknown"):
        return f"usage: TERM={term or '(unset)'} cannot show a screen: use {instead}"
    return ""


def is_terminal() -> bool:
    """Whether stdin, stdout and stderr are terminals. All are needed: Textual draws the screen on stderr."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


class ScreenStart(NamedTuple):
    """The parts that a screen needs to start.

    first: the Frame that is painted first
    frames: the Frames that follow ``first``; if ``judged`` is False, they begin with ``first`` again, now with its
        verdict, which is computed after the first paint
    changes: new values for fields of the View, by field name
    make_session_recorder, make_playback, make_alerts: functions that make the recorder of a live session, the player of
        a recording, and the alerts of a live session; they are called after the first paint
    on_exit: called with the View, the theme ("" if unchanged), the newest Frame and a time limit in seconds
    shared: whether the program that pipes into our stdin may also read keys from our terminal
    on_paint: called after ``first`` is painted
    judged: whether ``first`` already has a verdict
    """

    first: Frame
    frames: Iterable[Frame]
    source: Source
    changes: Mapping[str, Any] = {}
    make_session_recorder: Callable[[], SessionRecorder] | None = None
    make_playback: Callable[[MessageReceiver], PlaybackThread] | None = None
    make_alerts: Callable[[MessageReceiver], LiveAlerts] | None = None
    on_exit: Callable[[View, str, Frame, float], None] | None = None
    shared: bool = False
    on_paint: Callable[[], None] | None = None
    judged: bool = True


def run_monitor(
    settings: Settings,
    source: LiveSource,
    on_paint: Callable[[], None] | None = None,
    make_alerts: Callable[[LiveSource, MessageReceiver], LiveAlerts] | None = None,
) -> int:
    """Show the live screen until the user leaves it; return the exit code.

    Raises the error that ended the screen, once the terminal is restored.

    on_paint: called after the first frame is painted. make_alerts: makes the alerts; None uses the default alert file.
    """
    if in_browser(os.environ):
        settings = settings._replace(readonly=True, remember=False)
    remembered, view_error = read_view(state_path()) if settings.remember else (RememberedView(), "")
    restored = restored_settings(settings, _without_unusable_theme(remembered))

    def make_screen_start() -> ScreenStart:
        snapshots = iter(source)
        snapshot = next(snapshots)
        first = unjudged_frame(snapshot)
        check_job(snapshot, settings.job)
        base = snapshot if settings.accumulated else None
        changes = {
            "base": base,
            "device": restored_device(first, remembered, settings.devices),
            "message": view_error,
            "dismissed": remembered.dismissed or frozenset(),
        }
        make_session_recorder = (
            memory_session_recorder if in_browser(os.environ) else partial(_session_recorder, settings, source)
        )
        alerts = None if in_browser(os.environ) else partial(make_alerts or _default_alerts, source)
        stream = frames(_prepend(snapshot, snapshots))
        return ScreenStart(
            first,
            stream,
            source,
            changes,
            make_session_recorder,
            None,
            alerts,
            on_exit,
            on_paint=on_paint,
            judged=False,
        )

    def on_exit(view: View, theme: str, newest: Frame, limit_s: float) -> None:
        from iotop_ai.cli.commands.monitor.remove_ended import remove_ended_acknowledgements
        from iotop_ai.cli.commands.monitor.save_baselines import save_baselines

        save_baselines(settings, newest, limit_s)
        remove_ended_acknowledgements(settings, newest, limit_s)
        new_view = view_to_remember(view, theme, newest, restored, remembered)
        if settings.remember and (new_view != remembered or view_error):
            with contextlib.suppress(OSError):  # a read-only home keeps no view and needs no message
                call_with_timeout(limit_s, state_path(), lambda: write_view(state_folder(), new_view))

    return run_screen(restored, make_screen_start, source.close)


def _default_alerts(source: LiveSource, app: MessageReceiver) -> LiveAlerts:
    from iotop_ai.cli.commands.monitor.live_alerts import live_alerts

    return live_alerts(None, source, app, default=True)


def named_alerts(config: AlertConfig | None) -> Callable[[LiveSource, MessageReceiver], LiveAlerts]:
    """Return a function that makes the alerts of a file that was read before the screen started."""

    def make(source: LiveSource, app: MessageReceiver) -> LiveAlerts:
        from iotop_ai.cli.commands.monitor.live_alerts import live_alerts

        return live_alerts(config, source, app, default=False)

    return make


def _prepend(first: Snapshot, others: Iterator[Snapshot]) -> Iterator[Snapshot]:
    """Yield ``first``, then the others. Drop ``first`` early, because it holds a whole machine's data."""
    yield first
    del first
    yield from others


def memory_session_recorder() -> SessionRecorder:
    """Return a SessionRecorder that keeps the last hour in memory but cannot record to a file."""
    from iotop_ai.cli.commands.monitor.session_recording import new_ring
    from iotop_ai.playback.session_recording import SessionRecorder

    return SessionRecorder(Clock(), new_ring)


def _without_unusable_theme(view: RememberedView) -> RememberedView:
    """Return the view without its theme if this terminal has too few colours for it, or if NO_COLOR forbids it."""
    plain = view.theme in (None, "ansi", "ansi-light", "mono")
    fits = plain or terminal(Settings(), os.environ).colours >= 256
    return view if fits and "NO_COLOR" not in os.environ else view._replace(theme=None)


def _save_screenshot(svg: str) -> str:
    from iotop_ai.cli.commands.monitor.session_recording import save_screenshot

    return save_screenshot(svg)


def _session_recorder(settings: Settings, source: LiveSource) -> SessionRecorder:
    from iotop_ai.cli.commands.monitor.session_recording import live_recorder

    return live_recorder(settings, source.pending)


def run_screen(
    settings: Settings,
    make_screen_start: Callable[[], ScreenStart],
    close: Callable[[], None],
    instead: str = LIVE_TEXT,
) -> int:
    """Show the screen of ``make_screen_start`` until the user leaves it; return the exit code.

    Raises the error that ended the screen, once the terminal is restored.

    close: closes the screen's source. instead: the commands that show the same without a screen.
    """
    if not in_browser(os.environ) and (why := refusal(os.environ.get("TERM", ""), is_terminal(), instead)):
        close()
        print_notice(why)
        return CANNOT_SHOW
    quiet_log()
    if settings.theme:  # with NO_COLOR set, Textual would show even a chosen theme in grey
        os.environ.pop("NO_COLOR", None)
    this_terminal = terminal(settings, os.environ)
    if in_browser(os.environ):
        this_terminal = IN_BROWSER._replace(theme=settings.theme or IN_BROWSER.theme)
    first_frame = None if in_browser(os.environ) else FirstFrame(this_terminal)
    signals = EndingSignals(first_frame.restore_by_force if first_frame is not None else lambda: None)
    signals.install()
    try:
        app = _run_app(settings, make_screen_start, close, this_terminal, first_frame, signals)
    except SignalledError as error:
        return _report_signal(error.number)
    if app.session_recorder is not None and app.session_recorder.stuck:
        from iotop_ai.cli.start.abandon import abandon_files

        abandon_files()
    if app.session_recorder is not None and app.session_recorder.last is not None:
        from iotop_ai.present.screen.recording_state import recording_text

        print_notice(f"recorded: {recording_text(app.session_recorder.last)}")
    for text in app.alerts.late_failures if app.alerts is not None else ():
        print_notice(text)
    if app.failure is not None:
        from iotop_ai.cli.start.crash import note_crash

        raise note_crash(app.failure)
    if app.ended_by is not None:
        return _report_signal(app.ended_by)
    return app.return_code or 0


def _run_app(
    settings: Settings,
    make_screen_start: Callable[[], ScreenStart],
    close: Callable[[], None],
    this_terminal: Terminal,
    first_frame: FirstFrame | None,
    signals: EndingSignals,
) -> MonitorApp:
    """Paint the first frame, then run the app until it ends. The terminal is always restored.

    Raises SignalledError for a signal that arrives before the app runs.
    """
    gc.disable()  # start-up creates no garbage
    try:
        start = make_screen_start()
        signals.check()
        view = _view(settings, this_terminal)._replace(**start.changes)
        if first_frame is not None:
            first_frame.show(start.first, view)
        if start.on_paint is not None:
            start.on_paint()
        signals.check()

        with ssl_hidden():
            from iotop_ai.tui.app import MonitorApp
        from iotop_ai.tui.textual_internals.driver import driver_class

        stream = iter(start.frames)
        first = start.first if start.judged else next(stream)

        driver = driver_class(True, first_frame.attributes, shared=start.shared) if first_frame is not None else None
        session_recorder = start.make_session_recorder() if start.make_session_recorder is not None else None
        save = None if in_browser(os.environ) else _save_screenshot
        app = MonitorApp(
            first,
            stream,
            start.source,
            view,
            this_terminal.theme,
            driver,
            session_recorder,
            start.make_playback,
            save,
            start.make_alerts,
        )
        on_exit = start.on_exit
        del start, first  # each holds a whole machine's data
        gc.enable()
        app.signal_before_start = signals.take
        app.shell_commands = shell_commands()
        try:
            signals.check()
            app.run(mouse=settings.mouse)
        finally:
            app.source_thread.stop(0.0)  # has an effect only if a signal ended the app before it started
        if app.failure is None and on_exit is not None:
            limit_s = max(LEAST_STATE_S, EXIT_S - app.took_s)
            on_exit(
                app.main.view, "" if app.theme_name == this_terminal.theme else app.theme_name, app.main.newest, limit_s
            )
    finally:
        close()
        if first_frame is not None:
            first_frame.restore()
    return app


def _view(settings: Settings, this_terminal: Terminal) -> View:
    use_units(settings.units)
    return View(
        interval_s=settings.interval_s,
        sort=settings.sort,
        reverse=settings.reverse,
        only_active=settings.only_active,
        devices=settings.devices,
        ascii_only=this_terminal.ascii_only,
        readonly=settings.readonly,
        hidden=frozenset(settings.hidden),
        tree=settings.tree,
        units=settings.units,
        no_columns=frozenset(settings.no_columns),
        keymap=settings.keymap,
        marks=settings.marks,
        cmdline=settings.cmdline,
        job=settings.job,
        cache=FrameCache(),
    )


def _report_signal(number: int) -> int:
    """Print the name of the signal that ended the screen; return the exit code."""
    from signal import Signals

    print_notice(f"ended by {Signals(number).name}")
    return 128 + number
