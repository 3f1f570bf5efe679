"""Frames to lines of a recording and back. A line is one JSON object; ``k`` says its kind.

hdr   who and what, first in a file and again after a reboot or a resume
ev    something that happened; stands before the snap it belongs to
snap  a Snapshot: whole in a keyframe ("key"), else what changed since the line before
verdict  the verdict, when it changed: a cache, with the header's stamp
tally  what the verdict was since the last keyframe, summed; stands right before the next one: a cache as well
end   the last line of a file that was closed properly
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from iotop_ai.model.carry import Carry
from iotop_ai.model.errors import InputError
from iotop_ai.model.finding import Verdict
from iotop_ai.model.frame import Frame
from iotop_ai.model.record import NamedTuple
from iotop_ai.model.sample import Sample
from iotop_ai.model.snapshot import Event, Snapshot
from iotop_ai.model.tally import Tally
from iotop_ai.model.typed import hints_of
from iotop_ai.store.follows import expected, settled
from iotop_ai.store.pieces import pieces, to_line
from iotop_ai.store.sane import check_carry, check_sample, check_snapshot, check_tally, check_times, check_verdict
from iotop_ai.store.shape import SAME, Group, Record, shape_of
from iotop_ai.store.times import TIMED, order_of, times_of, with_times, without_times, without_times_of
from iotop_ai.store.wire import ShapeError

FORMAT = 1
KEYFRAME_EVERY = 60
LONGEST_LINE = 16 << 20

_SNAPSHOT, _SAMPLE, _CARRY = shape_of(Snapshot), shape_of(Sample), shape_of(Carry)
_OF_THE_LINE = ("seq", "at_ns", "wall_ns", "events")
_CHANGES = without_times_of(_SNAPSHOT, _OF_THE_LINE)
"""As far as changes go without what stands in the line itself or in lines of its own."""
_VERDICT, _TALLY = shape_of(Verdict), shape_of(Tally)
TALLY_LINE = b'{"k":"tally",'


def record_fields() -> dict[str, list[str]]:
    """The field names of every record that is written as an array, by record name: the legend in each header."""
    found: dict[str, list[str]] = {}

    def walk(shape: Any) -> None:
        if isinstance(shape, Record):
            found[shape.kind.__name__] = list(shape.kind._fields)
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
    return dict(sorted(found.items()))


class Header(NamedTuple):
    """The first line of a session. continues: the same session goes on from another file (rotation)."""

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


def header_line(header: Header) -> str:
    """The hdr line."""
    return to_line(
        {
            "k": "hdr", "fmt": header.format, "tool": header.tool, "host": header.host, "boot": header.boot_id,
            "t": header.wall_ns, "m": header.at_ns, "interval": header.interval_s, "redact": header.redact,
            "stamp": header.stamp, "continues": header.continues, "origin": header.origin,
            "fields": record_fields(),
        }
    )  # fmt: skip


class Text(NamedTuple):
    """Lines with their ends. key: a keyframe is among them."""

    key: bool
    pieces: Iterable[str]


class Encoder:
    """Writes Frames as lines; remembers the Snapshot of the line before and when the next keyframe is due."""

    def __init__(self, keyframe_every: int = KEYFRAME_EVERY) -> None:
        self._every = keyframe_every
        self._before: Snapshot | None = None
        """The Snapshot of the line before."""
        self._since_key = 0
        self._verdict: Verdict | None = None

    def restart(self) -> None:
        """The next line is a keyframe (a new file, a new session, a gap), and the verdict is told again."""
        self._before = self._verdict = None

    def lines(self, frame: Frame, *, gap: bool = False, pre: bool = False) -> list[str]:
        """The ev, snap and verdict lines of a Frame; the first snap line after a restart or a gap is a keyframe.

        gap: Snapshots before this one were dropped. pre: a line of the pre-roll, which yields no Frame when read.
        """
        return "".join(self.text(frame, gap=gap, pre=pre).pieces).split("\n")[:-1]

    def text(self, frame: Frame, *, gap: bool = False, pre: bool = False) -> Text:
        """The same with their ends, a keyframe in pieces that are made as they are taken; all must be."""
        snapshot = frame.snapshot
        line: dict[str, Any] = {"k": "snap", "m": snapshot.at_ns, "t": snapshot.wall_ns}
        if gap:
            line["gap"] = True
        if pre:
            line["pre"] = True
        before = None if gap or self._since_key >= self._every else self._before
        snap: Iterable[str]
        if before is None:
            line["key"] = True
            line["n"] = snapshot.seq
            line["timed"] = TIMED
            line |= times_of(snapshot, None)
            snap = _keyframe(line, frame)
            self._since_key = 0
        else:
            if snapshot.seq != before.seq + 1:
                line["n"] = snapshot.seq
            line |= times_of(snapshot, before)
            processes = expected(before.processes, snapshot.processes)
            change = _CHANGES.change(snapshot, before._replace(processes=processes))
            line["v"] = {} if change is SAME else change
            snap = (to_line(line), "\n")
        self._before = snapshot
        self._since_key += 1
        told = ""
        if self._verdict is None or verdict_key(self._verdict) != verdict_key(frame.verdict):
            verdict = {"k": "verdict", "m": snapshot.at_ns, "t": snapshot.wall_ns, "v": _VERDICT.dump(frame.verdict)}
            told = to_line(verdict) + "\n"
        self._verdict = frame.verdict
        return Text(before is None, chain((to_line(_event(event)) + "\n" for event in snapshot.events), snap, (told,)))


def _keyframe(line: Mapping[str, Any], frame: Frame) -> Iterator[str]:
    yield to_line(line)[:-1] + ',"v":'
    yield from pieces(_SNAPSHOT, without_times(frame.snapshot), _OF_THE_LINE)
    yield ',"carry":'
    yield from pieces(_CARRY, frame.carry)
    yield ',"last":'
    yield from pieces(_SAMPLE, frame.sample)
    yield "}\n"


def tally_line(snapshot: Snapshot, tally: Tally) -> str:
    """The tally line behind a block whose last Snapshot this is."""
    return to_line({"k": "tally", "m": snapshot.at_ns, "t": snapshot.wall_ns, "v": _TALLY.dump(tally)})


def verdict_key(verdict: Verdict) -> tuple[str, str, str]:
    """What makes a verdict another one: state, class and subject, not its figures."""
    first = verdict.primary
    return (first.state, first.class_id, first.subject)


class Snap(NamedTuple):
    """A decoded snap line. carry and last: of a keyframe, else None."""

    snapshot: Snapshot
    key: bool
    gap: bool
    pre: bool
    carry: Carry | None
    last: Sample | None


class Told(NamedTuple):
    """A decoded verdict line."""

    at_ns: int
    wall_ns: int
    verdict: Verdict


class Tallied(NamedTuple):
    """A decoded tally line. at_ns, wall_ns: of the last Snapshot that it counts."""

    at_ns: int
    wall_ns: int
    tally: Tally


class Closed(NamedTuple):
    """A decoded end line."""

    at_ns: int


Item = Header | Snap | Event | Told | Tallied | Closed


def _refuse_constant(name: str) -> float:
    raise ShapeError(f"{name} is no number of a recording")


class Decoder:
    """Reads lines in order from a header or a keyframe on; remembers the Snapshot of the line before.

    Lines that come before the first keyframe are skipped. Kinds and fields that are not known are ignored.
    """

    def __init__(self) -> None:
        self._before: Snapshot | None = None
        self._events: list[Event] = []
        self._timed = TIMED

    def read(self, line: bytes, number: int = 0) -> Item | None:
        """What a line holds; None for an unknown kind or a change without its keyframe.

        Raises InputError with the line's number (where one is given) and a reason, never its content.
        """
        place = f"line {number}: " if number else ""
        if len(line) > LONGEST_LINE:
            raise InputError(f"{place}longer than 16 MiB")
        try:
            raw = json.loads(line, parse_constant=_refuse_constant)
            if type(raw) is not dict:
                raise ShapeError("no object")
            return self._item(raw)
        except ShapeError as error:
            raise InputError(f"{place}{error}") from None
        except RecursionError:
            raise InputError(f"{place}nested too deeply") from None
        except MemoryError:
            raise InputError(f"{place}takes more memory than there is") from None
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            raise InputError(f"{place}not a line of a recording") from None

    def _item(self, raw: dict[str, Any]) -> Item | None:
        kind = raw.get("k")
        if kind == "snap":
            return self._snap(raw)
        if kind == "ev":
            more = {name: shape.load(raw[name]) for name, shape in _OF_AN_EVENT.items() if name in raw}
            event = Event(_int(raw["m"]), _int(raw["t"]), _text(raw["kind"]), _text(raw["text"]), **more)
            self._events.append(event)
            return event
        if kind == "verdict":
            verdict: Verdict = _VERDICT.load(raw["v"])
            check_verdict(verdict)
            return Told(_int(raw["m"]), _int(raw["t"]), verdict)
        if kind == "tally":
            tally: Tally = _TALLY.load(raw["v"])
            check_tally(tally)
            return Tallied(_int(raw["m"]), _int(raw["t"]), tally)
        if kind == "hdr":
            return self._header(raw)
        if kind == "end":
            return Closed(_int(raw["m"]))
        return None

    def _header(self, raw: dict[str, Any]) -> Header:
        written = _int(raw["fmt"])
        if written > FORMAT:
            raise ShapeError(f"format {written} was written by a newer iotop-ai (this one reads up to {FORMAT})")
        header = Header(
            format=written,
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
        )
        check_times(header.wall_ns, header.at_ns)
        if not header.continues:
            self._before = None
        return header

    def _snap(self, raw: dict[str, Any]) -> Snap | None:
        key = raw.get("key") is True
        if not key and self._before is None:
            self._events.clear()
            return None
        snapshot = self._whole(raw) if key or self._before is None else self._changed(raw, self._before)
        check_snapshot(snapshot)
        self._before = snapshot
        events, self._events = tuple(self._events), []
        carry = _CARRY.load(raw["carry"]) if key and "carry" in raw else None
        last = _SAMPLE.load(raw["last"]) if key and "last" in raw else None
        if carry is not None:
            check_carry(carry)
        if last is not None:
            check_sample(last)
        return Snap(snapshot._replace(events=events), key, raw.get("gap") is True, raw.get("pre") is True, carry, last)

    def _whole(self, raw: dict[str, Any]) -> Snapshot:
        of_the_line = {"seq": raw["n"], "at_ns": raw["m"], "wall_ns": raw["t"], "events": []}
        self._timed = order_of(raw["timed"])
        return with_times(_SNAPSHOT.load({**raw["v"], **of_the_line}), raw, None, self._timed)

    def _changed(self, raw: dict[str, Any], before: Snapshot) -> Snapshot:
        change = {name: part for name, part in raw["v"].items() if name not in _OF_THE_LINE}
        bare: Snapshot = _SNAPSHOT.apply(change, before)._replace(
            seq=_int(raw["n"]) if "n" in raw else before.seq + 1,
            at_ns=_int(raw["m"]),
            wall_ns=_int(raw["t"]),
            events=(),
        )
        snapshot = with_times(bare, raw, before, self._timed)
        processes = settled(change.get("processes", {}), before.processes, snapshot.processes)
        return snapshot._replace(processes=processes)


_OF_AN_EVENT: dict[str, Any] = {name: shape_of(hints_of(Event)[name]) for name in Event._field_defaults}
"""What an ev line holds only where it is known."""


def _event(event: Event) -> dict[str, Any]:
    line = {"k": "ev", "m": event.at_ns, "t": event.wall_ns, "kind": event.kind, "text": event.text}
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
