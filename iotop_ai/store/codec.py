"""Frames to lines of a recording and back. A line is one JSON object; ``k`` says its kind.

hdr   who and what, first in a file and again after a reboot or a resume
ev    something that happened; stands before the snap it belongs to
snap  a Snapshot: whole in a keyframe ("key"), else what changed since the line before
verdict  the verdict, when it changed: a cache, with the header's stamp
end   the last line of a file that was closed properly
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from iotop_ai.model.carry import Carry
from iotop_ai.model.errors import InputError
from iotop_ai.model.finding import Verdict
from iotop_ai.model.frame import Frame
from iotop_ai.model.sample import Sample
from iotop_ai.model.snapshot import Event, Snapshot
from iotop_ai.store.shape import SAME, Group, Record, ShapeError, shape_of

FORMAT = 1
KEYFRAME_EVERY = 60
LONGEST_LINE = 16 << 20

_SNAPSHOT, _SAMPLE, _CARRY = shape_of(Snapshot), shape_of(Sample), shape_of(Carry)
_VERDICT, _EVENT = shape_of(Verdict), shape_of(Event)


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

    for shape in (_SNAPSHOT, _SAMPLE, _CARRY, _VERDICT):
        walk(shape)
    return dict(sorted(found.items()))


def to_line(record: Mapping[str, Any]) -> str:
    """One line of the file, without its line end."""
    return json.dumps(record, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


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
            "stamp": header.stamp, "continues": header.continues, "origin": header.origin, "fields": record_fields(),
        }
    )  # fmt: skip


class Encoder:
    """Writes Frames as lines; remembers the Snapshot of the line before and when the next keyframe is due."""

    def __init__(self, keyframe_every: int = KEYFRAME_EVERY) -> None:
        self._every = keyframe_every
        self._before: Snapshot | None = None
        self._since_key = 0
        self._verdict: Verdict | None = None

    def restart(self) -> None:
        """The next line is a keyframe (a new file, a new session, a gap)."""
        self._before = None

    def lines(self, frame: Frame, *, gap: bool = False, pre: bool = False) -> list[str]:
        """The ev, snap and verdict lines of a Frame; the first snap line after a restart or a gap is a keyframe.

        gap: Snapshots before this one were dropped. pre: a line of the pre-roll, which yields no Frame when read.
        """
        snapshot = frame.snapshot
        out = [
            to_line({"k": "ev", "m": e.at_ns, "t": e.wall_ns, "kind": e.kind, "text": e.text}) for e in snapshot.events
        ]
        bare = snapshot._replace(events=())
        line: dict[str, Any] = {"k": "snap", "m": snapshot.at_ns, "t": snapshot.wall_ns}
        if gap:
            line["gap"] = True
        if pre:
            line["pre"] = True
        if gap or self._before is None or self._since_key >= self._every:
            line["key"] = True
            line["v"] = _SNAPSHOT.dump(bare)
            line["carry"] = _CARRY.dump(frame.carry)
            line["last"] = _SAMPLE.dump(frame.sample)
            self._since_key = 0
        else:
            change = _SNAPSHOT.change(bare, self._before)
            line["v"] = {} if change is SAME else change
        self._before = bare
        self._since_key += 1
        out.append(to_line(line))
        if self._verdict is None or verdict_key(self._verdict) != verdict_key(frame.verdict):
            out.append(
                to_line({"k": "verdict", "m": snapshot.at_ns, "t": snapshot.wall_ns, "v": _VERDICT.dump(frame.verdict)})
            )
        self._verdict = frame.verdict
        return out


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


class Closed(NamedTuple):
    """A decoded end line."""

    at_ns: int


Item = Header | Snap | Event | Told | Closed


def _refuse_constant(name: str) -> float:
    raise ShapeError(f"{name} is no number of a recording")


class Decoder:
    """Reads lines in order from a header or a keyframe on; remembers the Snapshot of the line before.

    Lines that come before the first keyframe are skipped. Kinds and fields that are not known are ignored.
    """

    def __init__(self) -> None:
        self._before: Snapshot | None = None
        self._events: list[Event] = []

    def read(self, line: bytes, number: int = 0) -> Item | None:
        """What a line holds; None for an unknown kind or a change without its keyframe.

        Raises InputError with the line's number and a reason, never its content.
        """
        if len(line) > LONGEST_LINE:
            raise InputError(f"line {number}: longer than 16 MiB")
        try:
            raw = json.loads(line, parse_constant=_refuse_constant)
            if type(raw) is not dict:
                raise ShapeError("no object")
            return self._item(raw)
        except ShapeError as error:
            raise InputError(f"line {number}: {error}") from None
        except RecursionError:
            raise InputError(f"line {number}: nested too deeply") from None
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            raise InputError(f"line {number}: not a line of a recording") from None

    def _item(self, raw: dict[str, Any]) -> Item | None:
        kind = raw.get("k")
        if kind == "snap":
            return self._snap(raw)
        if kind == "ev":
            event = Event(_int(raw["m"]), _int(raw["t"]), _text(raw["kind"]), _text(raw["text"]))
            self._events.append(event)
            return event
        if kind == "verdict":
            return Told(_int(raw["m"]), _int(raw["t"]), _VERDICT.load(raw["v"]))
        if kind == "hdr":
            return self._header(raw)
        if kind == "end":
            return Closed(_int(raw["m"]))
        return None

    def _header(self, raw: dict[str, Any]) -> Header:
        header = Header(
            format=_int(raw["fmt"]),
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
        if header.format > FORMAT:
            raise ShapeError(f"format {header.format} was written by a newer iotop-ai (this one reads up to {FORMAT})")
        if not header.continues:
            self._before = None
        return header

    def _snap(self, raw: dict[str, Any]) -> Snap | None:
        key = raw.get("key") is True
        if not key and self._before is None:
            self._events.clear()
            return None
        bare = _SNAPSHOT.load(raw["v"]) if key else _SNAPSHOT.apply(raw["v"], self._before)
        self._before = bare
        events, self._events = tuple(self._events), []
        carry = _CARRY.load(raw["carry"]) if key and "carry" in raw else None
        last = _SAMPLE.load(raw["last"]) if key and "last" in raw else None
        return Snap(bare._replace(events=events), key, raw.get("gap") is True, raw.get("pre") is True, carry, last)


def _int(raw: Any) -> int:
    number: int = shape_of(int).load(raw)
    return number


def _text(raw: Any) -> str:
    text: str = shape_of(str).load(raw)
    return text
