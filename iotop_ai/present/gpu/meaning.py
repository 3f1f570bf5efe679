"""The meaning of a GPU's figures in sentences, the most severe first, each with the figures that support it.

Utilisation alone does not show that a GPU computes, because it counts any running kernel. So the sentence about a busy
GPU also needs the power draw or the activity of SMs and tensor cores, which GPM (a part of NVML) measures since Hopper.
The thresholds of 80 and 50 % for SM activity are NVIDIA's (DCGM user guide, profiling metrics); the other thresholds
are this project's.
"""

from __future__ import annotations

from collections.abc import Sequence

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.clean import LONGEST
from iotop_ai.model.gpu.detail import GpuDetail, recovery_of
from iotop_ai.model.gpu.state import GpuRates, GpuState
from iotop_ai.model.gpu.xid import OF_THE_BOARD, REPAIRED
from iotop_ai.present.gpu.xid import xid_meaning
from iotop_ai.present.text.units import duration, percent, plural, size
from iotop_ai.present.verdict.advice import rate as rate_words

BUSY, IDLE, LOADED = 0.9, 0.05, 0.2
"""Utilisations, 0..1: a GPU is busy from BUSY on and idle below IDLE; above LOADED, its PCIe link is judged."""
SM_GOOD, SM_POOR = 0.8, 0.5
"""SM activities, 0..1: a busy GPU counts as computing from SM_GOOD on; below SM_POOR, its kernels count as small."""
LOW_POWER, VERY_LOW_POWER = 0.4, 0.25
"""Shares of the power limit. A busy GPU hardly computes if it draws less than VERY_LOW_POWER, or less than LOW_POWER
with unused tensor cores. A GPU that spins in a collective draws less than 40 %, one with a hung job about 10 %.
"""
TENSOR_NONE = 0.02
"""The tensor activity below which the tensor cores count as unused."""
THROTTLED, CAPPED = 0.01, 0.01
"""The shares of time from which lowered clocks are mentioned: THROTTLED for heat, the power brake and sync boost,
CAPPED for the power limit.
"""
GAPS = 0.2
"""The share of idle samples from which a partly busy GPU counts as waiting for work."""
HELD_SHARE, HELD_S = 0.05, 60.0
"""A GPU is wasted if it has been idle for at least HELD_S seconds while at least HELD_SHARE of its memory is in use."""
MEMORY_FULL = 0.95
"""The share of used memory from which the memory counts as full."""
HOT_MARGIN_CELSIUS = 3
"""A GPU is hot if its temperature is at most this far below its slowdown temperature."""
SATURATED = 0.8
"""A link is full from this share of FULL_LINK_BYTES_PER_S on."""
FULL_LINK_BYTES_PER_S = {3: 12e9, 4: 25e9, 5: 50e9}
"""The bandwidth that 16 lanes reach in practice, by PCIe generation."""
FAULTS = frozenset(("xid", "recovery", "rows_failed", "sram", "ecc", "nvlink", "fabric"))
"""The ids of the sentences that report a fault of the GPU if their token is "bad"."""
_SEVERITY_ORDER = {"bad": 0, "warn": 1, "unsure": 2, "ok": 3, "text": 4, "dim": 5}


class Meaning(NamedTuple):
    """One sentence about a GPU."""

    id: str
    """The id of the kind of sentence, which does not change between versions."""
    text: str
    token: str
    """"bad" for broken, "warn" for slowed or wasted, "ok" for working, "text" and "dim" for plain facts, "unsure" for
    unknown.
    """
    remedy: str = ""
    """The advice; "" for none."""


class GpuContext(NamedTuple):
    """The facts that the sentences about a GPU need besides its own figures."""

    used_gpus: int = 0
    """The number of GPUs that have a compute process."""
    idle_s: float | None = None
    """The seconds for which the GPU's utilisation has been below 5 %; None when the GPU is busy or when unknown."""
    owner: str = ""
    """The process with the most memory on the GPU; "" without one."""
    others: str = ""
    """The jobs on the other GPUs, if this GPU has no compute process; otherwise ""."""


def meanings(state: GpuState, rates: GpuRates | None, detail: GpuDetail | None, context: GpuContext) -> list[Meaning]:
    """All sentences that the known figures support, the most severe first."""
    out: list[Meaning] = []
    if rates is not None:
        out += _activity(state, rates, context)
        out += _held_back(state, rates, detail)
        out += _link(state, rates, detail)
        out += _memory(rates)
    out += health(state, detail)
    out += _heat(state, detail)
    out += _processes(state, detail)
    return sorted(out, key=lambda m: _SEVERITY_ORDER.get(m.token, 9))


