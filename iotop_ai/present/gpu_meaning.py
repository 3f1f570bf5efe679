"""What a GPU's figures mean: sentences, the gravest first, each with the figures it rests on.

Utilisation alone never says "computing": it counts any running kernel, so watts and, where there is GPM, the activity
of the SMs and tensor cores stand beside it. Thresholds are this project's, but 80 and 50 % of SM activity, which are
NVIDIA's (DCGM user guide, profiling metrics).
"""

from __future__ import annotations

from collections.abc import Sequence

from iotop_ai.model.gpu import GpuRates, GpuState
from iotop_ai.model.gpu_detail import GpuDetail
from iotop_ai.model.record import NamedTuple
from iotop_ai.present.gpu_xid import xid_is_hardware, xid_meaning
from iotop_ai.present.units import duration, percent, size

BUSY, IDLE, LOADED = 0.9, 0.05, 0.2
SM_GOOD, SM_POOR = 0.8, 0.5
FEW_WATTS, HARDLY_WATTS = 0.4, 0.25
"""Of the power limit: spinning in a collective draws less than 40 %, a hung job about 10 %."""
TENSOR_NONE = 0.02
THROTTLED, CAPPED = 0.01, 0.01
GAPS = 0.2
HELD_SHARE, HELD_S = 0.05, 60.0
MEMORY_FULL = 0.95
HOT_CELSIUS = 3
SATURATED = 0.8
FULL_LINK_BYTES_PER_S = {3: 12e9, 4: 25e9, 5: 50e9}
"""What x16 of a PCIe generation carries in practice."""
_GRAVITY = {"bad": 0, "warn": 1, "unsure": 2, "ok": 3, "text": 4, "dim": 5}


class Meaning(NamedTuple):
    """One sentence. token: "bad" it is broken, "warn" it holds back or wastes, "ok" it works, "dim" merely so.

    id: stable, for tests and for choosing one; do: what to do about it, "" nothing.
    """

    id: str
    text: str
    token: str
    do: str = ""


class Around(NamedTuple):
    """What must be known besides the GPU's own figures.

    used: how many GPUs have a process. idle_s: for how long it has been at 0 to 5 %, None unknown. owner: who holds
    its memory. job: of the other GPUs' processes where this one has none.
    """

    used: int = 0
    idle_s: float | None = None
    owner: str = ""
    others: str = ""


def meanings(state: GpuState, rates: GpuRates | None, detail: GpuDetail | None, around: Around) -> list[Meaning]:
    """All that can be said, the gravest first; what is unknown is not said."""
    out: list[Meaning] = []
    if rates is not None:
        out += _activity(state, rates, around)
        out += _held_back(state, rates, detail)
        out += _link(state, rates, detail)
        out += _memory(rates)
    out += _health(state, detail)
    out += _heat(state, detail)
    out += _place(state, detail)
    return sorted(out, key=lambda m: _GRAVITY.get(m.token, 9))


def figures(rates: GpuRates) -> str:
    """What was done, watts always beside utilisation: "95 % busy, SM 31 %, 430 of 700 W"."""
    parts = [f"{percent(rates.busy_ratio)} % busy"]
    if rates.sm_ratio is not None:
        parts.append(f"SM {percent(rates.sm_ratio)} %")
    if rates.power_watts is not None:
        limit = "" if rates.power_limit_watts is None else f" of {rates.power_limit_watts:.0f}"
        parts.append(f"{rates.power_watts:.0f}{limit} W")
    return ", ".join(parts)


def _activity(state: GpuState, rates: GpuRates, around: Around) -> list[Meaning]:
    busy = rates.busy_ratio
    if busy is None:
        if state.instances:
            return [Meaning("mig", f"MIG: {len(state.instances)} instances, the whole tells no utilisation", "dim")]
        return [Meaning("no_busy", "the driver tells no utilisation", "unsure")]
    said = figures(rates)
    if busy >= BUSY:
        return [_busy(said, rates, around)]
    if busy >= IDLE:
        gap = rates.gap_ratio
        if gap is not None and gap >= GAPS:
            return [Meaning("gaps", f"{said}: idle in {percent(gap)} % of the samples, it waits for work", "warn")]
        return [Meaning("partly", said, "text")]
    return [_idle(state, rates, around)]


def _busy(said: str, rates: GpuRates, around: Around) -> Meaning:
    share = _share(rates.power_watts, rates.power_limit_watts)
    tensor, sm = rates.tensor_ratio, rates.sm_ratio
    quiet = tensor is not None and tensor < TENSOR_NONE
    if share is not None and (share < HARDLY_WATTS or (share < FEW_WATTS and quiet)):
        if quiet:
            said += ", tensor 0"
        if around.used >= 2:
            cause = "spinning in a collective, another rank is late" if quiet else "a collective or tiny kernels"
            return Meaning("spinning", f"{said}: {cause}", "warn", "look at the other ranks: iotop-ai on their nodes")
        return Meaning("tiny", f"{said}: tiny kernels, the GPU hardly works", "warn", "CUDA graphs, compile, batch")
    if sm is not None and sm < SM_POOR:
        return Meaning("small_kernels", f"{said}: small kernels", "warn", "larger batch, CUDA graphs, compile")
    if sm is not None and sm >= SM_GOOD:
        return Meaning("computing", f"{said}: computing", "ok")
    if sm is not None:
        return Meaning("fair", f"{said}: the SMs have room", "text")
    if share is None:
        return Meaning("busy", f"{said}: some kernel runs; neither watts nor SM activity to tell more", "unsure")
    return Meaning("by_watts", f"{said}: computing, as far as watts tell", "ok")


