"""GPUs in a recording: every figure comes back, and the Frames equal those that were live."""

from __future__ import annotations

import json

from iotop_ai.model.gpu.state import GpuEarlier, GpuInstance, GpuState
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.pipeline import frames
from iotop_ai.store.format.codec import Decoder, Encoder, SnapLine
from iotop_ai.store.format.json_chunks import to_line
from iotop_ai.store.format.shapes import shape_of
from tests.present.gpu_scenes import computing, eight_snapshots


def decoded(lines: list[str]) -> list[Snapshot]:
    decoder = Decoder()
    items = [decoder.read(line.encode(), i) for i, line in enumerate(lines)]
    return [item.snapshot for item in items if isinstance(item, SnapLine)]


def test_eight_gpus_with_details_come_back_equal() -> None:
    live = eight_snapshots(6)
    encoder = Encoder()
    lines: list[str] = []
    for frame in frames(live):
        lines += [line for line in encoder.lines(frame) if "snap" in line]
    assert decoded(lines) == live
    assert list(frames(decoded(lines))) == list(frames(live))


def test_a_state_of_an_older_version_has_unknown_figures() -> None:
    shape = shape_of(GpuState)
    old = json.loads(to_line(shape.dump(computing(0, 3))[:25]))
    read = shape.load(old)
    assert read.utilization_percent == computing(0, 3).utilization_percent
    assert (read.gpm_sm_percent, read.power_cap_ns, read.instances, read.earlier) == (None, None, None, ())


def test_mig_instances_and_earlier_readings_come_back_equal() -> None:
    state = computing(
        0,
        1,
        instances=(GpuInstance(1, "MIG-1", "3g.40gb", 40, 30, 71.5, None, 0.0, 3.0),),
        earlier=(GpuEarlier("energy_mj", 5, 1, 7), GpuEarlier("fan_percent", 5)),
    )
    table: Reading[object] = Reading({"GPU-1": Reading(state, Status.OK, at_ns=9)}, Status.OK, at_ns=9)
    shape = shape_of(Snapshot)
    one = eight_snapshots(1)[0]._replace(gpu=table)  # type: ignore[arg-type]
    assert shape.load(json.loads(to_line(shape.dump(one)))) == one
