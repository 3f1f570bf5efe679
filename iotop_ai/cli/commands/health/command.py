"""``iotop-ai health``: every disk's health, with an exit code for cron and CI; also self-tests and the history."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterable, Sequence

from iotop_ai.actions.audit import Audit
from iotop_ai.actions.selftest import Target, self_test
from iotop_ai.cli.commands.common_verdict import print_status
from iotop_ai.cli.config.common import READ_ONLY
from iotop_ai.cli.options.common import add_smart_type, settings_of
from iotop_ai.cli.stderr import print_notice
from iotop_ai.cli.stdout import print_lines
from iotop_ai.collectors.base import take_reading
from iotop_ai.collectors.health.collector import TIMEOUT_S, SmartCollector
from iotop_ai.collectors.health.history import DiskHistory, HealthHistory
from iotop_ai.collectors.health.targets import (
    Disk,
    disks_named,
    disks_with_serial,
    read_identity,
    smart_disks,
    type_in_name,
    with_given_types,
)
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root, root_from_options
from iotop_ai.collectors.state.folder import state_folder
from iotop_ai.export.json.health import render_health_json, render_history_json
from iotop_ai.export.text.health import health_lines, history_text
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import UnknownError, UsageError
from iotop_ai.model.health.identity import answered_identity, replaced_disk_text
from iotop_ai.model.health.smart import HealthPoint, SmartState
from iotop_ai.model.health.volume import NOT_QUERIED
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.settings import Settings
from iotop_ai.present.block.devices import natural_key
from iotop_ai.present.screen.bounds import clamp_size

HEALTHY, PROBLEM, UNKNOWN = 0, 1, 2
"""The exit codes."""
POLL_S = 5.0
"""The time between two queries for a self-test's progress, in seconds."""
MOST_UNANSWERED = 12
"""The number of unanswered queries in a row after which --wait gives up."""
_DISK_S = 3 * TIMEOUT_S + 10
"""How long the queries of one disk may take, in seconds."""
_NEUTRAL = (Status.ASLEEP, Status.UNSUPPORTED)
"""Statuses that do not make the health unknown."""
Table = dict[str, Reading[SmartState]]
"""The Reading of each disk, by the disk's name."""
History = tuple[str, str, str, Sequence[HealthPoint]]
"""The history of a disk: its name, serial number, model and points."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``health``."""
    parser.add_argument("disk", metavar="DEV", nargs="*", help="disks by name, /dev path or serial number; default all")
    parser.add_argument(
        "--json", action="store_true", default=argparse.SUPPRESS, help="print a JSON object instead of a table"
    )
    parser.add_argument(
        "--test", choices=("short", "long", "abort"), help="start or abort a self-test of each DEV; data is safe"
    )
    parser.add_argument("--wait", action="store_true", help="with --test: wait for the end and print the result")
    parser.add_argument(
        "--quiet-unsupported",
        action="store_true",
        help="for cron on virtual machines: exit 0 and print nothing when no disk has SMART",
    )
    parser.add_argument("--history", action="store_true", help="plot each DEV's stored history")
    parser.add_argument("--smartctl", metavar="PATH", default=argparse.SUPPRESS, help="the smartctl to run")
    add_smart_type(parser)
    parser.add_argument("--ascii", action=argparse.BooleanOptionalAction, default=argparse.SUPPRESS, help="ASCII only")


def run(args: argparse.Namespace) -> int:
    """Print the disks' health, or run self-tests, or show the history; return the exit code.

    0: all is well. 1: a warning or worse, or a failed self-test. 2: unknown, or not done.
    """
    if args.wait and args.test not in ("short", "long"):
        raise UsageError("--wait needs --test short or long")
    if args.test and not args.disk:
        raise UsageError(f"--test {args.test} needs a disk: iotop-ai health sda --test {args.test}")
    for flag, is_set in (("--history", args.history), ("--json", args.json)):
        if args.test and is_set:
            raise UsageError(f"--test and {flag} cannot be combined")
    settings = settings_of(args)._replace(smart=True)
    if args.test and settings.readonly:
        raise UsageError(f"{READ_ONLY} does not allow self-tests")
    return Health(settings, args, Clock(), root_from_options(settings.procfs, settings.sysfs)).run()


