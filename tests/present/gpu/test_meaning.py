"""Each sentence appears for its figures, and not for similar ones."""

from __future__ import annotations

import pytest

from iotop_ai.model.clean import clean
from iotop_ai.model.gpu.detail import GpuDetail
from iotop_ai.model.gpu.state import GpuProcess, GpuRates, GpuState
from iotop_ai.present.gpu.meaning import GpuContext, Meaning, cpu_set, figures, meanings
from iotop_ai.present.gpu.xid import xid_meaning

GIB = 1 << 30
STATE = GpuState("GPU-1", 0, "H100", pcie_generation=5, pcie_width=16, pcie_max_generation=5, pcie_max_width=16)
RATES = GpuRates(0.95, 0.4, 61.0 * GIB, 80.0 * GIB, 61.0, 655.0, 700.0, 1980.0)
DETAIL = GpuDetail("GPU-1", default_limit_mw=700_000, slowdown_celsius=90)
ALONE, TWO = GpuContext(used_gpus=1), GpuContext(used_gpus=2)


def meanings_of(
    rates: GpuRates | None = RATES,
    state: GpuState = STATE,
    detail: GpuDetail | None = DETAIL,
    context: GpuContext = ALONE,
) -> list[Meaning]:
    return meanings(state, rates, detail, context)


def text_of(id_: str, found: list[Meaning]) -> str:
    return next((one.text for one in found if one.id == id_), "")


def test_power_is_shown_beside_utilisation() -> None:
    assert figures(RATES._replace(sm_ratio=0.31, power_watts=430.0)) == "95 % busy, SM 31 %, 430 of 700 W"
    assert figures(RATES._replace(power_watts=None)) == "95 % busy"


@pytest.mark.parametrize(
    ("change", "context", "id_", "text"),
    [
        ({"sm_ratio": 0.31, "power_watts": 430.0}, ALONE, "small_kernels",
         "95 % busy, SM 31 %, 430 of 700 W: small kernels"),
        ({"sm_ratio": 0.88}, ALONE, "computing", "95 % busy, SM 88 %, 655 of 700 W: computing"),
        ({"sm_ratio": 0.6}, ALONE, "fair", "95 % busy, SM 60 %, 655 of 700 W: the SMs have room"),
        (
            {"busy_ratio": 1.0, "sm_ratio": 0.15, "power_watts": 96.0, "tensor_ratio": 0.0},
            TWO,
            "spinning",
            "100 % busy, SM 15 %, 96 of 700 W, tensor 0: spinning in a collective, another rank is late",
        ),
        (
            {"sm_ratio": 0.15, "power_watts": 200.0, "tensor_ratio": 0.0},
            TWO,
            "spinning",
            "95 % busy, SM 15 %, 200 of 700 W, tensor 0: spinning in a collective, another rank is late",
        ),
        (
            {"sm_ratio": 0.15, "power_watts": 200.0, "tensor_ratio": 0.3},
            TWO,
            "small_kernels",
            "95 % busy, SM 15 %, 200 of 700 W: small kernels",
        ),
        ({"power_watts": 96.0}, TWO, "spinning", "95 % busy, 96 of 700 W: a collective or tiny kernels"),
        ({"power_watts": 96.0}, ALONE, "tiny", "95 % busy, 96 of 700 W: tiny kernels, the GPU hardly works"),
        ({}, ALONE, "by_watts", "95 % busy, 655 of 700 W: computing (judging by power)"),
        (
            {"power_watts": None},
            ALONE,
            "busy",
            "95 % busy; cannot tell if productive: neither power nor SM activity is known",
        ),
        (
            {"power_watts": 210.0},
            ALONE,
            "busy",
            "95 % busy, 210 of 700 W; cannot tell if productive: few watts, SM activity is unknown",
        ),
        (
            {"busy_ratio": 0.6, "gap_ratio": 0.35},
            ALONE,
            "gaps",
            "60 % busy, 655 of 700 W: idle in 35 % of the samples, it waits for work",
        ),
        ({"busy_ratio": 0.6, "gap_ratio": 0.1}, ALONE, "partly", "60 % busy, 655 of 700 W"),
    ],
)  # fmt: skip
def test_the_work_of_a_gpu_has_its_sentence(
    change: dict[str, float | None], context: GpuContext, id_: str, text: str
) -> None:
    assert text_of(id_, meanings_of(RATES._replace(**change), context=context)) == text


