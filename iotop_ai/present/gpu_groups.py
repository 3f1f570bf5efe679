"""GPUs folded: those that are alike are one row, an outlier stands alone."""

from __future__ import annotations

from collections.abc import Sequence

from iotop_ai.model.frame import Frame
from iotop_ai.model.reading import Reading
from iotop_ai.model.record import NamedTuple
from iotop_ai.model.typed import TYPE_CHECKING
from iotop_ai.present.memo import once_a_frame
from iotop_ai.present.view import View

if TYPE_CHECKING:
    from iotop_ai.model.gpu import GpuRates, GpuState

_BUSY_APART, _CELSIUS_APART, _SHARE_APART = 0.15, 10.0, 0.15
_SMOOTH = 10

# Bits of nvmlClocksEventReasons in nvml.h; idle, application clocks, sync boost and display settings are no throttle.
_REASONS = (
    (0x40, "thermal hw"),
    (0x80, "power brake"),
    (0x08, "slowdown hw"),
    (0x20, "thermal"),
    (0x04, "power"),
)


class Gpu(NamedTuple):
    """One GPU. state and rates None: it gave no answer (then reading says why). busy: mean of the last 10 samples."""

    uuid: str
    reading: Reading[GpuState]
    rates: GpuRates | None
    busy: float | None

    @property
    def state(self) -> GpuState | None:
        """What NVML said."""
        return self.reading.value

    @property
    def row_key(self) -> str:
        """The key of its row."""
        return f"gpu:{self.uuid}"


def short_model(name: str) -> str:
    """The model as people say it: "H100 80GB HBM3" for "NVIDIA H100 80GB HBM3"."""
    for word in ("NVIDIA ", "GeForce "):
        name = name.replace(word, "")
    return name


def throttle(state: GpuState) -> str:
    """Why the clocks are down: "none", the gravest reason, "?" when the driver does not say."""
    if state.clock_reasons is None:
        return "?"
    for bit, word in _REASONS:
        if state.clock_reasons & bit:
            return word
    return "none"


LEAST_SHARE = 0.01


def held_back(gpu: Gpu) -> tuple[str, float] | None:
    """The gravest reason that holds it back and its share of the interval, from the ns counters; None without them.

    Thermal and power-brake slowdowns are named before the power limit, which is normal at full load.
    """
    rates = gpu.rates
    if rates is None:
        return None
    shares = (
        ("thermal hw", rates.hw_thermal_ratio),
        ("brake", rates.power_brake_ratio),
        ("thermal", rates.sw_thermal_ratio),
        ("power", rates.power_cap_ratio),
    )
    known = [(word, share) for word, share in shares if share is not None]
    if not known:
        return None
    return next((one for one in known if one[1] >= LEAST_SHARE), known[-1])


def link(state: GpuState) -> str:
    """PCIe generation x width, with what it could be behind a slash when it is less: "5x16", "3x8/4x16"."""
    if state.pcie_generation is None or state.pcie_width is None:
        return "?"
    now = f"{state.pcie_generation}x{state.pcie_width}"
    # The generation falls by itself while a GPU is idle; a narrow link stays narrow.
    if state.pcie_max_width is not None and state.pcie_width < state.pcie_max_width:
        return f"{now}/x{state.pcie_max_width}"
    return now


@once_a_frame
def gpus(frame: Frame, view: View) -> tuple[Gpu, ...]:
    """All GPUs, by NVML's index."""
    rates = frame.sample.gpu.value or {}
    recent = [s.gpu.value or {} for s in frame.history[-_SMOOTH:] if s.gpu.renewed]
    out = []
    for uuid, reading in (frame.snapshot.gpu.value or {}).items():
        seen = [b for table in recent if uuid in table and (b := table[uuid].busy_ratio) is not None]
        out.append(Gpu(uuid, reading, rates.get(uuid), sum(seen) / len(seen) if seen else None))
    return tuple(sorted(out, key=lambda g: (g.state.number if g.state else 1 << 20, g.uuid)))


def chosen_gpu(frame: Frame, view: View, uuid: str) -> Gpu | None:
    """The GPU of that UUID, else the first; None without any."""
    every = gpus(frame, view)
    return next((g for g in every if g.uuid == uuid), every[0] if every else None)


def _near(values: Sequence[float | None], apart: float) -> list[bool]:
    """Whether each value lies within ``apart`` of the median; unknown is near unknown only."""
    known = [v for v in values if v is not None]
    if not known:
        return [True] * len(values)
    from statistics import median  # dear to import, and not needed where there is no GPU

    middle = median(known)
    most_know = 2 * len(known) >= len(values)
    return [(abs(v - middle) <= apart) if v is not None else not most_know for v in values]


def _ratio(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole


@once_a_frame
def alike(frame: Frame, view: View) -> tuple[tuple[Gpu, ...], ...]:
    """The GPUs folded: of each model, memory size, link and throttle word those near the median; the others alone."""
    kinds: dict[tuple[str, int | None, str, str], list[Gpu]] = {}
    alone: list[tuple[Gpu, ...]] = []
    for gpu in gpus(frame, view):
        state = gpu.state
        if state is None:
            alone.append((gpu,))
        else:
            kinds.setdefault((state.name, state.memory_total_bytes, link(state), throttle(state)), []).append(gpu)
    out: list[tuple[Gpu, ...]] = []
    for members in kinds.values():
        rates = [g.rates for g in members]
        checks = (
            _near([g.busy for g in members], _BUSY_APART),
            _near([r and r.temperature_celsius for r in rates], _CELSIUS_APART),
            _near([r and _ratio(r.memory_used_bytes, r.memory_total_bytes) for r in rates], _SHARE_APART),
            _near([r and _ratio(r.power_watts, r.power_limit_watts) for r in rates], _SHARE_APART),
        )
        same = tuple(g for i, g in enumerate(members) if all(check[i] for check in checks))
        if same:
            out.append(same)
        out += [(g,) for g in members if g not in same]
    return tuple(sorted((*out, *alone), key=lambda group: group[0].state.number if group[0].state else 1 << 20))
