"""Records survive JSON without a loss, as a whole and as the change from the record before."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iotop_ai.model.block.counters import BlockCounters, BlockKey
from iotop_ai.model.clean import clean
from iotop_ai.model.finding import Verdict
from iotop_ai.model.fold_state import FoldState
from iotop_ai.model.process.change_tracking import TrackedDictBuilder
from iotop_ai.model.process.records import ProcessIo, ProcessKey
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.sample import Sample
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.model.verdict_totals import VerdictTotals
from iotop_ai.store.format.key_text import KeyText, key_text
from iotop_ai.store.format.scalars import ShapeError
from iotop_ai.store.format.shapes import (
    SAME,
    Choice,
    Group,
    Maybe,
    Members,
    Record,
    Row,
    Scalar,
    Several,
    Shape,
    Table,
    shape_of,
)

TEXT = st.text(max_size=6).map(clean)  # strings are clean, because a reader cleans all text that it reads
SCALARS: dict[type, st.SearchStrategy[Any]] = {
    int: st.integers(-(2**63), 2**64 - 1),
    float: st.floats(allow_nan=False, allow_infinity=False),
    str: TEXT,
    bool: st.booleans(),
}


@cache
def keys(key: KeyText) -> st.SearchStrategy[Any]:
    """Keys of any kind. The kinds are tried in turn, because a KeyText does not name its own kind."""
    for sample in ("a", "1", "sda/7", "12/34"):
        try:
            made = key.load(sample)
        except ShapeError:
            continue
        if isinstance(made, str):
            return TEXT
        if isinstance(made, int):
            return st.integers(0, 99)
        kinds = [type(part) for part in made]
        make = type(made) if hasattr(made, "_fields") else None
        parts = st.tuples(
            *(
                st.integers(0, 99) if k is int else TEXT if (i == 0) == bool(make) else st.sampled_from("abc")
                for i, k in enumerate(kinds)
            )
        )
        return parts.map(lambda p, m=make: m(*p) if m else p)
    raise AssertionError("a key of no known kind")


@cache
def values(shape: Shape) -> st.SearchStrategy[Any]:
    """Any value of this shape."""
    if isinstance(shape, Scalar):
        return SCALARS[shape.kind]
    if isinstance(shape, Several):
        return st.one_of(*(SCALARS[k] for k in shape.kinds))
    if isinstance(shape, Choice):
        return st.sampled_from(list(shape.kind))
    if isinstance(shape, Maybe):
        return st.none() | values(shape.inner)
    if isinstance(shape, Row):
        inner = [values(s) for s in shape.kinds]
        return st.lists(inner[0], max_size=2).map(tuple) if shape.any_length else st.tuples(*inner)
    if isinstance(shape, Table):
        return st.dictionaries(keys(shape.key), values(shape.item), max_size=3)
    if isinstance(shape, Members):
        return st.frozensets(keys(shape.key), max_size=3)
    if isinstance(shape, Record):
        return st.tuples(*map(values, shape.fields)).map(lambda v: shape.kind(*v))
    assert isinstance(shape, Group)
    return st.tuples(*map(values, shape.fields.values())).map(lambda v: shape.kind(*v))


def wire(raw: Any) -> Any:
    return json.loads(json.dumps(raw, allow_nan=False))


EXAMPLES = settings.default.max_examples // 4
"""10, or 25 with --slow, because it takes long to make one example of a Snapshot."""
SLOW = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("kind", [Snapshot, Sample, FoldState, Verdict, VerdictTotals])
@SLOW
@given(data=st.data())
def test_a_whole_record_and_a_change_lose_nothing(kind: type, data: st.DataObject) -> None:
    shape = shape_of(kind)
    before, after = data.draw(values(shape)), data.draw(values(shape))
    assert shape.load(wire(shape.dump(after))) == after
    change = shape.change(after, before)
    assert (before if change is SAME else shape.apply(wire(change), before)) == after


def test_unchanged_records_are_left_out() -> None:
    shape = shape_of(Reading[Mapping[BlockKey, BlockCounters]])
    idle = BlockCounters(*range(11))
    before = Reading({BlockKey("sda", 4): idle, BlockKey("sdb", 5): idle}, Status.OK, at_ns=1)
    after = before._replace(value={BlockKey("sda", 4): idle._replace(rd_ios=9), BlockKey("sdb", 5): idle}, at_ns=2)
    assert shape.change(after, before) == {
        "value": {"+": {"sda/4": {"rd_ios": 9}}},
        "at_ns": 2,
    }


def test_fields_that_an_older_file_lacks_get_their_defaults() -> None:
    assert shape_of(BlockCounters).load(list(range(11))) == BlockCounters(*range(11))


@pytest.mark.parametrize("raw", [None, 3, "x", [1], {"a": 1}, list("abcdefghijklmnop")])
def test_a_value_of_the_wrong_shape_is_refused(raw: Any) -> None:
    with pytest.raises(ShapeError):
        shape_of(BlockCounters).load(raw)


def test_text_from_a_file_is_cleaned() -> None:
    assert shape_of(str).load("\x1b]0;owned\x07") == "�]0;owned�"
    assert shape_of(Mapping[str, int]).load({"a\x1b": 1}) == {"a�": 1}


def test_a_finding_about_a_path_keeps_its_whole_path() -> None:
    carry = FoldState(pending={("fs_full", "/data/a/b"): 7, ("idle", ""): 8, ("cpu_prep", "a/b"): 9})
    shape = shape_of(FoldState)
    assert shape.load(json.loads(json.dumps(shape.dump(carry)))) == carry


def test_a_tracked_table_is_written_like_a_plain_one() -> None:
    shape = shape_of(Mapping[ProcessKey, ProcessIo])
    builder: TrackedDictBuilder[ProcessKey, ProcessIo] = TrackedDictBuilder()
    for pid in range(5):
        builder.put(ProcessKey(pid, 1), ProcessIo(pid, 0, 0, 0, 0, 0, 0))
    old = builder.now
    builder.mark_published()
    builder.put(ProcessKey(2, 1), ProcessIo(2, 0, 0, 0, 4096, 0, 0))
    builder.put(ProcessKey(3, 1), ProcessIo(3, 0, 0, 0, 0, 0, 0))
    builder.put(ProcessKey(7, 9), ProcessIo(7, 0, 0, 0, 0, 0, 0))
    builder.drop(ProcessKey(4, 1))
    change = shape.change(builder.now, old)
    assert change == shape.change(dict(builder.now), dict(old))
    assert change["+"].keys() == {"2/1", "7/9"}
    assert change["-"] == ["4/1"]
    assert shape.apply(wire(change), dict(old)) == builder.now


@pytest.mark.parametrize(
    ("written", "read"), [(2**64 - 1, 2**64 - 1), (2**64, 2**64 - 1), (-(2**63) - 1, -(2**63)), (10**40, 2**64 - 1)]
)
def test_an_integer_of_more_than_64_bits_is_read_as_the_nearest_that_fits(written: int, read: int) -> None:
    counters = shape_of(ProcessIo)
    before = ProcessIo(*range(len(ProcessIo._fields)))
    after = before._replace(rchar=written)
    assert counters.load(json.loads(json.dumps(counters.dump(after)))) == before._replace(rchar=read)
    assert counters.apply(counters.change(after, before), before) == before._replace(rchar=read)
    assert Scalar(int).load(written) == read


def test_a_key_of_more_than_64_bits_is_refused() -> None:
    with pytest.raises(ShapeError):
        key_text(ProcessKey).load(f"1/{2**64}")