def figures(rates: GpuRates) -> str:
    """The utilisation, the SM activity and the power draw, as far as known: "95 % busy, SM 31 %, 430 of 700 W"."""
    parts = [f"{percent(rates.busy_ratio)} % busy"]
    if rates.sm_ratio is not None:
        parts.append(f"SM {percent(rates.sm_ratio)} %")
    if rates.power_watts is not None:
        limit = "" if rates.power_limit_watts is None else f" of {rates.power_limit_watts:.0f}"
        parts.append(f"{rates.power_watts:.0f}{limit} W")
    return ", ".join(parts)


def _activity(state: GpuState, rates: GpuRates, context: GpuContext) -> list[Meaning]:
    busy = rates.busy_ratio
    if busy is None:
        if state.instances:
            number = plural(len(state.instances), "instance")
            return [Meaning("mig", f"MIG: {number}; the GPU as a whole has no utilisation", "dim")]
        return [Meaning("no_busy", "the driver reports no utilisation", "unsure")]
    text = figures(rates)
    if busy >= BUSY:
        return [_busy(text, rates, context)]
    if busy >= IDLE:
        gap = rates.gap_ratio
        if gap is not None and gap >= GAPS:
            return [Meaning("gaps", f"{text}: idle in {percent(gap)} % of the samples, it waits for work", "warn")]
        return [Meaning("partly", text, "text")]
    return [_idle(state, rates, context)]


def _busy(text: str, rates: GpuRates, context: GpuContext) -> Meaning:
    share = _share(rates.power_watts, rates.power_limit_watts)
    tensor, sm = rates.tensor_ratio, rates.sm_ratio
    no_tensor = tensor is not None and tensor < TENSOR_NONE
    if share is not None and (share < VERY_LOW_POWER or (share < LOW_POWER and no_tensor)):
        if no_tensor:
            text += ", tensor 0"
        if context.used_gpus >= 2:
            cause = "spinning in a collective, another rank is late" if no_tensor else "a collective or tiny kernels"
            return Meaning("spinning", f"{text}: {cause}", "warn", "run iotop-ai on the other nodes")
        return Meaning("tiny", f"{text}: tiny kernels, the GPU hardly works", "warn", "use CUDA graphs, compile, batch")
    if sm is not None and sm < SM_POOR:
        return Meaning("small_kernels", f"{text}: small kernels", "warn", "use a larger batch, CUDA graphs, compile")
    if sm is not None and sm >= SM_GOOD:
        return Meaning("computing", f"{text}: computing", "ok")
    if sm is not None:
        return Meaning("fair", f"{text}: the SMs have room", "text")
    if share is None:
        return Meaning("busy", f"{text}; cannot tell if productive: neither power nor SM activity is known", "unsure")
    if share < LOW_POWER and tensor is None:
        return Meaning("busy", f"{text}; cannot tell if productive: few watts, SM activity is unknown", "unsure")
    return Meaning("by_watts", f"{text}: computing (judging by power)", "ok")


def _idle(state: GpuState, rates: GpuRates, context: GpuContext) -> Meaning:
    held_share = _share(rates.memory_used_bytes, rates.memory_total_bytes)
    span = "" if context.idle_s is None or context.idle_s < 1 else f" for {duration(context.idle_s)}"
    watts = "" if rates.power_watts is None else f", {rates.power_watts:.0f} W"
    if held_share is not None and held_share >= HELD_SHARE and context.idle_s is not None and context.idle_s >= HELD_S:
        owner = context.owner or "a hidden process"
        text = f"idle{span} with {size(rates.memory_used_bytes)} held by {owner}{watts}"
        return Meaning("held", text, "warn", "run py-spy dump, or ask the owner: hung or forgotten?")
    if context.others and not state.processes and (held_share is None or held_share < HELD_SHARE):
        return Meaning("unused", f"not used; {context.others}", "text")
    return Meaning("idle", f"idle{span}{watts}", "dim")


