"""The chunks of a record's JSON, joined together, are its JSON."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotop_ai.model.fold_state import FoldState
from iotop_ai.model.sample import Sample
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.store.format.json_chunks import iter_json_chunks, to_line
from iotop_ai.store.format.shapes import shape_of
from tests.store.format.test_shapes import SLOW, values


@pytest.mark.parametrize("kind", [Snapshot, Sample, FoldState])
@SLOW
@given(data=st.data())
def test_the_joined_chunks_are_the_whole_text(kind: type, data: st.DataObject) -> None:
    shape = shape_of(kind)
    value = data.draw(values(shape))
    whole = shape.dump(value)
    assert "".join(iter_json_chunks(shape, value, per_chunk=1)) == to_line(whole)
    left_out = frozenset(list(whole)[::2])
    rest = {name: part for name, part in whole.items() if name not in left_out}
    assert "".join(iter_json_chunks(shape, value, left_out, per_chunk=2)) == to_line(rest)


def test_a_large_mapping_is_written_in_chunks() -> None:
    shape = shape_of(dict[str, int])
    value = {str(number): number for number in range(10)}
    found = list(iter_json_chunks(shape, value, per_chunk=4))
    assert [piece.count(":") for piece in found] == [4, 4, 2, 0]
    assert "".join(found) == to_line(value)
