"""Encoding and decoding: any two consecutive Snapshots, written as a keyframe and as a change."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iotop_ai.model.errors import InputError
from iotop_ai.model.fold_state import FoldState
from iotop_ai.model.frame import Frame
from iotop_ai.model.process.records import ProcessInfo
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.pipeline import frames
from iotop_ai.store.format.codec import Decoder, Encoder, SnapLine
from iotop_ai.store.format.range_checks import check_snapshot
from iotop_ai.store.format.reading_times import time_ns, us_after
from iotop_ai.store.format.scalars import ShapeError
from iotop_ai.store.format.shapes import shape_of
from tests.store.format.test_shapes import EXAMPLES, values
from tests.store.scenario import Machine, session

NS = st.integers(0, 2**63 - 1)


def changed(data: st.DataObject, before: Snapshot) -> Snapshot:
    """The Snapshot with new values in only some of its fields, because drawing a whole Snapshot takes long."""
    fields = dict(zip(Snapshot._fields, shape_of(Snapshot).fields.values(), strict=True))  # type: ignore[attr-defined]
    names = data.draw(st.sets(st.sampled_from(sorted(fields)), max_size=8))
    return plausible(data, before._replace(**{name: data.draw(values(fields[name])) for name in sorted(names)}))


def plausible(data: st.DataObject, snapshot: Snapshot) -> Snapshot:
    """The Snapshot, with the properties that every real one has."""
    snapshot = snapshot._replace(
        at_ns=data.draw(NS), wall_ns=data.draw(NS), interval_s=1.0, seq=data.draw(st.integers(0, 9)), events=()
    )
    table = snapshot.processes.value
    if table is not None:
        # In real tables, every process with figures has a stat and a name.
        table = table._replace(
            clk_tck=100,
            page_bytes=4096,
            stat_at=table.stat_at or (1, 2),
            io={key: io for key, io in table.io.items() if key in table.stat},
            threads={key: look for key, look in table.threads.items() if key in table.stat},
            info={**dict.fromkeys(table.stat, ProcessInfo("x", ("x",), "a", 0)), **table.info},
        )
        snapshot = snapshot._replace(processes=snapshot.processes._replace(value=table))
    return snapshot


def decoded(lines: list[str]) -> list[Snapshot]:
    decoder = Decoder()
    items: list[Any] = [decoder.read(line.encode(), i) for i, line in enumerate(lines)]
    return [item.snapshot for item in items if isinstance(item, SnapLine)]


@settings(max_examples=2 * EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_consecutive_snapshots_come_back_equal(data: st.DataObject) -> None:
    snapshots = [plausible(data, data.draw(values(shape_of(Snapshot))))]
    snapshots += [changed(data, snapshots[-1])]
    snapshots += [changed(data, snapshots[-1])]
    for snapshot in snapshots:
        check_snapshot(snapshot)
    made = next(frames(session(1, 1)))
    encoder = Encoder()
    lines = [
        line
        for s in snapshots
        for line in encoder.lines(Frame(s, made.sample, (), FoldState(), made.verdict))
        if "snap" in line
    ]
    assert decoded(lines) == snapshots


@given(st.integers(-(2**63), 2**64), NS)
def test_a_time_comes_back_equal(at_ns: int, base_ns: int) -> None:
    assert time_ns(us_after(at_ns, base_ns), base_ns) == at_ns


@pytest.mark.parametrize("raw", [None, True, "x", "1e5", 1e300, [], "9" * 30])
def test_an_invalid_time_is_refused(raw: Any) -> None:
    with pytest.raises(ShapeError):
        time_ns(raw, 0)


def test_a_change_holds_absolute_values_by_field_name() -> None:
    machine = Machine(1)
    first = machine.snapshot()
    key = next(iter(machine.disks))
    grown = machine.disks[key]._replace(rd_ios=machine.disks[key].rd_ios + 5)
    second = first._replace(
        seq=first.seq + 1, at_ns=first.at_ns + 10**9, wall_ns=first.wall_ns + 10**9,
        block=first.block._replace(value={key: grown}, at_ns=first.at_ns + 10**9 + 60_000), events=(),
    )  # fmt: skip
    encoder = Encoder()
    last = [encoder.lines(frame) for frame in frames([first, second])][-1]
    snap = next(line for line in last if '"snap"' in line)
    assert f'"v":{{"block":{{"value":{{"+":{{"sda/{key.diskseq}":{{"rd_ios":{grown.rd_ios}}}}}}}}}}}' in snap
    assert '"at":[60,null,' in snap


def test_a_change_without_its_keyframe_is_left_out() -> None:
    encoder = Encoder()
    lines = [line for frame in frames(session(2, 3)) for line in encoder.lines(frame) if '"snap"' in line]
    assert decoded(lines[1:]) == []


def test_a_newer_format_is_refused_but_unknown_kinds_of_lines_are_not() -> None:
    decoder = Decoder()
    assert decoder.read(b'{"k":"later","x":[1]}') is None
    with pytest.raises(InputError, match="newer"):
        decoder.read(b'{"k":"hdr","fmt":2,"tool":"9","t":"in another way"}')