class Health:
    """One run of ``iotop-ai health``."""

    def __init__(self, settings: Settings, args: argparse.Namespace, clock: Clock, root: Root) -> None:
        # The name of a disk behind a controller, such as "bus/0/megaraid,3", contains its type.
        named_types = tuple(filter(None, map(type_in_name, args.disk)))
        self._settings = settings._replace(smart_types=(*settings.smart_types, *named_types))
        self._args, self._clock, self._root = args, clock, root
        self._history = HealthHistory(state_folder(), clock)
        all_disks = with_given_types(smart_disks(root), self._settings.smart_types)
        self._unmatched: list[str] = []
        """The words of the command line that match no disk."""
        self._disks: dict[str, Disk] = {}
        for word in args.disk or [disk.name for disk in all_disks]:
            matching = disks_named(root, word, all_disks)
            if not matching and not args.history:  # the stored histories are searched for serial numbers later
                matching = disks_with_serial(root, word, all_disks)
            self._disks |= {disk.name: disk for disk in matching}
            self._unmatched += [] if matching else [word]

    def run(self) -> int:
        """Do what the flags say; return the exit code."""
        if self._args.history:
            return self._show_history()
        collector = self._collector()
        try:
            if self._args.test:
                return self._test(collector)
            table = self._query(collector)
        finally:
            collector.close()
        code = exit_code(table.values())
        if code == UNKNOWN and self._args.quiet_unsupported and none_has_smart(table.values()):
            code = HEALTHY
        self._print(table, code)
        return code

    def _collector(self) -> SmartCollector:
        # Without names, the scan may find further disks.
        only = tuple(self._disks) if self._args.disk else ()
        return SmartCollector(self._root, self._clock, self._settings, TIMEOUT_S, history=self._history, only=only)

    def _query(self, collector: SmartCollector) -> Table:
        """Return each disk's Reading by name. Disks that the scan found behind controllers come last.

        A word that matches no disk gets a Reading with the status ABSENT.
        """
        table: Table = {clean(word): Reading(None, Status.ABSENT, "no such disk") for word in self._unmatched}
        if self._disks:
            # Enough for the scan and these disks. Disks that the scan finds need more time.
            if not collector.wait(60 + len(self._disks) * _DISK_S):
                found = take_reading(collector, self._clock).value or {}
                collector.wait(len(found.keys() - self._disks.keys()) * _DISK_S)
            newest = take_reading(collector, self._clock)
            readings = newest.value or {}
            for name, disk in self._disks.items():
                reading = readings.get(name)
                if reading is None and not disk.device:
                    reading = Reading(None, Status.UNSUPPORTED, disk.reason)
                table[name] = reading or Reading(None, newest.status, newest.reason, newest.remedy)
            table |= {name: readings[name] for name in sorted(readings.keys() - table.keys(), key=natural_key)}
        return table

    def _print(self, table: Table, code: int) -> None:
        if self._args.quiet_unsupported and none_has_smart(table.values()):
            return
        if self._args.json:
            print_lines([render_health_json(self._clock.wall_ns(), table, code)])
        elif table:
            print_lines(health_lines(table))
        if code == UNKNOWN:
            print_notice(f"unknown: {clean(why_unknown(table))}")

    def _test(self, collector: SmartCollector) -> int:
        """Send the self-test command to each disk; with --wait also wait for the results. Return the exit code."""
        if self._unmatched:
            raise UnknownError(f"no such disk: {clean(', '.join(self._unmatched))}")
        identities = {name: read_identity(self._root, name) for name in self._disks}
        before = self._query(collector)
        started: list[str] = []
        code = HEALTHY
        for name, disk in self._disks.items():
            state = before[name].value
            if state is None or not disk.device:
                print_notice(f"{name}: not done: {before[name].reason}")
                code = UNKNOWN
                continue
            if state.self_tests is False:
                print_notice(f"{name}: not done: the disk has no self-test, or this smartctl cannot start it")
                code = UNKNOWN
                continue
            target = Target(name, state.device, state.device_type, identities[name].completed(answered_identity(state)))
            outcome = self_test(
                self._args.test,
                target,
                self._settings.smartctl,
                self._clock,
                Audit(self._clock),
                self._root.owns_devices,
                self._root,
            )
            duration = _duration_text(self._args.test, state) if outcome.done else ""
            print_lines([f"{name}: {outcome.text}{duration}"])
            if outcome.done:
                started.append(name)
            else:
                code = UNKNOWN
                if outcome.remedy:
                    print_lines([f"{name}: remedy: {outcome.remedy}"])
        if not (self._args.wait and started):
            return code
        results = [self._wait_for_result(collector, name, before[name].value) for name in started]
        return PROBLEM if PROBLEM in results else max(code, *results)

    def _wait_for_result(self, collector: SmartCollector, name: str, before: SmartState | None) -> int:
        """Wait until a disk's self-test is over and print its result; return the exit code."""
        unanswered, last_text = 0, ""
        while True:
            reading = self._next_reading(collector, name)
            state = reading.value
            if state is None or reading.status is not Status.OK:
                unanswered += 1
                if unanswered >= MOST_UNANSWERED:
                    print_notice(f"{name}: cannot follow the self-test: {reading.reason}")
                    return UNKNOWN
            elif before is not None and answered_identity(before).is_other(answered_identity(state)):
                print_notice(f"{name}: cannot follow the self-test: {replaced_disk_text(name)}")
                return UNKNOWN
            elif not state.self_test_runs:
                break
            else:
                unanswered = 0
                text = f"{name}: {state.self_test_progress}"
                if text != last_text:
                    print_status(text)
                last_text = text
            collector.pause(POLL_S)
        last = state.self_test_log[0] if state.self_test_log else None
        if last is None or (before is not None and state.self_test_log == before.self_test_log):
            print_notice(f"{name}: finished, but the disk's log has no result")
            return UNKNOWN
        print_lines([f"{name}: {last.kind}: {last.status}"])
        return HEALTHY if last.passed else PROBLEM if last.passed is False else UNKNOWN

    def _next_reading(self, collector: SmartCollector, name: str) -> Reading[SmartState]:
        """Query the disk and return its new Reading, or one with the status FAILED if none arrives in time."""
        before = collector.read().get(name)
        collector.refresh()
        for _ in range(int(4 * TIMEOUT_S / 0.1)):
            now = collector.read().get(name)
            if now is not None and (before is None or now.at_ns != before.at_ns):
                return now
            collector.pause(0.1)
        return Reading(None, Status.FAILED, "no answer")

    def _show_history(self) -> int:
        """Plot the histories, or print them as JSON; return 2 if a history is missing or unreadable, else 0."""
        histories: list[History] = []
        missing: list[str] = []
        for history in self._history.all_histories():
            if not self._args.disk or history.serial in self._unmatched:
                self._add_history(histories, missing, history.serial, history)
        serials = {serial for _, serial, _, _ in histories}
        self._unmatched = [word for word in self._unmatched if word not in serials]
        table: Table = {}
        if self._args.disk:
            collector = self._collector()
            try:
                table = self._query(collector)
            finally:
                collector.close()
        for name, reading in table.items():
            if reading.value is None or not reading.value.serial:
                missing.append(f"{name}: {reading.reason or 'it reports no serial number'}")
            else:
                try:
                    self._add_history(histories, missing, name, self._history.history_of(reading.value))
                except OSError as error:
                    missing.append(f"{name}: {error.strerror}")
        if not (histories or missing):
            missing.append("no disk has a history yet")
        if self._args.json:
            sys.stdout.write(render_history_json(histories) + "\n")
        else:
            plain = self._settings.ascii_only or not (sys.stdout.encoding or "").lower().startswith("utf")
            width, _ = clamp_size(*shutil.get_terminal_size((80, 24)))
            texts = [history_text(name, model, points, width, plain) for name, _, model, points in histories if points]
            sys.stdout.write("\n\n".join(texts) + ("\n" if texts else ""))
        if missing:
            print_notice(f"unknown: {clean('; '.join(missing))}")
        return UNKNOWN if missing or not histories else HEALTHY

    def _add_history(
        self, histories: list[History], missing: list[str], name: str, history: DiskHistory | None
    ) -> None:
        """Add the stored history to ``histories``, or the reason why there is none to ``missing``."""
        if history is None or not history.points:
            missing.append(f"{name}: {history.note if history is not None and history.note else 'no history yet'}")
        else:
            histories.append((name, history.serial, history.model, history.points))


