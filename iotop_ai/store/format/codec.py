"""Converts Frames to lines of a recording and back. A line is one JSON object; ``k`` is its kind:

hdr      the writer and the machine: first in a file, and again after a reboot or when a session is appended
ev       an event, before the snap line that it belongs to
snap     a Snapshot: complete in a keyframe ("key"), otherwise the changes since the previous snap line
verdict  the verdict, if it changed: a cache, valid only for the rules whose stamp is in the header
tally    the summed verdicts since the last keyframe, written just before the next one; also a cache
end      the last line of a file that was closed properly

The stamp is the version of the rules with a checksum of their numbers. A keyframe also contains the fold state
(``carry``), which the rules pass from one Sample to the next, and the Sample (``last``): the rates up to this Snapshot.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, TypeVar, get_type_hints

from iotop_ai.diagnosis.rules_version import stamp
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.errors import InputError
from iotop_ai.model.finding import Verdict
from iotop_ai.model.fold_state import FoldState
from iotop_ai.model.frame import Frame
from iotop_ai.model.sample import Sample
from iotop_ai.model.snapshot import Event, Snapshot
from iotop_ai.model.verdict_totals import VerdictTotals
from iotop_ai.store.format.json_chunks import iter_json_chunks, to_line
from iotop_ai.store.format.line_head import ADDED_BYTES, Kind, has_key, snap_fields
from iotop_ai.store.format.process_times import with_predicted_times, with_written_times
from iotop_ai.store.format.range_checks import (
    UnknownClassError,
    check_carry,
    check_sample,
    check_snapshot,
    check_tally,
    check_times,
    check_verdict,
)
from iotop_ai.store.format.rated_cells import rated_cells
from iotop_ai.store.format.reading_times import TIMED, order_of, times_of, with_times, without_times, without_times_of
from iotop_ai.store.format.scalars import ShapeError
from iotop_ai.store.format.shapes import SAME, Group, Record, shape_of
from iotop_ai.store.format.size_limits import LARGEST_BLOCK, LONGEST_LINE, LineTooLong, ReaderBudget, check_values

FORMAT = 1
KEYFRAME_EVERY = 60
"""The number of snap lines from one keyframe to the next."""
KEYFRAME_BYTES = LARGEST_BLOCK // 2
"""After a block of this many bytes, the next snap line is a keyframe: readers refuse blocks above LARGEST_BLOCK."""
CLOCK_STEP_NS = 1_000_000_000
"""If the wall clock and the monotonic clock moved by amounts that differ by more than this, the wall clock was set. A
smaller difference proves nothing, because the two clocks are not read at the same instant."""

T = TypeVar("T")
_SNAPSHOT, _SAMPLE, _CARRY = shape_of(Snapshot), shape_of(Sample), shape_of(FoldState)
_LINE_FIELDS = ("seq", "at_ns", "wall_ns", "events")
"""Fields of a Snapshot that are written as fields of its line, or as lines of their own."""
_CHANGES = without_times_of(_SNAPSHOT, _LINE_FIELDS)
"""The shape of a Snapshot whose changes leave out _LINE_FIELDS and the times of the Readings."""
_VERDICT, _TALLY = shape_of(Verdict), shape_of(VerdictTotals)
_NAMES_IN_FORMAT_1 = {
    "ActiveFinding": "Held",
    "WorkerRestart": "Turn",
    "VerdictTotals": "Tally",
    "FindingTotal": "Share",
    "VerdictSpan": "Stretch",
    "ProgramIo": "Moved",
    "ProgramIoRates": "MovedRates",
}
"""The old name of each record class that was renamed after format 1 was defined; headers still use the old name."""
_FIELDS_IN_FORMAT_1 = {
    "VerdictTotals": {"finding_totals": "shares", "spans": "stretches", "verdict_job_time": "led"},
    "FindingTotal": {"active_ns": "stood_ns", "primary_ns": "first_ns", "primary_lost_ns": "led_ns"},
    "VerdictSpan": {"duration_ns": "stood_ns"},
    "JobMemory": {"restarts": "turns", "last_worker_ended_ns": "left_ns"},
    "Wait": {"sampled": "looked"},
}
"""By class and field, the old name of each field that was renamed after format 1 was defined."""


def record_fields() -> dict[str, list[str]]:
    """The ``fields`` of a header: the field names of each record that is written as an array, by the record's name."""
    names: dict[str, list[str]] = {}

    def walk(shape: Any) -> None:
        if isinstance(shape, Record):
            name = shape.kind.__name__
            old_names = _FIELDS_IN_FORMAT_1.get(name, {})
            names[_NAMES_IN_FORMAT_1.get(name, name)] = [old_names.get(field, field) for field in shape.kind._fields]
        inner = shape.fields if isinstance(shape, Record | Group) else ()
        for part in inner.values() if isinstance(inner, Mapping) else inner:
            walk(part)
        for name in ("inner", "item"):
            if hasattr(shape, name):
                walk(getattr(shape, name))
        for part in getattr(shape, "kinds", ()):
            if not isinstance(part, type):
                walk(part)

    for shape in (_SNAPSHOT, _SAMPLE, _CARRY, _VERDICT, _TALLY):
        walk(shape)
    return dict(sorted(names.items()))


