"""Reads the steps in a TensorBoard event file without TensorFlow.

The file consists of TFRecords: the length as uint64, its masked CRC as uint32, the data, and its masked CRC as uint32.
The data of each record is an Event message with wall_time (field 1, double), step (field 2, varint) and summary (field
5). A Summary has Values (field 1), and a Value has a tag (field 1, string). Sources:
tensorflow/core/lib/io/record_writer.h, tensorflow/core/util/event.proto, tensorflow/core/framework/summary.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from iotop_ai.model.errors import InputError

LONGEST_RECORD = 64 << 20
"""The longest record that is read, in bytes. Records with images or graphs are long."""
_HEAD = struct.Struct("<QI")
_DOUBLE = struct.Struct("<d")
_WALL_TIME, _STEP, _SUMMARY = 1, 2, 5
_VALUE = _TAG = 1
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MOST_VARINT_BYTES = 10


class StepEvent(NamedTuple):
    """An event that has a summary. wall_s: its Unix time in seconds. tags: the names of its values."""

    wall_s: float
    step: int
    tags: tuple[str, ...]


def is_event_file(first_bytes: bytes) -> bool:
    """Whether a file that begins with these bytes is an event file: its first record names the version."""
    return b"brain.Event:" in first_bytes[:64]


def step_events(file: BinaryIO) -> Iterator[StepEvent]:
    """Yield the events with a summary, in the order of the file. Raises InputError.

    An incomplete last record is left out.
    """
    while True:
        head = file.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return
        length, _ = _HEAD.unpack(head)
        if length > LONGEST_RECORD:
            raise InputError("not a TensorBoard event file, or a damaged one")
        data = file.read(length)
        if len(data) < length or len(file.read(4)) < 4:
            return
        event = _event(data)
        if event is not None:
            yield event


def _event(data: bytes) -> StepEvent | None:
    wall_s, step, summary = 0.0, 0, None
    for number, kind, value in _fields(data):
        if number == _WALL_TIME and kind == _FIXED64:
            wall_s = _DOUBLE.unpack(value)[0]
        elif number == _STEP and kind == _VARINT:
            step = int.from_bytes(value, "little")
        elif number == _SUMMARY and kind == _BYTES:
            summary = value
    # A negative step is read as a number close to 2**64.
    return None if summary is None or step >= 1 << 62 else StepEvent(wall_s, step, tuple(_tags(summary)))


def _tags(summary: bytes) -> Iterator[str]:
    for number, kind, value in _fields(summary):
        if number == _VALUE and kind == _BYTES:
            for value_number, value_kind, content in _fields(value):
                if value_number == _TAG and value_kind == _BYTES:
                    yield content.decode("utf-8", "replace")


def _fields(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield (number, wire type, content) for each field of a message. A varint's content is its little-endian bytes."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield number, kind, value.to_bytes(_MOST_VARINT_BYTES, "little")
            continue
        if kind == _BYTES:
            size, at = _varint(data, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise InputError("not a TensorBoard event file, or a damaged one")
        if at + size > len(data):
            raise InputError("a damaged TensorBoard event file")
        yield number, kind, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for i in range(_MOST_VARINT_BYTES):
        if at + i >= len(data):
            break
        value |= (data[at + i] & 0x7F) << (7 * i)
        if not data[at + i] & 0x80:
            return value & (1 << 64) - 1, at + i + 1
    raise InputError("a damaged TensorBoard event file")
