"""Collects the SMART state of every disk at long intervals, on a separate thread that asks the helper process."""

from __future__ import annotations

import contextlib
import logging
import os
import pwd
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any

from iotop_ai.collectors.base import Unavailable
from iotop_ai.collectors.health.commands import is_device, is_type, sudoers_line
from iotop_ai.collectors.health.helper_client import SmartProcess
from iotop_ai.collectors.health.history import HealthHistory
from iotop_ai.collectors.health.parse import Scan, parse_json, parse_scan, parse_state, refusal, volume_refusal
from iotop_ai.collectors.health.smartctl_path import find_smartctl
from iotop_ai.collectors.health.targets import (
    Disk,
    behind_controllers,
    kernel_counts,
    smart_disks,
    volume_reason,
    with_given_types,
    with_scanned_types,
    without_smart,
)
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.lazy_thread import LazyThread
from iotop_ai.collectors.io.root import Root
from iotop_ai.model.clean import clean
from iotop_ai.model.health.rules import with_verdict
from iotop_ai.model.health.smart import SmartState
from iotop_ai.model.health.volume import NOT_QUERIED
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.settings import Settings

log = logging.getLogger(__name__)

SmartTable = Mapping[str, Reading[SmartState]]

TIMEOUT_S = 20.0
"""How long one call of smartctl may take, in seconds."""
KEEP_HELPER_BELOW_S = 60.0
"""The helper keeps running if the interval between two rounds of queries is shorter than this, in seconds.

It also keeps running during a self-test. Otherwise it ends after each round, to free memory.
"""
_POLL_S = 10.0
"""The maximum number of seconds between two checks for disks that are due."""
_CALLS_PER_DISK = 3
"""The most calls of smartctl that one request for a disk makes."""
_POLLS_PER_TEST = 30
"""The pause before the next query of a disk in a self-test is the test's running time so far divided by this number.

The pause is at least the time between two checks for due disks, and at most _LONGEST_TEST_POLL_S seconds.
"""
_LONGEST_TEST_POLL_S = 300.0