def _held_back(state: GpuState, rates: GpuRates, detail: GpuDetail | None) -> list[Meaning]:
    out = []
    hot = _temperatures(state)
    for ratio, bit, word, name in (
        (rates.hw_thermal_ratio, 0x40, "thermal slowdown to half clock", "hw_thermal"),
        (rates.sw_thermal_ratio, 0x20, "thermal slowdown", "sw_thermal"),
        (rates.power_brake_ratio, 0x80, "power brake to half clock", "power_brake"),
    ):
        remedy = "check power supply and rack" if name == "power_brake" else "check airflow, fans, room, neighbours"
        where = "" if name == "power_brake" else hot
        if ratio is not None and ratio >= THROTTLED:
            out.append(Meaning(name, f"{word} {percent(ratio)} % of the time{where}", "bad", remedy))
        elif ratio is None and state.clock_reasons is not None and state.clock_reasons & bit:
            out.append(Meaning(name, f"{word} now{where}", "bad", remedy))
    capped = rates.power_cap_ratio
    if capped is not None and capped >= CAPPED:
        lowered_limit = _lowered_limit(state, detail)
        text = f"power-capped {percent(capped)} % of the time"
        if lowered_limit:
            out.append(Meaning("power_cap", f"{text}: {lowered_limit}", "warn", _raise_limit(state, detail)))
        else:
            out.append(Meaning("power_cap", f"{text} (normal at full load)", "dim"))
    if rates.sync_boost_ratio is not None and rates.sync_boost_ratio >= THROTTLED:
        out.append(
            Meaning(
                "sync_boost", f"held to its group's slowest GPU {percent(rates.sync_boost_ratio)} % of the time", "warn"
            )
        )
    return out


def _lowered_limit(state: GpuState, detail: GpuDetail | None) -> str:
    """The power limit and the default limit in words; "" if the limit is not lowered, or when unknown."""
    if detail is None or detail.default_limit_mw is None or state.power_limit_mw is None:
        return ""
    if state.power_limit_mw >= detail.default_limit_mw:
        return ""
    return f"limit {state.power_limit_mw / 1000:.0f} W, by default {detail.default_limit_mw / 1000:.0f} W"


def _raise_limit(state: GpuState, detail: GpuDetail | None) -> str:
    """The advice to raise the power limit. Without the option -i, nvidia-smi would set the limit of every GPU."""
    if not state.is_nvidia or detail is None or detail.default_limit_mw is None:
        return "raise it, unless it is intended"
    return f"run nvidia-smi -i {state.number} -pl {detail.default_limit_mw / 1000:.0f}, unless it is intended"


def _temperatures(state: GpuState) -> str:
    if state.temperature_celsius is None:
        return ""
    memory = "" if state.memory_celsius is None else f", memory {state.memory_celsius} C"
    where = f" ({state.temperature_sensor})" if state.temperature_sensor else ""
    return f" at {state.temperature_celsius} C{where}{memory}"


def _link(state: GpuState, rates: GpuRates, detail: GpuDetail | None) -> list[Meaning]:
    """The sentences about the PCIe link. The link is judged only if the GPU is under load or in performance state P0,
    because its generation drops while the GPU is idle.
    """
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
                Meaning(
                    "width", f"PCIe x{width} of x{full_width}: the slot has no more lanes", "warn", "use another slot"
                )
            )
        else:
            out.append(
                Meaning(
                    "width", f"PCIe x{width} of x{full_width} under load", "bad", "reseat the GPU, check slot and riser"
                )
            )
    best = state.pcie_max_generation
    if generation is not None and best is not None and generation < best:
        slot = None if detail is None else detail.slot_max_generation
        if slot is not None and slot <= generation:
            text = f"PCIe generation {generation} of {best}: the slot has no higher one"
            out.append(Meaning("generation", text, "warn", "use another slot"))
        else:
            text = f"PCIe generation {generation} of {best} under load"
            out.append(Meaning("generation", text, "warn", "check BIOS and riser"))
    if rates.pcie_replays_per_s is not None and rates.pcie_replays_per_s >= 1:
        text = f"PCIe replays {rates.pcie_replays_per_s:.0f} packets/s"
        out.append(Meaning("replays", text, "bad", "reseat the GPU, check the riser"))
    if generation in FULL_LINK_BYTES_PER_S and width:
        possible = FULL_LINK_BYTES_PER_S[generation] * width / 16
        for word, rate in (("in", rates.pcie_rx_bytes_per_s), ("out", rates.pcie_tx_bytes_per_s)):
            if rate is not None and rate >= SATURATED * possible:
                text = f"PCIe {word} {rate_words(rate)} of about {rate_words(possible)}: the link is full"
                out.append(Meaning("link_full", text, "warn", "send less: uint8, keep data on the GPU"))
    return out


def _memory(rates: GpuRates) -> list[Meaning]:
    """The sentence about full memory. It is not a warning, because allocators hold freed memory in reserve."""
    share = _share(rates.memory_used_bytes, rates.memory_total_bytes)
    if share is None or share < MEMORY_FULL:
        return []
    text = f"memory {percent(share)} % full: {size(rates.memory_used_bytes)} of {size(rates.memory_total_bytes)}"
    return [Meaning("memory", text, "dim")]


