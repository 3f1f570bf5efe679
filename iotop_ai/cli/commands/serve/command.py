"""``iotop-ai serve``: serve the figures and the verdict to Prometheus, and record them if a file is named."""

from __future__ import annotations

import argparse
import contextlib
import signal
import threading

from iotop_ai.cli.commands.monitor.remove_ended import remove_ended_acknowledgements
from iotop_ai.cli.commands.monitor.save_baselines import save_baselines
from iotop_ai.cli.commands.record.output import Output
from iotop_ai.cli.commands.record.signals import END_SIGNALS, Signals
from iotop_ai.cli.commands.serve.options import ServeOptions, add_serve_flags, is_loopback, serve_options
from iotop_ai.cli.commands.serve.textfile_thread import TextfileThread
from iotop_ai.cli.options.alerts import start_alerts
from iotop_ai.cli.start.logging import quiet_log
from iotop_ai.cli.stderr import print_notice
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.export.prometheus.server import MetricsServer, ScrapeText, own_names
from iotop_ai.export.prometheus.textfile import Textfile
from iotop_ai.export.verdict_socket import VerdictServer
from iotop_ai.model.block.saturation import any_device_saturated
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import InputError
from iotop_ai.model.frame import Frame
from iotop_ai.pipeline import frames
from iotop_ai.sources.live.source import LiveSource


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``serve``."""
    add_serve_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Serve until a signal arrives or the time of --duration has passed; return 0."""
    options = serve_options(args)
    quiet_log()
    session = ServeSession(options)
    with Signals(END_SIGNALS, session.on_signal):
        return session.run()


def say(text: str) -> None:
    """Print one line to stderr. A closed stderr does not stop serving."""
    print_notice(f"serve: {clean(text, 300)}")


class ServeSession:
    """One run of ``iotop-ai serve``."""

    def __init__(self, options: ServeOptions) -> None:
        self._options = options
        devices = options.record.settings.devices
        self._scrape = ScrapeText(devices)
        textfile = Textfile(options.textfile, devices) if options.textfile else None
        self._textfile = None if textfile is None else TextfileThread(textfile, say)
        self._verdict_server: VerdictServer | None = None
        self._output: Output | None = None
        self._source: LiveSource | None = None
        self._stopping = threading.Event()

    def on_signal(self, number: signal.Signals, from_terminal: bool) -> None:
        """Stop serving. A second signal also ends the wait for the recording's disk."""
        if self._stopping.is_set() and self._output is not None:
            self._output.stop_waiting()
        self._stop()

    def _stop(self) -> None:
        self._stopping.set()
        if self._source is not None:
            self._source.close()

    def run(self) -> int:
        """Listen, read and record; return 0. Raises IotopError when it cannot start, or when the recording failed."""
        options = self._options
        with contextlib.ExitStack() as parts:  # every part is closed, even if closing another part fails
            parts.callback(self._close_output)  # closed last, because it may wait for a disk
            if self._textfile is not None:
                parts.callback(self._textfile.close)
                self._textfile.start()
            server = self._listen()
            if server is not None:
                parts.callback(server.stop)
            if options.socket:
                self._verdict_server = self._open_socket(options.socket)
                parts.callback(self._verdict_server.stop)
            if options.record.output:
                self._output = Output(options.record, Clock(), say, lambda: None)
            if server is not None:
                server.start()
            self._serve()
        if self._output is not None and self._output.error_text:
            raise InputError(self._output.error_text)
        return 0

    def _close_output(self) -> None:
        if self._output is not None:
            self._output.close()

    def _listen(self) -> MetricsServer | None:
        options = self._options
        if options.listen is None:
            return None
        host, port = options.listen
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        names = (*own_names(), *options.hosts)
        try:
            server = MetricsServer((host, port), self._scrape, token=options.token, tls=options.tls, names=names)
        except OSError as error:
            raise InputError(f"--listen {address}: {error.strerror}") from None
        scheme = "http" if options.tls is None else "https"
        say(f"{scheme}://{address.rpartition(':')[0]}:{server.server_port}/metrics")
        if not is_loopback(host):
            if not options.token:
                say(
                    "warning: any machine that reaches this address can read the metrics; use --token-file to "
                    "require a token"
                )
            elif options.tls is None:
                say("warning: the token travels in clear text; --tls-cert and --tls-key encrypt it")
        return server

    def _open_socket(self, path: str) -> VerdictServer:
        try:
            server = VerdictServer(path, Root())
        except OSError as error:
            raise InputError(f"--socket {clean(path)}: {error.strerror}") from None
        server.start()
        say(f"each user's own verdict: curl --unix-socket {path} http://localhost/")
        return server

    def _serve(self) -> None:
        settings = self._options.record.settings
        source = LiveSource(settings, marks=True)
        self._source = source
        if self._stopping.is_set():
            source.close()
        timer = threading.Timer(self._options.record.duration_s or 0.0, self._stop)
        timer.daemon = True
        if self._options.record.duration_s is not None:
            timer.start()
        alerts = start_alerts(self._options.record.alerts, source.add_event, say)
        last: Frame | None = None
        try:
            for frame in frames(source):
                if last is None and self._output is not None:
                    self._output.warn_of_own_disk(frame.snapshot)
                last = frame
                source.suspend_smart_queries(any_device_saturated(frame))
                if alerts is not None:
                    for alert in alerts.take(frame):
                        say(f"alert: {alert.text}")
                self._publish(frame)
        finally:
            timer.cancel()
            source.close()
            if alerts is not None:
                alerts.close()
            if last is not None:
                save_baselines(settings, last)
                remove_ended_acknowledgements(settings, last)

    def _publish(self, frame: Frame) -> None:
        """Pass the Frame to every output."""
        self._scrape.put(frame)
        if self._verdict_server is not None:
            self._verdict_server.put(frame)
        if self._output is not None:
            self._output.put(frame)
        if self._textfile is not None:
            self._textfile.put(frame)