class SmartCollector:
    """Collects the field ``smart``, which has a Reading for each whole disk by kernel name.

    ``read`` returns the newest states at once. The thread queries the disks one after the other every
    ``settings.smart_interval_s``, a new disk soon after it appears, and a disk in a self-test more often. A sleeping
    disk is not woken: it keeps its last state, whose age grows. With another machine's /proc and /sys, disks are
    queried only if the user named a smartctl.

    history: the store of earlier states; None to keep none. only: the names of the disks to query; () to query all.
    generation: a function that returns a number, which grows whenever a disk is added, removed or replaced.
    """

    field = "smart"
    every_s = 0.0

    def __init__(
        self,
        root: Root,
        clock: Clock,
        settings: Settings = Settings(),  # noqa: B008 - a frozen record
        timeout_s: float = TIMEOUT_S,
        history: HealthHistory | None = None,
        only: Collection[str] = (),
        generation: Callable[[], int] = int,
    ) -> None:
        self._root = root
        self._generation = generation
        self._seen_generation = generation()
        self._listed_generation = self._seen_generation
        """The generation when the thread last listed the disks. If it differs now, disks have changed since."""
        self._can_query = root.owns_devices
        self._clock = clock
        self._settings = settings
        self._timeout_s = timeout_s
        self._history = history
        self._only = frozenset(only)
        self._helper = SmartProcess(clock)
        self._scanned = Scan()
        """What the last scan found."""
        self._disks_behind: tuple[Disk, ...] = ()
        """The disks behind RAID controllers that the last scan found."""
        self._diskseqs: dict[str, int] = {}
        """The number that the kernel gave each disk, by name. A disk that replaces another has a new number."""
        self._tests_due: dict[str, int] = {}
        """The monotonic time, in nanoseconds, of the next query of each disk in a self-test, by name."""
        self._tests_since: dict[str, int] = {}
        """The monotonic time, in nanoseconds, at which a running self-test was first seen, by the disk's name."""
        self._sudo_allowed: dict[str, bool] = {}
        """False for each device node, or "scan", for which sudo has refused to run smartctl; otherwise no entry."""
        self._table: dict[str, Reading[SmartState]] | None = None
        self._read_at_ns: int | None = None
        self._changed_at_ns: int | None = None
        self._unavailable: Unavailable | None = None
        self._first_round = threading.Event()
        self._wake = threading.Event()
        self._closed = threading.Event()
        self._interval_s = max(1.0, settings.smart_interval_s)
        self._due_ns = 0
        self._suspended = False
        self._stopping = False
        self._refresh_asked = False
        self._urgent = False
        """Whether the user asked for the present round."""
        self._thread = LazyThread("smart", self._run)

    def read(self) -> SmartTable:
        """Return the newest states.

        Raises Unavailable with the status pending until the disks are known, absent when there are disks but no
        smartctl, off when SMART is switched off in the settings, denied when we may not list the disks, and failed when
        they cannot be listed for another reason or the thread cannot start.
        """
        self._start()
        unavailable = self._unavailable
        if unavailable is not None:
            raise Unavailable(unavailable.status, unavailable.reason, unavailable.remedy)
        if self._table is None:
            raise Unavailable(Status.PENDING, "the disks are not listed yet")
        # The thread changes the table first, so read it last: it is then never older than the generation and numbers.
        listed_generation, diskseqs = self._listed_generation, self._diskseqs
        table, self._read_at_ns = self._table, self._changed_at_ns
        if (generation := self._generation()) != self._seen_generation:
            self._seen_generation = generation
            self._wake.set()
        return table if listed_generation == generation else self._without_replaced(table, diskseqs)

    def _without_replaced(self, table: SmartTable, diskseqs: Mapping[str, int]) -> SmartTable:
        """Leave out disks whose names belong to other disks now: the thread may notice this only minutes later.

        diskseqs: the numbers of the disks when the thread listed them.
        """
        current = {name: self._diskseq(name) for name in table}
        # Keep a disk also if its number cannot be read now, or was unknown when the thread listed the disks.
        kept = {
            name: reading
            for name, reading in table.items()
            if current[name] in (None, diskseqs.get(name, current[name]))
        }
        if len(kept) == len(table):
            return table
        self._read_at_ns = self._clock.monotonic_ns()
        return kept

    def at_ns(self) -> int | None:
        """Return when the table of the last ``read`` was changed; None before the first table."""
        return self._read_at_ns

    def wait(self, seconds: float) -> bool:
        """Wait at most ``seconds`` for the end of the first round of queries; return whether it has ended."""
        with contextlib.suppress(Unavailable):
            self._start()
        return self._thread.started and self._first_round.wait(seconds)

    def suspend_queries(self, suspend: bool) -> None:
        """Suspend the queries (True) or resume them (False). They are suspended while a disk is saturated."""
        self._suspended = suspend
        if not suspend:
            self._wake.set()

    def refresh(self) -> None:
        """Query every disk now because the user asked for it, even while the queries are suspended."""
        self._refresh_asked = True
        self._wake.set()

    def pause(self, seconds: float) -> None:
        """Sleep for ``seconds``, or until the collector is closed."""
        self._closed.wait(seconds)

    def close(self) -> None:
        """End the thread, the helper and a running smartctl."""
        self._stopping = True
        self._closed.set()
        self._wake.set()
        self._helper.interrupt()
        self._thread.join(3.0)

    def _start(self) -> None:
        if not self._settings.smart:
            raise Unavailable(Status.OFF, "SMART is switched off")
        try:
            self._thread.start()
        except RuntimeError as error:
            raise Unavailable(Status.FAILED, f"the disks are not queried: {error}") from error

    def _run(self) -> None:
        known: frozenset[str] = frozenset()
        try:
            while not self._stopping:
                try:
                    known = self._poll(known)
                except PermissionError as error:  # normal in a sandbox, so it is not logged in each round
                    if self._table is None:
                        self._unavailable = Unavailable(Status.DENIED, clean(f"{error.filename}: {error.strerror}"))
                except Exception as error:  # report the error and keep the thread alive
                    log.exception("reading the SMART states failed")
                    if self._table is None:
                        self._unavailable = Unavailable(Status.FAILED, clean(f"{type(error).__name__}: {error}"))
                self._first_round.set()
                self._wake.wait(self._poll_s())
                self._wake.clear()
        finally:
            self._helper.stop()

    def _poll(self, known: frozenset[str]) -> frozenset[str]:
        """Query the disks that are due; return the names of all disks of the machine.

        known: the names that the last call returned.
        """
        disks = self._disks()
        known -= self._replaced(disks)
        names = frozenset(disk.name for disk in disks)
        self._urgent, self._refresh_asked = self._refresh_asked, False
        now_ns = self._clock.monotonic_ns()
        due = self._urgent or now_ns >= self._due_ns or self._is_newly_installed()
        tests = {name for name, at_ns in self._tests_due.items() if now_ns >= at_ns}
        if due or names != known or tests:
            self._query(disks, frozenset() if due else known - tests, scan=due or names != known)
            # A scan in this round may have found disks behind controllers, which were then queried too.
            known = names | {disk.name for disk in self._disks_behind}
        if due:
            self._due_ns = self._clock.monotonic_ns() + int(self._interval_s * 1e9)
        return known

    def _disks(self) -> tuple[Disk, ...]:
        self._root.entries("sys/block")  # raises OSError if it cannot be listed; smart_disks would return ()
        disks = with_given_types(smart_disks(self._root), self._settings.smart_types)
        return self._select((*disks, *self._disks_behind))

    def _replaced(self, disks: tuple[Disk, ...]) -> frozenset[str]:
        """Return the names that now belong to another disk, and forget the states of the replaced disks.

        Kernels before 5.15 do not number the disks, so a replaced disk is not noticed there.
        """
        generation = self._seen_generation
        now = {disk.name: number for disk in disks if (number := self._diskseq(disk.name)) is not None}
        replaced = frozenset(name for name, number in now.items() if self._diskseqs.get(name, number) != number)
        if replaced and self._table is not None:
            self._publish({name: reading for name, reading in self._table.items() if name not in replaced})
        # If a disk's number cannot be read this time, its old number is kept for the next comparison.
        self._diskseqs = {disk.name: self._diskseqs[disk.name] for disk in disks if disk.name in self._diskseqs} | now
        self._listed_generation = generation
        return replaced

    def _diskseq(self, name: str) -> int | None:
        return self._root.number_or_none(f"sys/block/{name.partition('/')[0]}/diskseq")

    def _select(self, disks: tuple[Disk, ...]) -> tuple[Disk, ...]:
        return tuple(disk for disk in disks if not self._only or disk.name in self._only)

    def _query(self, disks: tuple[Disk, ...], known: frozenset[str], scan: bool) -> None:
        """Query the disks that are not in ``known``, and forget removed disks.

        scan: whether to run smartctl --scan-open.
        """
        old = self._table or {}
        pending: Reading[SmartState] = Reading(None, Status.PENDING, "not queried yet")
        table = {
            disk.name: self._unsupported(disk) if not disk.device else old.get(disk.name, pending) for disk in disks
        }
        self._publish(table)
        self._tests_due = {name: at_ns for name, at_ns in self._tests_due.items() if name in table}
        to_query = [disk for disk in disks if disk.device and disk.name not in known]
        if not any(disk.device for disk in disks):
            self._unavailable = None
        if not to_query:
            return
        try:
            smartctl = find_smartctl(self._settings.smartctl, self._can_query)
        except Unavailable as unavailable:
            self._unavailable = unavailable
            return
        self._unavailable = None
        if not self._wait_while_suspended():
            return
        if scan:
            self._scanned = self._scan(smartctl)
            direct = [disk for disk in disks if disk not in self._disks_behind]
            self._disks_behind = self._select(behind_controllers(self._scanned.types, direct))
            disks = (*direct, *self._disks_behind)
            table = {disk.name: table.get(disk.name, pending) for disk in disks}
            to_query = [disk for disk in disks if disk.device and disk.name not in known]
        for disk in with_scanned_types(to_query, self._scanned.types, self._scanned.volumes):
            if not self._wait_while_suspended():
                return
            table[disk.name] = self._query_disk(smartctl, disk, old.get(disk.name))
            self._plan_test(disk.name, table[disk.name].value)
            self._publish(table)
        if self._interval_s >= KEEP_HELPER_BELOW_S and not self._tests_due:
            self._helper.stop()

    def _publish(self, table: dict[str, Reading[SmartState]]) -> None:
        # Make a new mapping each time, since read() has returned the previous one.
        self._changed_at_ns = self._clock.monotonic_ns()
        self._table = dict(table)

    def _wait_while_suspended(self) -> bool:
        """Wait while the queries are suspended, unless the user asked for them; return False after ``close``."""
        while self._suspended and not (self._urgent or self._stopping):
            self._wake.wait(_POLL_S)
            self._wake.clear()
            self._urgent, self._refresh_asked = self._refresh_asked, False
        return not self._stopping

    def _unsupported(self, disk: Disk) -> Reading[SmartState]:
        return Reading(None, Status.UNSUPPORTED, disk.reason, "", self._clock.monotonic_ns())

    def _plan_test(self, name: str, state: SmartState | None) -> None:
        """Plan the next query of a disk in a self-test. A long test takes hours, so the pauses grow."""
        self._tests_due.pop(name, None)
        if state is None or not state.self_test_runs:
            self._tests_since.pop(name, None)
        else:
            now_ns = self._clock.monotonic_ns()
            began_ns = self._tests_since.setdefault(name, now_ns)
            # The disk does not report which test runs, so the pause depends on the test's running time so far.
            pause_s = min(max((now_ns - began_ns) / 1e9 / _POLLS_PER_TEST, self._poll_s()), _LONGEST_TEST_POLL_S)
            self._tests_due[name] = now_ns + int(pause_s * 1e9)

    def _poll_s(self) -> float:
        return min(_POLL_S, self._interval_s)

    def _is_newly_installed(self) -> bool:
        """Whether smartctl was missing before and is installed now."""
        if self._unavailable is None:
            return False
        try:
            find_smartctl(self._settings.smartctl, self._can_query)
        except Unavailable:
            return False
        return True

    def _scan(self, smartctl: str) -> Scan:
        """Return what smartctl finds; the result of the previous scan if this one fails.

        Only the scan finds the types of USB bridges and the disks behind RAID controllers; sysfs lists all other disks.
        """
        try:
            # With sudo, the scan runs a second time.
            response = self._helper.ask(self._request("scan", smartctl, "scan"), 2 * self._timeout_s + 5)
        except Unavailable:
            return self._scanned
        if response.get("refused"):
            self._sudo_allowed["scan"] = False
        answer = parse_json(str(response.get("out", "")))
        return self._scanned if answer is None else parse_scan(answer)

    def _request(self, do: str, smartctl: str, key: str) -> dict[str, Any]:
        sudo = self._can_query and self._sudo_allowed.get(key, True)
        return {"do": do, "smartctl": smartctl, "timeout_s": self._timeout_s, "sudo": sudo}

    def _query_disk(self, smartctl: str, disk: Disk, old: Reading[SmartState] | None) -> Reading[SmartState]:
        start_ns = self._clock.monotonic_ns()
        response: dict[str, Any] = {}
        try:
            if not (is_device(disk.device) and is_type(disk.kind)):
                raise Unavailable(Status.UNSUPPORTED, "devices of this kind are not queried")
            request = {**self._request("read", smartctl, disk.device), "device": disk.device, "type": disk.kind}
            response = self._helper.ask(request, _CALLS_PER_DISK * self._timeout_s + 5)
            if response.get("refused"):
                # sudo logs each refusal, so do not try sudo again while the monitor runs.
                self._sudo_allowed[disk.device] = False
            state = self._state(response, disk)
        except Unavailable as unavailable:
            end_ns = self._clock.monotonic_ns()
            if unavailable.status is Status.ASLEEP and old is not None and old.value is not None:
                return old._replace(status=Status.ASLEEP, reason=unavailable.reason)
            if unavailable.status is Status.DENIED:
                sysfs_state, remedy = without_smart(self._root, disk), self._permission_remedy(smartctl, disk)
                return Reading(sysfs_state, unavailable.status, unavailable.reason, remedy, end_ns, end_ns - start_ns)
            if unavailable.reason == NOT_QUERIED:
                given = self._select(with_given_types((), self._settings.smart_types))
                reason = volume_reason(self._root, disk.name, (*given, *self._disks_behind))
                remedy = unavailable.remedy if reason == NOT_QUERIED else ""
                identity = _state_without_smart(response, disk)
                return Reading(identity, unavailable.status, reason, remedy, end_ns, end_ns - start_ns)
            partial_state = _state_without_smart(response, disk) if unavailable.status is Status.UNSUPPORTED else None
            return Reading(
                partial_state, unavailable.status, unavailable.reason, unavailable.remedy, end_ns, end_ns - start_ns
            )
        state = self._with_past(state, disk)
        end_ns = self._clock.monotonic_ns()
        return Reading(state, Status.OK, "", "", end_ns, end_ns - start_ns)

    def _with_past(self, state: SmartState, disk: Disk) -> SmartState:
        """Return the state with its history and the kernel's error counts, judged again if histories are stored."""
        errors, timeouts = kernel_counts(self._root, disk.name)
        state = state._replace(io_errors=errors, io_timeouts=timeouts)
        if self._history is None:
            return state._replace(read_wall_s=self._clock.wall_ns() // 1_000_000_000)
        return with_verdict(self._history.with_history(state))

    def _state(self, response: Mapping[str, Any], disk: Disk) -> SmartState:
        if response.get("timed_out"):
            reason = f"smartctl did not answer within {self._timeout_s:g} s and was killed"
            raise Unavailable(Status.FAILED, reason, f"dmesg | grep {disk.name}")
        answer, pysmart_values = parse_json(str(response.get("out", ""))), response.get("pysmart_values")
        if answer is None and response.get("status") and not pysmart_values:
            raise Unavailable(Status.FAILED, clean(str(response.get("stderr", "")).strip(), 160) or "smartctl failed")
        unavailable = None if answer is None else refusal(answer, str(response.get("stderr", "")))
        if answer is not None and disk.controller:
            unavailable = volume_refusal(disk.name, disk.controller, unavailable)
        if unavailable is not None:
            raise unavailable
        return parse_state(answer, pysmart_values if isinstance(pysmart_values, dict) else None, disk.device, disk.kind)

    def _permission_remedy(self, smartctl: str, disk: Disk) -> str:
        uid = os.getuid()
        try:
            user = pwd.getpwuid(uid).pw_name
        except KeyError:
            user = ""
        return sudoers_line(user, uid, smartctl, [(disk.kind, disk.device)])


def _state_without_smart(response: Mapping[str, Any], disk: Disk) -> SmartState | None:
    """Return the identity and temperature of a disk without SMART; None when smartctl does not report them."""
    answer = parse_json(str(response.get("out", "")))
    if answer is None or not ({"model_name", "scsi_model_name"} & answer.keys()):
        return None
    state = parse_state(answer, None, disk.device, disk.kind)
    return state._replace(severity="unknown", reasons=(), judgements=())