def _idle(state: GpuState, rates: GpuRates, around: Around) -> Meaning:
    held = _share(rates.memory_used_bytes, rates.memory_total_bytes)
    span = "" if around.idle_s is None else f" for {duration(around.idle_s)}"
    watts = "" if rates.power_watts is None else f", {rates.power_watts:.0f} W"
    if held is not None and held >= HELD_SHARE and around.idle_s is not None and around.idle_s >= HELD_S:
        who = around.owner or "somebody unseen"
        text = f"idle{span} with {size(rates.memory_used_bytes)} held by {who}{watts}"
        return Meaning("held", text, "warn", "a hung or forgotten job? py-spy dump, or ask its owner")
    if around.others and not state.processes and (held is None or held < HELD_SHARE):
        return Meaning("unused", f"not used; {around.others}", "text")
    return Meaning("idle", f"idle{span}{watts}", "dim")


def _held_back(state: GpuState, rates: GpuRates, detail: GpuDetail | None) -> list[Meaning]:
    out = []
    hot = _temperatures(state)
    for ratio, bit, word, name in (
        (rates.hw_thermal_ratio, 0x40, "thermal slowdown to half clock", "hw_thermal"),
        (rates.sw_thermal_ratio, 0x20, "thermal slowdown", "sw_thermal"),
        (rates.power_brake_ratio, 0x80, "power brake to half clock", "power_brake"),
    ):
        do = "power supply or rack" if name == "power_brake" else "airflow, fans, room; the neighbour's heat"
        where = "" if name == "power_brake" else hot
        if ratio is not None and ratio >= THROTTLED:
            out.append(Meaning(name, f"{word} {percent(ratio)} % of the time{where}", "bad", do))
        elif ratio is None and state.clock_reasons is not None and state.clock_reasons & bit:
            out.append(Meaning(name, f"{word} now{where}", "bad", do))
    capped = rates.power_cap_ratio
    if capped is not None and capped >= CAPPED:
        lowered = _lowered(state, detail)
        text = f"power-capped {percent(capped)} % of the time"
        if lowered:
            out.append(Meaning("power_cap", f"{text}: {lowered}", "warn", "nvidia-smi -pl, if nobody wants it so"))
        else:
            out.append(Meaning("power_cap", f"{text} (normal at full load)", "dim"))
    if rates.sync_boost_ratio is not None and rates.sync_boost_ratio >= THROTTLED:
        out.append(
            Meaning(
                "sync_boost", f"held to its group's slowest GPU {percent(rates.sync_boost_ratio)} % of the time", "warn"
            )
        )
    return out


def _lowered(state: GpuState, detail: GpuDetail | None) -> str:
    if detail is None or detail.default_limit_mw is None or state.power_limit_mw is None:
        return ""
    if state.power_limit_mw >= detail.default_limit_mw:
        return ""
    return f"limit {state.power_limit_mw / 1000:.0f} W, by default {detail.default_limit_mw / 1000:.0f} W"


def _temperatures(state: GpuState) -> str:
    if state.temperature_celsius is None:
        return ""
    memory = "" if state.memory_celsius is None else f", memory {state.memory_celsius} C"
    return f" at {state.temperature_celsius} C{memory}"


def _link(state: GpuState, rates: GpuRates, detail: GpuDetail | None) -> list[Meaning]:
    """A narrow or slow link is judged under load only: the generation falls by itself when idle."""
    if not ((rates.busy_ratio or 0.0) > LOADED or state.performance_state == 0):
        return []
    out = []
    full_width = state.pcie_max_width
    if detail is not None and detail.device_max_width is not None and full_width is not None:
        full_width = max(full_width, detail.device_max_width)
    width, generation = state.pcie_width, state.pcie_generation
    if width is not None and full_width is not None and width < full_width:
        slot = None if detail is None else detail.slot_max_width
        if slot is not None and slot <= width:
            out.append(
                Meaning("width", f"PCIe x{width} of x{full_width}: the slot has no more", "warn", "another slot")
            )
        else:
            out.append(
                Meaning("width", f"PCIe x{width} of x{full_width} under load: check the slot", "bad", "reseat, riser")
            )
    best = state.pcie_max_generation
    if generation is not None and best is not None and generation < best:
        out.append(Meaning("generation", f"PCIe generation {generation} of {best} under load", "warn", "BIOS, riser"))
    if rates.pcie_replays_per_s is not None and rates.pcie_replays_per_s >= 1:
        out.append(
            Meaning("replays", f"PCIe sends {rates.pcie_replays_per_s:.0f} packets/s again", "bad", "reseat, riser")
        )
    if generation in FULL_LINK_BYTES_PER_S and width:
        possible = FULL_LINK_BYTES_PER_S[generation] * width / 16
        for word, rate in (("in", rates.pcie_rx_bytes_per_s), ("out", rates.pcie_tx_bytes_per_s)):
            if rate is not None and rate >= SATURATED * possible:
                text = f"PCIe {word} {rate / 1e9:.1f} of about {possible / 1e9:.0f} GB/s: the link is full"
                out.append(Meaning("link_full", text, "warn", "send less: uint8, keep data on the GPU"))
    return out