def test_memory_that_an_idle_process_holds_is_shown_with_its_owner() -> None:
    idle = RATES._replace(busy_ratio=0.0, power_watts=71.0)
    held = meanings_of(idle, context=GpuContext(idle_s=245.0, owner="alice python (pid 812)"))
    assert text_of("held", held) == "idle for 4 min with 61G held by alice python (pid 812), 71 W"
    assert text_of("held", meanings_of(idle, context=GpuContext(idle_s=20.0, owner="alice python"))) == ""
    assert text_of("idle", meanings_of(idle, context=GpuContext(idle_s=0.0))) == "idle, 71 W"
    empty = idle._replace(memory_used_bytes=0.0)
    assert text_of("held", meanings_of(empty, context=GpuContext(idle_s=245.0))) == ""
    assert (
        text_of("unused", meanings_of(empty, context=GpuContext(others="slurm 7 uses 3 of 4 GPUs")))
        == "not used; slurm 7 uses 3 of 4 GPUs"
    )


def test_the_power_limit_is_called_normal_unless_it_was_lowered() -> None:
    (cap,) = [m for m in meanings_of(RATES._replace(power_cap_ratio=0.64)) if m.id == "power_cap"]
    assert (cap.text, cap.token) == ("power-capped 64 % of the time (normal at full load)", "dim")
    low = STATE._replace(power_limit_mw=500_000)
    (cap,) = [m for m in meanings_of(RATES._replace(power_cap_ratio=0.64), low) if m.id == "power_cap"]
    assert (cap.text, cap.token) == ("power-capped 64 % of the time: limit 500 W, by default 700 W", "warn")
    assert cap.remedy == "run nvidia-smi -i 0 -pl 700, unless it is intended"
    amd = low._replace(uuid="AMD-1")
    (cap,) = [m for m in meanings_of(RATES._replace(power_cap_ratio=0.64), amd) if m.id == "power_cap"]
    assert cap.remedy == "raise it, unless it is intended"
    assert text_of("power_cap", meanings_of(RATES._replace(power_cap_ratio=0.004))) == ""


def test_thermal_slowdown_is_a_share_of_time_if_a_counter_is_known() -> None:
    hot = STATE._replace(temperature_celsius=88, memory_celsius=95, clock_reasons=0x20)
    found = meanings_of(RATES._replace(sw_thermal_ratio=0.12), hot)
    assert found[0] == Meaning(
        "sw_thermal",
        "thermal slowdown 12 % of the time at 88 C, memory 95 C",
        "bad",
        "check airflow, fans, room, neighbours",
    )
    assert text_of("hot", found) == "88 C, 2 C below its slowdown"
    assert text_of("sw_thermal", meanings_of(RATES, hot)).startswith("thermal slowdown now at 88 C")
    assert text_of("sw_thermal", meanings_of(RATES._replace(sw_thermal_ratio=0.0), hot)) == ""
    assert text_of("hot", meanings_of(RATES, STATE._replace(temperature_celsius=70, margin_celsius=20))) == ""


@pytest.mark.parametrize(
    ("celsius", "text"),
    [(89, "89 C, 1 C below its slowdown"), (90, "90 C, at its slowdown"), (91, "91 C, 1 C above its slowdown")],
)
def test_a_hot_gpu_is_below_at_or_above_its_slowdown(celsius: int, text: str) -> None:
    assert text_of("hot", meanings_of(RATES, STATE._replace(temperature_celsius=celsius))) == text


