"""A log of nvidia-smi: its levels, N/A as unknown, a lost GPU as failed. The example follows nvidia-smi's manual."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotop_ai.model.errors import InputError, IotopError, UsageError
from iotop_ai.model.gpu.state import GpuState
from iotop_ai.model.reading import Reading, Status
from iotop_ai.pipeline import frames
from iotop_ai.sources.imports.common import ImportOptions
from iotop_ai.sources.imports.nvidia_smi import number, nvidia_smi_snapshots

LOG = Path(__file__).parents[2] / "data" / "logs" / "made-nvidia-smi.csv"
S = 1_000_000_000
START = int(datetime(2026, 11, 21, 9, 32, 17, tzinfo=UTC).timestamp()) * S
WANTED = ImportOptions(zone=UTC, allow_root=True)
ONE_SECOND = WANTED._replace(interval_s=1)
FIRST, SECOND = (f"GPU-6ffb{n}-0000-0000-0000-000000000000" for n in (1111, 2222))
MIB = 1 << 20


def test_each_gpu_has_its_levels_and_its_time() -> None:
    first, second = nvidia_smi_snapshots(str(LOG), WANTED)
    assert (first.wall_ns, second.wall_ns) == (START + 131_000_000, START + S + 131_000_000)
    assert first.host.origin == "nvidia-smi"
    assert first.interval_s == pytest.approx(1.0)
    table = first.gpu.value
    assert table is not None
    assert table[FIRST] == Reading(
        GpuState(
            FIRST,
            0,
            "NVIDIA H100 80GB HBM3",
            utilization_percent=87,
            memory_activity_percent=41,
            memory_total_bytes=81559 * MIB,
            memory_used_bytes=71234 * MIB,
            temperature_celsius=54,
            power_mw=512_330,
            power_limit_mw=700_000,
            sm_mhz=1980,
            sm_max_mhz=1980,
            performance_state=0,
            clock_reasons=0,
            bus_id="00000000:18:00.0",
            mig=False,
        ),
        Status.OK,
        at_ns=START + 123_000_000,
    )
    assert first.block == Reading(None, Status.OFF, "not in the nvidia-smi log")


def test_a_lost_gpu_has_failed_with_a_reason() -> None:
    _, second = nvidia_smi_snapshots(str(LOG), WANTED)
    table = second.gpu.value
    assert table is not None
    assert table[SECOND].status is Status.FAILED
    assert table[SECOND].reason == "gpu is lost"
    assert table[SECOND].value is None


def test_an_energy_of_months_does_not_count_as_damage(tmp_path: Path) -> None:
    path = tmp_path / "gpus.csv"
    path.write_text(
        "timestamp, index, total_energy_consumption [mJ]\n"
        "2026/11/21 09:32:17.123, 0, 900000000000000 mJ\n"
        "2026/11/21 09:32:18.123, 0, 900000000500000 mJ\n"
    )
    tables = [one.gpu.value or {} for one in nvidia_smi_snapshots(str(path), WANTED)]
    states = [table["0"].value for table in tables]
    assert [state and state.energy_mj for state in states] == [900_000_000_000_000, 900_000_000_500_000]


def test_the_rates_are_the_logged_levels() -> None:
    *_, frame = frames(nvidia_smi_snapshots(str(LOG), WANTED))
    rates = frame.sample.gpu.value
    assert rates is not None
    assert (rates[FIRST].busy_ratio, rates[FIRST].power_watts, rates[FIRST].sm_mhz) == (0.9, 530.1, 1965)
    assert SECOND not in rates


@pytest.mark.parametrize(
    ("text", "value"),
    [("87 %", 87.0), ("71234 MiB", 71234.0), ("85.32 W", 85.32), ("0", 0.0), ("[N/A]", None), ("N/A", None),
     ("[Not Supported]", None), ("[GPU requires reset]", None), ("", None)],
)  # fmt: skip
def test_figures_are_parsed(text: str, value: float | None) -> None:
    assert number(text) == value


def written(folder: Path, text: str) -> str:
    path = folder / "log.csv"
    path.write_text(text)
    return str(path)


def test_a_log_without_times_requires_a_start_and_an_interval(tmp_path: Path) -> None:
    path = written(tmp_path, "index, utilization.gpu [%]\n0, 5\n1, 6\n0, 7\n1, 8\n")
    with pytest.raises(UsageError, match="--start and --interval"):
        nvidia_smi_snapshots(path, ImportOptions())
    with pytest.raises(UsageError, match="--interval"):
        nvidia_smi_snapshots(path, ImportOptions(start_ns=START))
    found = list(nvidia_smi_snapshots(path, ImportOptions(start_ns=START, interval_s=2, host="box")))
    assert [s.wall_ns for s in found] == [START, START + 2 * S]
    assert found[0].host.name == "box"
    assert [[r.value.utilization_percent for r in (s.gpu.value or {}).values() if r.value] for s in found] == [
        [5, 6],
        [7, 8],
    ]


def test_cutting_a_log_off_in_its_last_row_changes_no_remaining_figure(tmp_path: Path) -> None:
    whole = LOG.read_text()
    *_, last_row = whole.splitlines(keepends=True)
    *_, shown = nvidia_smi_snapshots(written(tmp_path, whole.removesuffix(last_row)), ONE_SECOND)
    for cut in range(len(whole) - len(last_row), len(whole)):
        assert list(nvidia_smi_snapshots(written(tmp_path, whole[:cut]), ONE_SECOND))[-1] == shown
        assert list(nvidia_smi_snapshots(written(tmp_path, whole[:cut] + "\n"), ONE_SECOND))


def test_an_invalid_row_is_left_out_only_at_the_end(tmp_path: Path) -> None:
    text = "index, utilization.gpu [%]\n0, 5 %\n0, 6"
    options = ImportOptions(start_ns=START, interval_s=1)
    found = list(nvidia_smi_snapshots(written(tmp_path, text + " %\n0, 7, 8\n\n"), options))
    assert len(found) == 2
    with pytest.raises(InputError, match="line 4: not a row"):
        list(nvidia_smi_snapshots(written(tmp_path, text + " %\n0, 7, 8\n0, 7 %\n"), options))


def test_lines_with_an_error_message_are_left_out_and_counted(tmp_path: Path) -> None:
    lines = LOG.read_text().splitlines(keepends=True)
    whole = list(nvidia_smi_snapshots(str(LOG), WANTED))
    errors = (
        "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.54\n",
        "Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.  Reboot the system to recover it\n",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n",
        "No devices were found\n",
    )
    for count, log in (
        (2, errors[0] + "".join(lines)),
        (3, "".join((*lines[:2], *errors[1:], *lines[2:]))),
        (1, "".join((*lines, errors[1]))),
        (1, "".join((*lines, errors[1], errors[1][:50]))),
    ):
        messages: list[str] = []
        assert list(nvidia_smi_snapshots(written(tmp_path, log), WANTED, messages.append)) == whole
        assert messages == [f"{count} line{'' if count == 1 else 's'} with an error message of nvidia-smi left out"]


def test_a_log_appended_to_another_is_a_separate_session(tmp_path: Path) -> None:
    text = LOG.read_text()
    found = list(nvidia_smi_snapshots(written(tmp_path, text + text), WANTED))
    assert [s.host.boot_id for s in found] == ["imported-1"] * 2 + ["imported-2"] * 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("2026/11/21 09:32:17.123, 0, secret, 87 %\n", "line 1: not a header"),
        ("\nNo devices were found\n2026/11/21 09:32:17.123, 0, secret, 87 %\n", "line 3: not a header"),
        ("timestamp, utilization.gpu [%]\n", "no row"),
        ("timestamp, utilization.gpu [%]\n2026/11/21 09:32:17.123, secret\n", "line 2: not a row"),
        ("timestamp, utilization.gpu [%]\nsecret, 5 %\n", "line 2: not a row"),
        ("timestamp, utilization.gpu [%]\n2026/11/21 09:32:17.123, 5 %, secret\n", "line 2: not a row"),
        ("timestamp, utilization.gpu [%]\n2026/02/30 09:32:17.123, 5 %\n", "line 2: a date that does not exist"),
        ("timestamp, utilization.gpu [%]\n2026/11/21 09:60:17.123, 5 %\n", "line 2: a time of day that does not"),
    ],
)
def test_another_kind_of_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        list(nvidia_smi_snapshots(written(tmp_path, text), WANTED))
    assert "secret" not in str(error.value)


@given(st.text(max_size=200))
def test_any_text_is_read_as_a_log_or_refused_in_one_line(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("log") / "log.csv"
    path.write_text("timestamp, index, utilization.gpu [%], pstate\n" + text, encoding="utf-8", errors="replace")
    try:
        list(nvidia_smi_snapshots(str(path), WANTED))
    except IotopError as error:
        message = str(error)
    else:
        message = ""
    assert message.isprintable()


@pytest.mark.parametrize(
    ("log", "why"),
    [
        ("index, utilization.gpu [%]\n0, " + "[" * 120_000, "not a row"),
        ("index, utilization.gpu [%]\n0, " + " x" * 60_000, "not a row"),
        ("index, utilization.gpu [%]\n0, " + "9" * 400, "not a row"),
        ("index, clocks_throttle_reasons.active\n0, 0x1" + "0" * 16, "not a row"),
        ("a, " * 20_000, "more than 256 columns"),
    ],
    ids=["brackets", "blanks", "number", "mask", "columns"],
)
def test_a_forged_log_is_refused_quickly(tmp_path: Path, log: str, why: str) -> None:
    file = tmp_path / "log"
    file.write_text(log + "\n")
    began = time.thread_time()
    with pytest.raises(InputError, match=why):
        list(nvidia_smi_snapshots(str(file), ImportOptions(0, 1.0)))
    assert time.thread_time() - began < 5
