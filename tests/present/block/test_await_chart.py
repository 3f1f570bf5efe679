"""The tabs of the disk's screen, the scales of the chart of awaits, and the percentiles of the interval means."""

from __future__ import annotations

import pytest

from iotop_ai.model.block.counters import UNKNOWN_BLOCK_RATES, BlockKey
from iotop_ai.model.frame import Frame
from iotop_ai.present.block.await_chart import _linear_scale
from iotop_ai.present.block.await_histogram import await_rows
from iotop_ai.present.block.devices import all_devices
from iotop_ai.present.block.facts import peak_fields
from iotop_ai.present.block.figures import Percentiles, await_percentiles
from iotop_ai.present.block.screen import TABS, DevicePage, device_screen_rows
from iotop_ai.present.block.table import block_rows
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.line import cells
from iotop_ai.present.text.theme import TOKENS
from tests.present import scenes
from tests.present.make import KIB, MIB, Disk, Machine, disk, frame, snapshots

VIEW = View(utc_offset_s=0)
STARVED = scenes.starved()
SIZES = [(60, 15), (80, 24), (160, 48), (250, 70)]


def lines(page: DevicePage, width: int, height: int, made: Frame = STARVED) -> list[str]:
    return [line.text for line in device_screen_rows(made, VIEW, width, height, "sda", page)]


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("tab", TABS)
@pytest.mark.parametrize("size", SIZES, ids=lambda s: f"{s[0]}x{s[1]}")
def test_every_tab_fills_every_size(tab: str, log: bool, size: tuple[int, int]) -> None:
    for made in (STARVED, scenes.first(), scenes.healthy()):
        rows = device_screen_rows(made, VIEW, *size, "sda", DevicePage(tab, log))
        assert [cells(line.text) for line in rows] == [size[0]] * size[1]
        assert {span.token for line in rows for span in line.spans} <= set(TOKENS)


def test_the_chart_has_its_scale_its_peak_and_the_typical_await() -> None:
    shown = lines(DevicePage("latency"), 80, 24)
    (top,) = (y for y, line in enumerate(shown) if line.startswith(" await ms"))
    assert shown[top].split()[2] == "100"
    assert shown[top].rstrip().endswith("peak 93")
    assert shown[top + 1].rstrip().endswith("r 85")
    assert shown[top + 2].rstrip().endswith("w 91")
    assert sum("typ ≤1.3" in line for line in shown) == 1
    wide = lines(DevicePage("latency"), 160, 48)
    assert sum("typical ≤ 1.3" in line for line in wide) == 1


@pytest.mark.parametrize(
    ("highest_ms", "rows", "labels"),
    [
        (93.0, 10, {0: "100", 5: "50", 9: "0"}),
        (150.0, 9, {0: "200", 8: "0"}),
        (2.1, 8, {0: "5", 4: "2.5", 7: "0"}),
        (0.3, 8, {0: "0.5", 7: "0"}),
    ],
)
def test_only_round_values_are_labelled(highest_ms: float, rows: int, labels: dict[int, str]) -> None:
    assert _linear_scale(highest_ms, rows).labels == labels


def test_a_figure_that_is_not_known_yet_is_not_0() -> None:
    made = scenes.first()
    shown = lines(DevicePage("latency"), 80, 24, made)
    (top,) = (line for line in shown if line.startswith(" await ms"))
    assert top.rstrip().endswith("peak ?")
    device = next(one for one in all_devices(STARVED, VIEW) if one.name == "sda")
    block = STARVED.sample.block
    unknown = block._replace(value={**(block.value or {}), device.key: UNKNOWN_BLOCK_RATES})
    sizes = peak_fields(STARVED._replace(sample=STARVED.sample._replace(block=unknown)), VIEW, device)[-2:]
    assert [one.value for one in sizes] == ["?", "?"]


def test_the_current_sizes_are_those_of_the_latest_interval_even_beside_totals() -> None:
    def machine(i: int) -> Machine:
        size = MIB if i == 10 else 4 * KIB
        moved = {"read_bytes": 10 * size, "write_bytes": 10 * size}
        return Machine((Disk(disk("sda"), reads=10, writes=10, read_await=1.0, write_await=1.0, **moved),), procs=())

    taken = snapshots(machine, 11)
    made = frame(taken)
    for view in (VIEW, VIEW._replace(base=taken[0])):
        (device,) = all_devices(made, view)
        assert [one.value for one in peak_fields(made, view, device)[-2:]] == ["1M", "1M"]


def test_equal_ratios_have_equal_heights_on_the_logarithmic_scale() -> None:
    shown = lines(DevicePage("latency", log=True), 80, 24)
    labels = {line[:19].split()[-1]: y for y, line in enumerate(shown[5:16]) if line[:19].split()[-1:]}
    steps = [labels[b] - labels[a] for a, b in (("100", "10"), ("10", "1"), ("1", "0.1"))]
    assert max(steps) - min(steps) <= 1


def uneven(i: int) -> Machine:
    """Nine reads of 1 ms in each second, but 19 reads of 50 ms in every tenth second."""
    slow = i % 10 == 9
    return Machine(
        (Disk(disk("sda"), reads=19 if slow else 9, read_bytes=MIB, read_await=50.0 if slow else 1.0),), procs=()
    )


def test_percentiles_count_each_request_by_the_mean_of_its_interval() -> None:
    made = frame(snapshots(uneven, 41))
    # 36 quiet seconds have 9 reads each and 4 seconds have 19: 76 of 400 reads took 50 ms.
    assert await_percentiles(made.history, BlockKey("sda", 1), "read") == Percentiles(1.0, 50.0, 50.0)
    assert await_percentiles(made.history, BlockKey("sda", 1), "write") is None
    title = await_rows(made, BlockKey("sda", 1), 120, 0)[0].text
    assert "p50/p90/p99 of interval means: 400 reads 1.0/50.0/50.0 ms" in title
    assert "p50/90/99: r 1.0/50.0/50.0" in await_rows(made, BlockKey("sda", 1), 60, 0)[0].text


def test_a_few_reads_of_0_ms_are_shown_as_less_than_1_ms() -> None:
    for reads, text in ((1, "<1"), (20, "<0.1")):
        made = frame(snapshots(lambda _, reads=reads: Machine((Disk(disk("sda"), reads, MIB),), procs=()), 31))
        title = await_rows(made, BlockKey("sda", 1), 120, 0)[0].text
        assert f"{30 * reads} reads {text}/{text}/{text} ms" in title
        assert f"a read took {text} ms" in lines(DevicePage(), 120, 40, made)[2]


def test_a_wide_table_compares_the_time_of_a_read_with_the_normal_one() -> None:
    table = block_rows(STARVED, VIEW, 160, 6)
    assert "r_await x norm" in table[0].text
    (row,) = (line.text for line in table if line.text.startswith(">sda "))
    assert row.split()[6:8] == ["85.0", "68x"]
    # Three reads of 0 ms took less than 1 ms each; nothing more precise is known.
    (idle,) = (line.text for line in table if line.text.startswith(" nvme4 "))
    assert idle.split()[6:8] == ["<1", "<3.2x"]
    assert "x norm" not in block_rows(STARVED, VIEW, 80, 6)[0].text