def test_the_link_is_judged_only_under_load() -> None:
    narrow = STATE._replace(pcie_width=8)
    assert text_of("width", meanings_of(RATES, narrow)) == "PCIe x8 of x16 under load"
    assert text_of("width", meanings_of(RATES._replace(busy_ratio=0.0), narrow)) == ""
    slot = DETAIL._replace(slot_max_width=8, device_max_width=16)
    assert (
        text_of("width", meanings_of(RATES, narrow._replace(pcie_max_width=8), slot))
        == "PCIe x8 of x16: the slot has no more lanes"
    )
    slow = STATE._replace(pcie_generation=1)
    assert text_of("generation", meanings_of(RATES, slow)) == "PCIe generation 1 of 5 under load"
    assert text_of("generation", meanings_of(RATES._replace(busy_ratio=0.1), slow)) == ""
    old_slot = meanings_of(RATES, slow, DETAIL._replace(slot_max_generation=1))
    assert text_of("generation", old_slot) == "PCIe generation 1 of 5: the slot has no higher one"
    full = meanings_of(RATES._replace(pcie_rx_bytes_per_s=45e9))
    assert text_of("link_full", full) == "PCIe in 42 GB/s of about 47 GB/s: the link is full"
    assert text_of("replays", meanings_of(RATES._replace(pcie_replays_per_s=4.0))) == "PCIe replays 4 packets/s"


def test_problems_of_the_hardware_have_their_sentences() -> None:
    sick = DETAIL._replace(
        rows_failed=True,
        rows_pending=True,
        ecc_uncorrected=2,
        recovery=1,
        nvlinks=18,
        nvlinks_active=17,
        fabric_state=2,
    )
    found = meanings_of(RATES, STATE._replace(last_xid=79), sick)
    assert text_of("xid", found) == "Xid 79: the GPU has fallen off the bus: check power, slot and board"
    assert text_of("nvlink", found) == "1 of 18 NVLinks down"
    assert text_of("ecc", found) == "2 uncorrected memory errors since the driver was loaded"
    assert {"rows_failed", "pending", "recovery", "fabric"} <= {one.id for one in found}
    assert [one.token for one in found] == sorted((one.token for one in found), key=["bad", "warn", "ok", "dim"].index)
    bare = DETAIL._replace(nvlinks=4, nvlinks_active=0)
    assert next(m for m in meanings_of(RATES, STATE, bare) if m.id == "nvlink").token == "dim"
    assert xid_meaning(9999) == "see NVIDIA's catalogue of Xids"


@pytest.mark.parametrize(
    ("number", "token"), [(64, "bad"), (79, "bad"), (31, "warn"), (9999, "warn"), (63, "dim"), (92, "dim")]
)
def test_only_an_xid_of_the_board_is_a_fault_and_a_repaired_error_is_a_plain_fact(number: int, token: str) -> None:
    found = meanings_of(RATES, STATE._replace(last_xid=number))
    assert next(one.token for one in found if one.id == "xid") == token


def test_a_trainer_on_cpus_far_from_its_gpu_is_reported() -> None:
    far = STATE._replace(processes=(GpuProcess(7, 1, "compute", cpus="48-95"),))
    near = DETAIL._replace(cpus="0-47", numa_node=0)
    text = "pid 7 can run on CPUs 48-95 only, the GPU is near 0-47 (node 0)"
    assert text_of("affinity", meanings_of(RATES, far, near)) == text
    assert text_of("affinity", meanings_of(RATES, far, near._replace(cpus="0-95"))) == ""
    assert text_of("affinity", meanings_of(RATES, far, DETAIL)) == ""
    assert cpu_set("0-2,8") == {0, 1, 2, 8}
    assert cpu_set("rubbish") == cpu_set("0-99999999") == set()


def test_a_list_of_cpus_that_a_recording_has_cut_gives_no_sentence() -> None:
    even = ",".join(map(str, range(0, 384, 2)))
    bound = STATE._replace(processes=(GpuProcess(7, 1, "compute", cpus="300,302"),))
    near, odd = DETAIL._replace(cpus=clean(even)), DETAIL._replace(cpus=",".join(map(str, range(1, 384, 2))))
    assert text_of("affinity", meanings_of(RATES, bound, near)) == ""
    assert text_of("affinity", meanings_of(RATES, bound, odd)).startswith("pid 7 can run on CPUs 300,302 only")


def test_unknown_figures_give_no_sentence() -> None:
    unknown = GpuRates(*[None] * 8)
    assert [one.id for one in meanings_of(unknown, GpuState("GPU-1", 0, "x"), None)] == ["no_busy"]
    assert meanings_of(None, GpuState("GPU-1", 0, "x"), None) == []


def test_a_count_of_one_is_not_plural() -> None:
    found = meanings_of(RATES, detail=DETAIL._replace(ecc_uncorrected=1))
    assert text_of("ecc", found) == "1 uncorrected memory error since the driver was loaded"