def _duration_text(test: str, state: SmartState) -> str:
    """Return the disk's estimate of the self-test's duration and a note that data is safe; "" for an abort."""
    minutes = {"short": state.test_short_minutes, "long": state.test_long_minutes}.get(test)
    about = "" if minutes is None else f", about {minutes} min"
    return "" if test == "abort" else f"{about}; it runs in the background and changes no data"


def exit_code(readings: Iterable[Reading[SmartState]]) -> int:
    """Return 1 for a warning or worse, else 2 when a disk could not be read or judged, else 0.

    A disk without SMART is ignored, but a RAID volume whose disks are not queried counts as a disk that could not be
    read. A disk that is asleep counts only by its last values, if it has any. If no disk answered now and no warning is
    known, the code is 2.
    """
    disks = tuple(readings)
    severities = [
        reading.value.severity
        for reading in disks
        if reading.value is not None and reading.status in (Status.OK, Status.ASLEEP)
    ]
    if any(severity in ("warning", "critical") for severity in severities):
        return PROBLEM
    unread = [
        reading
        for reading in disks
        if reading.status is not Status.OK and (reading.status not in _NEUTRAL or reading.reason == NOT_QUERIED)
    ]
    if unread or "unknown" in severities or not any(reading.status is Status.OK for reading in disks):
        return UNKNOWN
    return HEALTHY


def none_has_smart(readings: Iterable[Reading[SmartState]]) -> bool:
    """Whether no disk supports SMART; also True when the machine has no disk.

    False for a RAID volume whose disks are not queried, because they may support it.
    """
    return all(reading.status is Status.UNSUPPORTED and reading.reason != NOT_QUERIED for reading in readings)


def why_unknown(table: Table) -> str:
    """Return the reason for exit code 2, in one line."""
    reasons = [
        f"{name}: {reading.reason or 'no attribute to judge by'}"
        for name, reading in table.items()
        if reading.status is not Status.OK or reading.value is None or reading.value.severity == "unknown"
    ]
    return "; ".join(reasons) or "no disk to query"
