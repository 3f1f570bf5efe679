"""``iotop-ai record``: record the whole machine's counters into a file, for weeks or while a command runs."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import threading
import traceback
from collections.abc import Iterator
from typing import Any

from iotop_ai.cli.commands.monitor.remove_ended import remove_ended_acknowledgements
from iotop_ai.cli.commands.monitor.save_baselines import save_baselines
from iotop_ai.cli.commands.record.child import RecordedCommand, exec_command, redacted_text
from iotop_ai.cli.commands.record.control import Control
from iotop_ai.cli.commands.record.csv_log import CsvLog
from iotop_ai.cli.commands.record.options import RecordOptions, add_record_flags, record_options
from iotop_ai.cli.commands.record.output import Output
from iotop_ai.cli.commands.record.signals import END_SIGNALS, FORWARDED, Signals
from iotop_ai.cli.commands.record.witness import Witness
from iotop_ai.cli.options.alerts import start_alerts
from iotop_ai.cli.start.logging import quiet_log
from iotop_ai.cli.stderr import print_notice
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.marks_socket import check_socket_variable
from iotop_ai.diagnosis.burst import Burst
from iotop_ai.diagnosis.facts.steps import StepComparison
from iotop_ai.export.json.status import status_object
from iotop_ai.export.text.run_summary import RunSummary
from iotop_ai.model.block.saturation import any_device_saturated
from iotop_ai.model.errors import DEBUG_VARIABLE, InputError, IotopError
from iotop_ai.model.frame import Frame
from iotop_ai.model.job.exits import how_it_ended
from iotop_ai.model.settings import SHORTEST_S
from iotop_ai.model.snapshot import COMMAND_END, COMMAND_START, Snapshot
from iotop_ai.pipeline import closing_frame, frames
from iotop_ai.sources.live.source import LiveSource

OFF_VARIABLE = "IOTOP_AI"
"""The environment variable whose value 0 turns recording off."""
SAVE_EVERY_NS = 3_600_000_000_000
"""The time between two saves of the disks' baselines. A save at the end is not enough: a recorder may be killed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``record``."""
    add_record_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Record while the command runs, or until a signal or the end of --duration; return the exit code.

    With IOTOP_AI=0 nothing is recorded, and the command replaces this process.
    """
    if os.environ.get(OFF_VARIABLE) == "0":
        words = args.words[1:] if args.words[:1] == ["--"] else args.words
        if words:
            return exec_command(words)
        say(f"{OFF_VARIABLE}=0: not recording")
        return 0
    options = record_options(args)
    check_socket_variable(os.environ)
    quiet_log()
    if options.control:
        # The training that starts the recorder may block any signal, and the recorder inherits that.
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
    session = Session(options)
    numbers = FORWARDED if options.command else END_SIGNALS
    with Signals(numbers, session.on_signal) as signals:
        return session.run(signals)


def say(text: str) -> None:
    """Print one line to stderr; a closed stderr does not stop the recording."""
    print_notice(f"record: {text}")


def _forward(command: RecordedCommand, number: signal.Signals) -> None:
    try:
        command.forward(number)
    except PermissionError:  # the command may be sudo
        say(f"{number.name} is not forwarded: the command runs as another user")


class Session:
    """One run of ``iotop-ai record``: its outputs, its command and its end."""

    def __init__(self, options: RecordOptions) -> None:
        self._options = options
        self._clock = Clock()
        self._output: Output | None = None
        self._log: CsvLog | None = None
        self._command: RecordedCommand | None = None
        self._witness: Witness | None = None
        self._control: Control | None = None
        self._comparison = StepComparison()
        self._source: LiveSource | None = None
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._stopped_ns = 0
        """The monotonic time at which the last Snapshot was requested; 0 until then."""
        self._early_signals: list[signal.Signals] = []
        self._summary = RunSummary()
        self._burst = Burst()
        self._bursting = False
        self._code: int | None = None
        """The exit code of the command, or the negative number of its signal; None until its end."""
        self._newest: Frame | None = None

    def on_signal(self, number: signal.Signals, from_terminal: bool) -> None:
        """Forward the signal to the command, unless the terminal or another sender has sent it to the command too.

        A signal that arrives before the command starts is forwarded after the start. Without a command, an end signal
        ends the recording. While the recording ends, another end signal ends the wait for a disk or hook.
        """
        if self._stopping.is_set() and number in END_SIGNALS and self._output is not None:
            self._output.stop_waiting()
        if self._command is not None:
            if not (from_terminal or (self._witness is not None and self._witness.saw(number))):
                _forward(self._command, number)
        elif self._options.command:
            self._early_signals.append(number)
        elif number in END_SIGNALS:
            self._stopping.set()
            if self._source is not None:
                self._source.close()

    def run(self, signals: Signals) -> int:
        """Open the outputs, start the command and record; print a summary of a command's run; return the exit code.

        Raises IotopError when the recording cannot start, or when an output failed and no command ran. An error after
        the command's start ends only the recording: the command goes on, and its exit code is returned.
        """
        options = self._options
        if options.csv:
            devices = options.settings.devices
            self._log = CsvLog(options.csv, append=options.append, devices=devices, say=say, on_end=self._on_output_end)
        try:
            if options.output or not options.csv:
                self._output = Output(options, self._clock, say, self._on_output_end)
            self._start_command(signals)
            with self._command_goes_on():
                if self._output is not None:
                    self._output.announce()
                if options.control:
                    self._control = Control(self._clock, self._status, self._finish)
                self._record()
        finally:
            with self._command_goes_on():
                if self._log is not None:
                    self._log.close()
                if self._output is not None:
                    self._output.close()
                if self._control is not None:
                    self._control.write_line("end", **self._status())
        code = 0 if self._command is None else self._command.code()
        if self._witness is not None:
            self._witness.close()
        if options.command:
            for line in self._summary.lines():
                say(line)
        else:
            error_texts = [out.error_text for out in (self._output, self._log) if out is not None and out.error_text]
            if error_texts:
                raise InputError(error_texts[0])
        return code

    @contextlib.contextmanager
    def _command_goes_on(self) -> Iterator[None]:
        """While a command runs, print an error instead of raising it; with IOTOP_AI_DEBUG=1, print its traceback."""
        try:
            yield
        except Exception as error:
            if self._command is None:
                raise
            if os.environ.get(DEBUG_VARIABLE):
                traceback.print_exc()
            what = str(error) if isinstance(error, IotopError) else f"{error!r} ({DEBUG_VARIABLE}=1 shows where)"
            say(f"the recording ended early, the command goes on: {what}")

    def _start_command(self, signals: Signals) -> None:
        """Start the command, if there is one, and forward the signals that arrived before."""
        if not self._options.command:
            return
        self._witness = Witness(FORWARDED, self._clock)
        try:
            self._command = RecordedCommand(self._options.command, signals.unblock, self._on_command_end)
        except BaseException:
            self._witness.close()
            raise
        for number in self._early_signals:
            _forward(self._command, number)

    def _on_command_end(self, code: int) -> None:
        with self._lock:
            self._code = code
            if self._source is not None:
                if self._command is not None:
                    self._source.child_ended(self._command.pid, code)
                self._source.add_event(COMMAND_END, how_it_ended(code))
        self._finish()

    def _on_output_end(self) -> None:
        """Stop recording when no output can be written any more, unless a command runs."""
        alive = any(out is not None and out.alive for out in (self._output, self._log))
        if self._source is not None and not self._options.command and not alive:
            self._source.close()

    def _finish(self) -> None:
        """Request one last Snapshot now, and stop after it."""
        if not self._stopping.is_set():
            self._stopped_ns = self._clock.monotonic_ns()
            self._stopping.set()
        if self._source is not None:
            self._source.set_interval(SHORTEST_S)

    def _status(self) -> dict[str, Any]:
        """Return the answer to a status request: the state of the job of the program that started this recorder."""
        path = "" if self._output is None else self._output.path
        pid = 0 if self._control is None else self._control.starter_pid
        return {"path": path, **status_object(self._newest, pid, self._comparison)}

    def _open_source(self) -> LiveSource:
        options = self._options
        source = LiveSource(options.settings, marks=True)
        if self._command is not None:
            source.watch(self._command.pid)
            source.add_event(COMMAND_START, redacted_text(options.command, options.settings.cmdline))
        if self._control is not None:
            self._control.connect(source)
        with self._lock:
            self._source = source
            if self._code is not None:
                source.add_event(COMMAND_END, how_it_ended(self._code))
        # The end may have been requested before the source existed.
        if self._stopping.is_set():
            self._finish()
        self._on_output_end()
        return source

    def _record(self) -> None:
        source = self._open_source()
        timer = threading.Timer(self._options.duration_s or 0.0, self._finish)
        timer.daemon = True
        if self._options.duration_s is not None:
            timer.start()
        stream = frames(self._until_stopped(source))
        alerts = start_alerts(self._options.alerts, source.add_event, say)
        last, saved_ns = None, 0
        try:
            for i, frame in enumerate(stream):
                if i == 0 and self._output is not None:
                    self._output.warn_of_own_disk(frame.snapshot)
                self._write(frame, source)
                if alerts is not None:
                    for alert in alerts.take(frame):
                        say(f"alert: {alert.text}")
                if i == 0 and self._control is not None:
                    self._control.write_line("ready", **self._status())
                last, saved_ns = frame, saved_ns or frame.snapshot.at_ns
                if frame.snapshot.at_ns - saved_ns >= SAVE_EVERY_NS:
                    saved_ns = frame.snapshot.at_ns
                    save_baselines(self._options.settings, frame, 0.0)
                    remove_ended_acknowledgements(self._options.settings, frame, 0.0)
        finally:
            timer.cancel()
            source.close()
            for _ in stream:
                pass
            if alerts is not None:
                alerts.close()
            if last is not None:
                save_baselines(self._options.settings, last)
                remove_ended_acknowledgements(self._options.settings, last)
        self._write_last_events(source)

    def _write_last_events(self, source: LiveSource) -> None:
        """Record the events that came after the last Snapshot."""
        newest, output = self._newest, self._output
        if newest is None or output is None:
            return
        if events := source.pending(newest.snapshot.seq):
            output.put(closing_frame(newest, events, self._clock.monotonic_ns(), self._clock.wall_ns()))

    def _until_stopped(self, source: LiveSource) -> Iterator[Snapshot]:
        """Yield the source's Snapshots up to the last one, which ``_finish`` requests.

        A Snapshot that had begun before the request does not count as the last one, because it may have read some
        processes before they ended.
        """
        for snapshot in source:
            if self._stopping.is_set() and snapshot.at_ns >= self._stopped_ns:
                source.close()
            yield snapshot

    def _write(self, frame: Frame, source: LiveSource) -> None:
        source.suspend_smart_queries(any_device_saturated(frame))
        self._newest = frame
        self._summary.add(frame)
        if self._control is not None:
            self._comparison.add(frame)
        if self._output is not None:
            self._output.put(frame)
        if self._log is not None:
            self._log.put(frame)
        burst_s = self._options.burst_s
        if burst_s is not None and not self._stopping.is_set():
            burst_wanted = self._burst.wanted(frame)
            if burst_wanted != self._bursting:
                self._bursting = burst_wanted
                source.set_interval(burst_s if burst_wanted else self._options.settings.interval_s)
