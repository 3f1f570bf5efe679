"""JSON text of a record as a whole, piece by piece: a machine of 10,000 processes is 3 MB of text, and as much again
several times over while it is a tree of lists.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Any

from iotop_ai.store.shape import Group, Maybe, Shape, Table

MANY = 256
"""Entries of a mapping in one piece."""


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def to_line(record: Any) -> str:
    """JSON on one line, without its line end."""
    return _ENCODER.encode(record)


def pieces(shape: Shape, value: Any, without: Collection[str] = (), many: int = MANY) -> Iterator[str]:
    """The text of ``to_line(shape.dump(value))`` in order.

    without: fields of the outermost record to leave out. many: entries of a mapping in one piece.
    """
    if isinstance(shape, Maybe) and value is not None:
        yield from pieces(shape.inner, value, without, many)
    elif isinstance(shape, Group):
        mark = "{"
        for name, inner, part in shape.told(value):
            if name not in without:
                yield f'{mark}"{name}":'
                yield from pieces(inner, part, many=many)
                mark = ","
        yield "}" if mark == "," else "{}"
    elif isinstance(shape, Table) and len(value) > many:
        mark, items = "{", iter(value.items())
        while part := dict(islice(items, many)):
            yield mark + to_line(shape.dump(part))[1:-1]
            mark = ","
        yield "}"
    else:
        yield to_line(shape.dump(value))
