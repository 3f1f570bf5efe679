"""For any two Snapshots: between() never raises and no rate is negative."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iotop_ai.model.block.counters import UNKNOWN_BLOCK_RATES, BlockCounters, BlockKey
from iotop_ai.model.gpu.state import GpuState
from iotop_ai.model.machine.cpu import CpuTable, CpuTicks
from iotop_ai.model.machine.memory import MemoryState
from iotop_ai.model.machine.netfs import NetfsTable, NfsMount, NfsOp
from iotop_ai.model.machine.network import LinkCounters
from iotop_ai.model.machine.pressure import PressureTotals
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.sample import between
from iotop_ai.model.snapshot import Host, OwnCost, Snapshot
from tests.examples import quick_or

u64 = st.integers(0, 50) | st.integers(0, 2**64 - 1)
u32 = st.integers(0, 50) | st.integers(0, 2**32 - 1)
maybe = st.none() | u64
names = st.sampled_from(["sda", "sda1", "nvme0n1", "nvme0c0n1", "nvme0c1n1", "loop0"])


def record(kind: type[Any], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(fields).map(lambda chosen: kind(**chosen))


def each(fields: tuple[str, ...], strategy: st.SearchStrategy[Any]) -> dict[str, st.SearchStrategy[Any]]:
    return dict.fromkeys(fields, strategy)


def columns(count: int) -> st.SearchStrategy[BlockCounters]:
    fields = BlockCounters._fields[:count]
    return record(BlockCounters, **{f: u32 if f.endswith("_ms") or f == "in_flight" else u64 for f in fields})


block = st.dictionaries(
    st.tuples(names, st.integers(0, 1)).map(lambda k: BlockKey(*k)), columns(11) | columns(15) | columns(17), max_size=4
)
cpu = record(
    CpuTable,
    cores=st.dictionaries(st.integers(0, 2), record(CpuTicks, **each(CpuTicks._fields, u32)), max_size=3),
    allowed=st.just(2),
    physical=st.none() | st.just(1),
)
memory = record(MemoryState, **each(tuple(f for f in MemoryState._fields if f != "page_bytes"), maybe))
pressure = st.dictionaries(
    st.sampled_from(["cpu", "io"]), record(PressureTotals, some_us=u64, full_us=maybe), max_size=2
)
network = st.dictionaries(
    st.sampled_from(["eth0", "mlx5_0/1"]),
    record(
        LinkCounters,
        rx_bytes=u64,
        tx_bytes=u64,
        **each(("rx_errors", "tx_errors", "rx_dropped", "tx_dropped", "bits_per_s"), maybe),
        state=st.just("up"),
    ),
    max_size=2,
)
nfs_op = record(NfsOp, **(each(NfsOp._fields, u64) | {"errors": maybe}))
nfs = record(
    NfsMount,
    mount=st.just("/data"),
    source=st.just("srv:/x"),
    fstype=st.just("nfs4"),
    **each(NfsMount._fields[3:9], u64),
    sends=maybe,
    backlog=maybe,
    ops=st.dictionaries(st.sampled_from(["READ", "GETATTR"]), nfs_op, max_size=2),
    age_s=maybe,
)
netfs = record(NetfsTable, nfs=st.dictionaries(st.just("/data"), nfs, max_size=1), fuse=st.just({}))
times = st.none() | st.integers(0, 10**10)


def reading(value: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    taken = record(Reading, value=value, status=st.just(Status.OK), at_ns=times)
    return taken | record(Reading, status=st.just(Status.FAILED), reason=st.just("broken"), at_ns=times)


gpu_state = record(
    GpuState,
    uuid=st.just("GPU-1"),
    number=st.just(0),
    name=st.just("H100"),
    utilization_percent=st.none() | st.integers(0, 100),
    **each(("energy_mj", "power_mw", "memory_used_bytes"), maybe),
)
gpu = st.dictionaries(st.sampled_from(["GPU-1", "GPU-2"]), reading(gpu_state), max_size=2)
SUBSYSTEMS = {
    "block": block,
    "cpu": cpu,
    "memory": memory,
    "pressure": pressure,
    "gpu": gpu,
    "network": network,
    "netfs": netfs,
}


@st.composite
def snapshots(draw: st.DrawFn, field: str) -> Snapshot:
    at_ns = draw(st.integers(0, 10**10))
    host = Host("h", draw(st.sampled_from(["a", "a", "a", "b"])), "6.1", 0, "root", True)
    own = OwnCost(1, draw(u32), None, 0, 0)
    interval_s = draw(st.floats(0.1, 60))
    return Snapshot(0, at_ns, at_ns, interval_s, host, (), own, **{field: draw(reading(SUBSYSTEMS[field]))})


def numbers(value: object) -> list[float]:
    """Every number in a record."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return []
    if isinstance(value, (int, float)):
        return [value]
    if isinstance(value, Mapping):
        return [n for each in value.values() for n in numbers(each)]
    if isinstance(value, (tuple, list)):
        return [n for each in value for n in numbers(each)]
    raise TypeError(f"no number in {value!r}")


@pytest.mark.parametrize("field", SUBSYSTEMS)
@settings(max_examples=quick_or(15, 60))
@given(data=st.data())
def test_no_rate_is_negative_and_nothing_raises(field: str, data: st.DataObject) -> None:
    before, last = None, None
    for _ in range(3):
        snapshot = data.draw(snapshots(field))
        last = between(before, snapshot, last)
        before = snapshot
        found = numbers(getattr(last, field)) + numbers(last.own)
        assert all(n >= 0 and math.isfinite(n) for n in found)


@settings(max_examples=quick_or(15, 60))
@given(snapshots("block"), snapshots("block"))
def test_after_a_reboot_every_block_rate_is_unknown(one: Snapshot, two: Snapshot) -> None:
    rebooted = two._replace(host=two.host._replace(boot_id="c"), at_ns=one.at_ns + 10**9)
    rates = between(one, rebooted, between(None, one, None)).block.value
    assert all(r._replace(in_flight=None) == UNKNOWN_BLOCK_RATES for r in (rates or {}).values())
