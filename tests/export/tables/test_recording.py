"""``iotop_ai.load``: a recording's tables in Python."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import iotop_ai
from iotop_ai.export.tables.frames import NAMES
from iotop_ai.export.tables.recording import Recording
from iotop_ai.model.errors import InputError, UsageError
from tests.job_times import SLOW_DISK, slow_disk
from tests.scenarios.stacks.install import python_of, why_no_stack

TOP = Path(iotop_ai.__file__).parent.parent


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return Path(shutil.copy(SLOW_DISK, tmp_path / SLOW_DISK.name))


def test_each_table_of_the_export_is_an_attribute(path: Path) -> None:
    recording = Recording(path, allow_root=True)
    assert {*NAMES, "marks"} <= set(dir(recording))
    assert recording.jobs is recording.jobs, "the jobs were read twice"
    last = list(recording.jobs)[-1]
    (key,) = slow_disk()[-1].snapshot.jobs.value.jobs  # type: ignore[union-attr]
    assert (last["pid"], last["name"]) == (key.pid, "trainer.py")
    assert 0 < float(str(last["data_stall_ratio"])) <= 1
    assert len(recording.processes) > 0
    assert len(recording.steps) == 0, "there are steps that nothing reported"
    assert recording.about["host"] == slow_disk()[0].snapshot.host.name


def test_facts_of_the_header_are_known_before_a_table_is_read(path: Path) -> None:
    recording = Recording(path, allow_root=True)
    before = recording.about
    assert (before["host"], before["interval_s"]) == (slow_disk()[0].snapshot.host.name, "1")
    assert f"{path} of {before['host']}; tables: devices, gpus" in repr(recording)
    assert len(recording.devices) > 0
    assert recording.about == before


def test_only_the_requested_part_of_a_recording_is_read(path: Path) -> None:
    whole, part = Recording(path, allow_root=True), Recording(path, begin="50%", allow_root=True)
    assert 0 < len(part.devices) < len(whole.devices)
    assert list(part.devices)[-1] == list(whole.devices)[-1]


def test_a_missing_table_is_named(path: Path, tmp_path: Path) -> None:
    recording = Recording(path, allow_root=True)
    with pytest.raises(AttributeError, match="tables: devices, gpus"):
        recording.discs  # noqa: B018 - its lookup raises
    with pytest.raises(UsageError, match="tables: devices, gpus"):
        recording.table("discs")
    with pytest.raises((InputError, OSError)):
        Recording(tmp_path / "missing.iotop.jsonl")
    broken = tmp_path / "broken.iotop.jsonl"
    broken.write_text("{}\n")
    with pytest.raises(InputError):
        Recording(broken, allow_root=True).devices  # noqa: B018 - its lookup raises


def test_a_missing_library_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    devices = Recording(path, allow_root=True).devices
    for name, call in (("pandas", devices.to_pandas), ("polars", devices.to_polars), ("pyarrow", devices.to_arrow)):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(UsageError, match=f"{name}.*pip install|pip install.*parquet"):
            call()


FRAMES = """
import json, sys
import iotop_ai
r = iotop_ai.load(sys.argv[1], allow_root=True)
pandas, polars, arrow = r.jobs.to_pandas(), r.jobs.to_polars(), r.jobs.to_arrow()
empty = [len(r.steps.to_pandas()), r.steps.to_polars().height, r.steps.to_arrow().num_rows]
print(json.dumps({
    "rows": [len(pandas), polars.height, arrow.num_rows],
    "times": [pandas["time"].iloc[-1].isoformat(), polars["time"][-1].isoformat(), str(arrow["time"][-1])],
    "kinds": [str(pandas["time"].dtype), str(polars["time"].dtype), str(arrow.schema.field("time").type)],
    "sums": [float(pandas["data_disk_ratio"].sum()), polars["data_disk_ratio"].sum()],
    "label": [bool(pandas["label"].isna().all()), polars["label"].null_count() == polars.height],
    "pids": [int(pandas["pid"].iloc[-1]), polars["pid"][-1], arrow["pid"][-1].as_py()],
    "empty": empty,
}))
"""


@pytest.mark.slow
@pytest.mark.skipif(bool(why_no_stack("frames")), reason=why_no_stack("frames"))
def test_pandas_polars_and_arrow_get_the_same_figures(path: Path) -> None:
    found = subprocess.run(
        [python_of("frames"), "-c", FRAMES, path],
        env={"PYTHONPATH": str(TOP)},
        capture_output=True,
        text=True,
        check=True,
    )
    got = json.loads(found.stdout)
    jobs = list(Recording(path, allow_root=True).jobs)
    assert got["rows"] == [len(jobs)] * 3
    assert got["kinds"] == ["datetime64[ns, UTC]", "Datetime(time_unit='ns', time_zone='UTC')", "timestamp[ns, tz=UTC]"]
    assert len({time[:19].replace(" ", "T") for time in got["times"]}) == 1
    truth = sum(float(str(row["data_disk_ratio"])) for row in jobs if row["data_disk_ratio"] is not None)
    assert got["sums"] == pytest.approx([truth] * 2)
    assert got["label"] == [True, True]
    assert set(got["pids"]) == {jobs[-1]["pid"]}
    assert got["empty"] == [0, 0, 0]