def _memory(rates: GpuRates) -> list[Meaning]:
    share = _share(rates.memory_used_bytes, rates.memory_total_bytes)
    if share is None or share < MEMORY_FULL:
        return []
    text = f"memory {percent(share)} % full: {size(rates.memory_used_bytes)} of {size(rates.memory_total_bytes)}"
    return [Meaning("memory", text, "warn", "smaller batch, activation checkpointing")]


def _health(state: GpuState, detail: GpuDetail | None) -> list[Meaning]:
    out = []
    if state.last_xid is not None:
        token = "bad" if xid_is_hardware(state.last_xid) else "warn"
        out.append(Meaning("xid", f"Xid {state.last_xid}: {xid_meaning(state.last_xid)}", token))
    if detail is None:
        return out
    if detail.rows_failed:
        out.append(Meaning("rows_failed", "remapping a memory row failed", "bad", "have the board replaced"))
    if detail.rows_pending or detail.pages_pending:
        what = "a remapped row" if detail.rows_pending else "a retired page"
        out.append(Meaning("pending", f"{what} waits for a reset", "warn", "nvidia-smi --gpu-reset when idle"))
    if detail.ecc_uncorrected:
        text = f"{detail.ecc_uncorrected} uncorrected memory errors since the driver was loaded"
        out.append(Meaning("ecc", text, "bad", "drain, reset; results since then are doubtful"))
    if detail.recovery:
        words = {1: "a reset", 2: "a reboot of the node", 3: "its peers drained", 4: "to be drained and reset"}
        out.append(Meaning("recovery", f"the driver asks for {words.get(detail.recovery, 'recovery')}", "bad"))
    if detail.nvlinks is not None and detail.nvlinks_active is not None and detail.nvlinks_active < detail.nvlinks:
        down = detail.nvlinks - detail.nvlinks_active
        # A board without a bridge has all its links down, which is how it was built.
        token = "bad" if detail.nvlinks_active else "dim"
        out.append(Meaning("nvlink", f"{down} of {detail.nvlinks} NVLinks down", token))
    if detail.fabric_state in (1, 2) or detail.fabric_status:
        word = {1: "not started", 2: "starting", 3: "failed"}.get(detail.fabric_state or 0, "failed")
        out.append(Meaning("fabric", f"NVLink fabric {word}", "bad", "systemctl status nvidia-fabricmanager"))
    return out


def _heat(state: GpuState, detail: GpuDetail | None) -> list[Meaning]:
    celsius = state.temperature_celsius
    left = state.margin_celsius
    if left is None and celsius is not None and detail is not None and detail.slowdown_celsius is not None:
        left = detail.slowdown_celsius - celsius
    if celsius is None or left is None or left > HOT_CELSIUS:
        return []
    return [Meaning("hot", f"{celsius} C, {max(0, left)} C below its slowdown", "warn", "airflow, fans, room")]


def _place(state: GpuState, detail: GpuDetail | None) -> list[Meaning]:
    out = []
    near = set() if detail is None else cpu_set(detail.cpus)
    for one in state.processes or ():
        may = cpu_set(one.cpus)
        if near and may and not near & may and one.kind != "graphics":
            node = "" if detail is None or detail.numa_node is None else f" (node {detail.numa_node})"
            text = (
                f"pid {one.pid} may run on CPUs {one.cpus} only, the GPU is near {detail.cpus if detail else ''}{node}"
            )
            out.append(Meaning("affinity", text, "warn", "numactl, or the launcher's binding"))
            break
    shared = [one for one in state.processes or () if one.kind == "mps"]
    if shared:
        out.append(Meaning("mps", f"shared through MPS by {len(shared)} processes", "dim"))
    return out


def cpu_set(text: str) -> set[int]:
    """The CPUs of a list as the kernel writes it ("0-3,8"); empty for "" and for what is no such list."""
    out: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if not first.isascii() or not first.isdecimal() or (last and not last.isdecimal()):
            return set()
        low, high = int(first), int(last or first)
        if high - low > 1 << 16:
            return set()
        out.update(range(low, high + 1))
    return out


def _share(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole


def worst(found: Sequence[Meaning]) -> str:
    """The token of the gravest; "dim" when nothing was said."""
    return found[0].token if found else "dim"
