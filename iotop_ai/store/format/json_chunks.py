"""Writes the JSON text of a record in chunks.

The text of 10,000 processes is 3 MB, and a tree of lists for it would take several times as much memory.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Any

from iotop_ai.store.format.shapes import Group, Maybe, Shape, Table

CHUNK_ENTRIES = 256
"""The number of entries of a mapping in one chunk."""

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def to_line(record: Any) -> str:
    """The JSON text of a record on one line, without a line end."""
    return _ENCODER.encode(record)


def iter_json_chunks(
    shape: Shape, value: Any, without: Collection[str] = (), per_chunk: int = CHUNK_ENTRIES
) -> Iterator[str]:
    """The text of ``to_line(shape.dump(value))``, chunk by chunk.

    without: the fields of the outermost record that are left out
    per_chunk: the number of entries of a mapping in one chunk
    """
    if isinstance(shape, Maybe) and value is not None:
        yield from iter_json_chunks(shape.inner, value, without, per_chunk)
    elif isinstance(shape, Group):
        opener = "{"
        for name, inner, part in shape.non_defaults(value):
            if name not in without:
                yield f'{opener}"{name}":'
                yield from iter_json_chunks(inner, part, per_chunk=per_chunk)
                opener = ","
        yield "}" if opener == "," else "{}"
    elif isinstance(shape, Table) and len(value) > per_chunk:
        opener, items = "{", iter(value.items())
        while part := dict(islice(items, per_chunk)):
            yield opener + to_line(shape.dump(part))[1:-1]
            opener = ","
        yield "}"
    else:
        yield to_line(shape.dump(value))