class Header(NamedTuple):
    """A decoded hdr line.

    redact: the level to which command lines are redacted
    stamp: the stamp of the rules that made the cached verdicts
    continues: whether the session began in another file
    origin: the program whose log was imported; "" if iotop-ai itself recorded
    after: the name of the earlier file, if this file continues it because writing to it failed; otherwise ""
    """

    format: int
    tool: str
    host: str
    boot_id: str
    wall_ns: int
    at_ns: int
    interval_s: float
    redact: str
    stamp: str
    continues: bool
    origin: str = ""
    after: str = ""


def header_line(header: Header) -> str:
    """The hdr line of a header."""
    return to_line(
        {
            "k": Kind.HEADER, "fmt": header.format, "tool": header.tool, "host": header.host, "boot": header.boot_id,
            "t": header.wall_ns, "m": header.at_ns, "interval": header.interval_s, "redact": header.redact,
            "stamp": header.stamp, "continues": header.continues, "origin": header.origin,
            **({"after": header.after} if header.after else {}),
            "fields": record_fields(),
        }
    )  # fmt: skip


class EncodedLines(NamedTuple):
    """The text of lines with their line ends, in chunks. key: whether a keyframe is among them."""

    key: bool
    chunks: Iterable[str]


class Encoder:
    """Writes Frames as lines: a keyframe first and then every ``keyframe_every`` snap lines, otherwise changes.

    It also writes a keyframe after KEYFRAME_BYTES, and if the wall clock was set, because a reader detects this by the
    keyframes alone.
    """

    def __init__(self, keyframe_every: int = KEYFRAME_EVERY) -> None:
        self._keyframe_every = keyframe_every
        self._before: Snapshot | None = None
        """The Snapshot of the previous line; None if the next line is a keyframe."""
        self._since_key = self._bytes_since_key = 0
        self._verdict: Verdict | None = None

    def restart(self) -> None:
        """Make the next line a keyframe and write the verdict again: for a new file, a new session or a gap."""
        self._before = self._verdict = None

    def lines(self, frame: Frame, *, gap: bool = False) -> list[str]:
        """The ev, snap and verdict lines of a Frame. Raises LineTooLong, after which ``restart`` must be called.

        gap: whether Snapshots before this one were dropped
        """
        return "".join(self.encode(frame, gap=gap).chunks).split("\n")[:-1]

    def encode(self, frame: Frame, *, gap: bool = False) -> EncodedLines:
        """Like ``lines``, but in chunks that are made while the caller iterates.

        The caller must take all chunks. Taking a chunk may raise LineTooLong.
        """
        snapshot = frame.snapshot
        before = None if gap or self._is_block_full() else self._before
        if before is not None and _clock_was_set(before, snapshot):
            before = None
        line = snap_fields(snapshot.at_ns, snapshot.wall_ns, gap=gap, key=before is None)
        snap: Iterable[str]
        if before is None:
            line |= {"n": snapshot.seq, "timed": TIMED} | times_of(snapshot, None)
            snap = _limited(_keyframe(line, frame))
            self._since_key = self._bytes_since_key = 0
        else:
            if snapshot.seq != before.seq + 1:
                line["n"] = snapshot.seq
            line |= times_of(snapshot, before)
            processes = with_predicted_times(before.processes, snapshot.processes)
            change = _CHANGES.change(snapshot, before._replace(processes=processes))
            line["v"] = {} if change is SAME else change
            snap = _limited((to_line(line), "\n"))
        self._before = snapshot
        self._since_key += 1
        verdict = ""
        if self._verdict is None or verdict_key(self._verdict) != verdict_key(frame.verdict):
            fields = {"k": Kind.VERDICT, "m": snapshot.at_ns, "t": snapshot.wall_ns, "v": _VERDICT.dump(frame.verdict)}
            verdict = to_line(fields) + "\n"
        self._verdict = frame.verdict
        events = (to_line(_event_fields(event)) + "\n" for event in snapshot.events)
        return EncodedLines(before is None, self._counted(chain(events, snap, (verdict,))))

    def _is_block_full(self) -> bool:
        return self._since_key >= self._keyframe_every or self._bytes_since_key >= KEYFRAME_BYTES

    def _counted(self, chunks: Iterable[str]) -> Iterator[str]:
        for chunk in chunks:
            self._bytes_since_key += _byte_count(chunk)
            yield chunk