def health(state: GpuState, detail: GpuDetail | None) -> list[Meaning]:
    """The sentences about faults of the GPU itself and of its links."""
    out = []
    if state.last_xid is not None:
        token = "bad" if state.last_xid in OF_THE_BOARD else "dim" if state.last_xid in REPAIRED else "warn"
        out.append(Meaning("xid", f"Xid {state.last_xid}: {xid_meaning(state.last_xid)}", token))
    if recovery := recovery_of(state, detail):
        words = {1: "a reset", 2: "a reboot of the node", 3: "draining of its peers", 4: "draining and a reset"}
        words |= {6: words[1], 7: words[2]}
        out.append(Meaning("recovery", f"the driver asks for {words.get(recovery, 'recovery')}", "bad"))
    if detail is None:
        return out
    if detail.rows_failed:
        out.append(Meaning("rows_failed", "remapping a memory row failed", "bad", "have the board replaced"))
    if detail.sram_exceeded:
        out.append(Meaning("sram", "more errors in its SRAM than NVIDIA allows", "bad", "have the board replaced"))
    if detail.rows_pending or detail.pages_pending:
        cause = "a remapped row" if detail.rows_pending else "a retired page"
        out.append(Meaning("pending", f"{cause} waits for a reset", "warn", "run nvidia-smi --gpu-reset when idle"))
    if detail.ecc_uncorrected:
        text = f"{plural(detail.ecc_uncorrected, 'uncorrected memory error')} since the driver was loaded"
        out.append(Meaning("ecc", text, "bad", "drain and reset; results since then are doubtful"))
    if detail.nvlinks is not None and detail.nvlinks_active is not None and detail.nvlinks_active < detail.nvlinks:
        down = detail.nvlinks - detail.nvlinks_active
        # On a board without a bridge, all links are down by design.
        token = "bad" if detail.nvlinks_active else "dim"
        out.append(Meaning("nvlink", f"{down} of {detail.nvlinks} NVLinks down", token))
    if detail.fabric_state in (1, 2) or detail.fabric_status:
        word = {1: "not started", 2: "starting", 3: "failed"}.get(detail.fabric_state or 0, "failed")
        out.append(Meaning("fabric", f"NVLink fabric {word}", "bad", "run systemctl status nvidia-fabricmanager"))
    return out


def _heat(state: GpuState, detail: GpuDetail | None) -> list[Meaning]:
    celsius = state.temperature_celsius
    margin = state.margin_celsius
    if margin is None and celsius is not None and detail is not None and detail.slowdown_celsius is not None:
        margin = detail.slowdown_celsius - celsius
    if celsius is None or margin is None or margin > HOT_MARGIN_CELSIUS:
        return []
    where = f"{abs(margin)} C {'below' if margin > 0 else 'above'} its slowdown" if margin else "at its slowdown"
    return [Meaning("hot", f"{celsius} C, {where}", "warn", "check airflow, fans, room")]


def _processes(state: GpuState, detail: GpuDetail | None) -> list[Meaning]:
    """The sentences about a process that can run only on CPUs far from the GPU, and about processes that share it."""
    out = []
    near = set() if detail is None else cpu_set(detail.cpus)
    for process in state.processes or ():
        allowed = cpu_set(process.cpus)
        if near and allowed and not near & allowed and process.kind != "graphics":
            node = "" if detail is None or detail.numa_node is None else f" (node {detail.numa_node})"
            local = detail.cpus if detail else ""
            text = f"pid {process.pid} can run on CPUs {process.cpus} only, the GPU is near {local}{node}"
            out.append(Meaning("affinity", text, "warn", "use numactl, or the launcher's binding"))
            break
    shared = [process for process in state.processes or () if process.kind == "mps"]
    if shared:
        number = f"{len(shared)} process{'' if len(shared) == 1 else 'es'}"
        out.append(Meaning("mps", f"shared through MPS by {number}", "dim"))
    return out


def cpu_set(text: str) -> set[int]:
    """The CPUs of a list in the kernel's form, such as "0-3,8"; empty for any other text.

    Also empty for a list of LONGEST characters: a recording's texts are cut there, so CPUs may be missing.
    """
    out: set[int] = set()
    if len(text) == LONGEST:
        return out
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


def worst_token(sentences: Sequence[Meaning]) -> str:
    """The token of the most severe sentence, which is the first; "dim" if there are none."""
    return sentences[0].token if sentences else "dim"