def _clock_was_set(before: Snapshot, after: Snapshot) -> bool:
    """Whether the two clocks moved by amounts that differ by more than CLOCK_STEP_NS, as also happens in a suspend."""
    return abs((after.wall_ns - before.wall_ns) - (after.at_ns - before.at_ns)) > CLOCK_STEP_NS


def _keyframe(line: Mapping[str, Any], frame: Frame) -> Iterator[str]:
    yield to_line(line)[:-1] + ',"v":'
    yield from iter_json_chunks(_SNAPSHOT, without_times(frame.snapshot), _LINE_FIELDS)
    yield ',"carry":'
    yield from iter_json_chunks(_CARRY, frame.carry)
    yield ',"last":'
    yield from iter_json_chunks(_SAMPLE, frame.sample)
    yield "}\n"


def _limited(chunks: Iterable[str]) -> Iterator[str]:
    """The chunks of a line, including its line end.

    Raises LineTooLong if readers would refuse the line together with the fields that are added to it later.
    """
    length = -1
    for chunk in chunks:
        length += _byte_count(chunk)
        if length > LONGEST_LINE - ADDED_BYTES:
            raise LineTooLong
        yield chunk


def _byte_count(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def tally_line(snapshot: Snapshot, tally: VerdictTotals) -> str:
    """The tally line of a block; ``snapshot`` is the last Snapshot in the block."""
    return to_line({"k": Kind.TOTALS, "m": snapshot.at_ns, "t": snapshot.wall_ns, "v": _TALLY.dump(tally)})


def verdict_key(verdict: Verdict) -> tuple[str, str, str]:
    """The state, class and subject of a verdict; verdicts that differ only in their figures have equal keys."""
    first = verdict.primary
    return (first.state, first.class_id, first.subject)


class SnapLine(NamedTuple):
    """A decoded snap line.

    key: whether it is a keyframe
    gap: whether Snapshots before it were dropped
    pre: whether it is pre-roll, which is from the minute before the recording and is not shown
    carry, last: the fold state and the Sample of a keyframe; None if they are missing, ignored or were not decoded
    """

    snapshot: Snapshot
    key: bool
    gap: bool
    pre: bool
    carry: FoldState | None
    last: Sample | None


class VerdictLine(NamedTuple):
    """A decoded verdict line."""

    at_ns: int
    wall_ns: int
    verdict: Verdict


class TotalsLine(NamedTuple):
    """A decoded tally line; at_ns and wall_ns are the times of the last Snapshot that it includes."""

    at_ns: int
    wall_ns: int
    tally: VerdictTotals


class EndLine(NamedTuple):
    """A decoded end line."""

    at_ns: int


Item = Header | SnapLine | Event | VerdictLine | TotalsLine | EndLine


def _refuse_constant(name: str) -> float:
    raise ShapeError(f"{name} is not a number of a recording")


class Decoder:
    """Reads lines in order, starting at a header or a keyframe.

    Changes before the first keyframe are skipped. Unknown kinds and fields are ignored. If other rules made
    the verdicts, totals and fold states, those with an unknown class are ignored too, because no reader uses them.

    budget: the limits for memory, which the decoders of consecutive files share
    with_states: whether to decode the fold state and Sample of a keyframe too; they take most of its decoding time
    own_rules: whether the stamp of the header before the first line is that of this program
    """

    def __init__(self, budget: ReaderBudget | None = None, *, with_states: bool = True, own_rules: bool = True) -> None:
        self._with_states = with_states
        self._own_rules = own_rules
        self._before: Snapshot | None = None
        """The Snapshot of the previous line."""
        self._events: list[Event] = []
        """The events since the last snap line."""
        self._timed = TIMED
        """The order of the times that the last keyframe stated."""
        self._budget = budget or ReaderBudget()

    def read(self, line: bytes, number: int = 0) -> Item | None:
        """The decoded line; None for an unknown kind, a change without its keyframe, and an ignored verdict or total.

        Raises InputError with a reason, which never quotes the line.

        number: the number of the line, for the message
        """
        place = f"line {number}: " if number else ""
        if len(line) > LONGEST_LINE:
            raise InputError(f"{place}longer than 16 MiB")
        try:
            check_values(line)
            raw = json.loads(line, parse_constant=_refuse_constant)
            if type(raw) is not dict:
                raise ShapeError("not an object")
            return self._item(raw, len(line))
        except ShapeError as error:
            raise InputError(f"{place}{error}") from None
        except RecursionError:
            raise InputError(f"{place}nested too deeply") from None
        except MemoryError:
            raise InputError(f"{place}takes more memory than there is") from None
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            raise InputError(f"{place}not a line of a recording") from None

    def skip(self, line: bytes) -> None:
        """Skip a snap line whose Snapshot is not needed, and its events. Raises InputError if it exceeds a limit."""
        try:
            self._budget.count_line(len(line), has_key(line))
        except ShapeError as error:
            raise InputError(str(error)) from None
        self._events.clear()

    def _item(self, raw: dict[str, Any], length: int) -> Item | None:
        kind = raw.get("k")
        if kind == Kind.SNAPSHOT:
            return self._snap(raw, length)
        if kind == Kind.EVENT:
            self._budget.count_event()
            more = {name: shape.load(raw[name]) for name, shape in _OPTIONAL_EVENT_FIELDS.items() if name in raw}
            event = Event(_int(raw["m"]), _int(raw["t"]), _text(raw["kind"]), _text(raw["text"]), **more)
            self._events.append(event)
            return event
        if kind == Kind.VERDICT:
            verdict = self._checked(check_verdict, _VERDICT.load(raw["v"]))
            return None if verdict is None else VerdictLine(_int(raw["m"]), _int(raw["t"]), verdict)
        if kind == Kind.TOTALS:
            tally = self._checked(check_tally, _TALLY.load(raw["v"]))
            return None if tally is None else TotalsLine(_int(raw["m"]), _int(raw["t"]), tally)
        if kind == Kind.HEADER:
            return self._header(raw)
        if kind == Kind.END:
            return EndLine(_int(raw["m"]))
        return None

    def _checked(self, check: Callable[[T], None], record: T) -> T | None:
        """The record; None if it has an unknown class and other rules made it. Raises ShapeError if the check fails."""
        try:
            check(record)
        except UnknownClassError:
            if self._own_rules:
                raise
            return None
        return record

    def _header(self, raw: dict[str, Any]) -> Header:
        version = _int(raw["fmt"])
        if version > FORMAT:
            raise ShapeError(f"format {version} was written by a newer iotop-ai (this one reads up to {FORMAT})")
        header = Header(
            format=version,
            tool=_text(raw["tool"]),
            host=_text(raw["host"]),
            boot_id=_text(raw["boot"]),
            wall_ns=_int(raw["t"]),
            at_ns=_int(raw["m"]),
            interval_s=shape_of(float).load(raw["interval"]),
            redact=_text(raw["redact"]),
            stamp=_text(raw["stamp"]),
            continues=raw["continues"] is True,
            origin=_text(raw.get("origin", "")),
            after=_text(raw.get("after", "")),
        )
        check_times(header.wall_ns, header.at_ns)
        self._own_rules = header.stamp == stamp()
        if not header.continues:
            self._before = None
        return header

    def _snap(self, raw: dict[str, Any], length: int) -> SnapLine | None:
        key = raw.get("key") is True
        self._budget.count_line(length, key)
        if not key and self._before is None:
            self._events.clear()
            return None
        snapshot = self._from_keyframe(raw) if key or self._before is None else self._from_change(raw, self._before)
        check_snapshot(snapshot)
        table = snapshot.processes.value
        cells = rated_cells(snapshot, self._before)
        self._budget.count_snapshot(snapshot.at_ns, length, len(table.info) if table else 0, cells)
        self._before = snapshot
        events, self._events = tuple(self._events), []
        with_states = key and self._with_states
        carry = self._checked(check_carry, _CARRY.load(raw["carry"])) if with_states and "carry" in raw else None
        last = _SAMPLE.load(raw["last"]) if with_states and "last" in raw else None
        if last is not None:
            check_sample(last)
        gap, pre = raw.get("gap") is True, raw.get("pre") is True
        return SnapLine(snapshot._replace(events=events), key, gap, pre, carry, last)

    def _from_keyframe(self, raw: dict[str, Any]) -> Snapshot:
        line_fields = {"seq": raw["n"], "at_ns": raw["m"], "wall_ns": raw["t"], "events": []}
        self._timed = order_of(raw["timed"])
        return with_times(_SNAPSHOT.load({**raw["v"], **line_fields}), raw, None, self._timed)

    def _from_change(self, raw: dict[str, Any], before: Snapshot) -> Snapshot:
        change = {name: part for name, part in raw["v"].items() if name not in _LINE_FIELDS}
        bare: Snapshot = _SNAPSHOT.apply(change, before)._replace(
            seq=_int(raw["n"]) if "n" in raw else before.seq + 1,
            at_ns=_int(raw["m"]),
            wall_ns=_int(raw["t"]),
            events=(),
        )
        snapshot = with_times(bare, raw, before, self._timed)
        processes = with_written_times(change.get("processes", {}), before.processes, snapshot.processes)
        return snapshot._replace(processes=processes)


_OPTIONAL_EVENT_FIELDS: dict[str, Any] = {
    name: shape_of(hint) for name, hint in get_type_hints(Event).items() if name in Event._field_defaults
}
"""Fields of an ev line that are left out if they are unknown."""


def end_line(at_ns: int) -> str:
    """The last line of a file that is closed properly. at_ns: the monotonic time."""
    return to_line({"k": Kind.END, "m": at_ns})


def _event_fields(event: Event) -> dict[str, Any]:
    line = {"k": Kind.EVENT, "m": event.at_ns, "t": event.wall_ns, "kind": event.kind, "text": event.text}
    for name, default in Event._field_defaults.items():
        if (value := getattr(event, name)) != default:
            line[name] = value
    return line


def _int(raw: Any) -> int:
    number: int = shape_of(int).load(raw)
    return number


def _text(raw: Any) -> str:
    text: str = shape_of(str).load(raw)
    return text
