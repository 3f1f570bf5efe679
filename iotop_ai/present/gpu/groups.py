"""GPUs in groups: similar GPUs share a row; a GPU that differs from them has its own row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.frame import Frame
from iotop_ai.model.reading import Reading
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.frame_cache import cached_per_frame
from iotop_ai.present.verdict.culprit import culprit_of

if TYPE_CHECKING:
    from iotop_ai.model.gpu.state import GpuRates, GpuState

_BUSY_RANGE, _CELSIUS_RANGE, _SHARE_RANGE = 0.15, 10.0, 0.15
"""How far a member may differ from the median of its group: in utilisation, in °C, and in its share of memory
or power.
"""
_AVERAGED_SAMPLES = 10
"""The number of samples over which the utilisation is averaged."""

# The bits of nvmlClocksEventReasons in nvml.h that mean lowered clocks. The bits for idle, application clocks, sync
# boost and display settings are left out.
_REASONS = (
    (0x40, "thermal hw"),
    (0x80, "power brake"),
    (0x08, "slowdown hw"),
    (0x20, "thermal"),
    (0x04, "power"),
)
"""(bit, throttle word), the most severe first."""


class Gpu(NamedTuple):
    """One GPU, with its newest state and rates."""

    uuid: str
    reading: Reading[GpuState]
    """The Reading of the GPU, which holds a reason if the state is missing."""
    rates: GpuRates | None
    """The GPU's rates; None if it did not answer."""
    busy: float | None
    """The mean utilisation over the last 10 samples, 0..1; None when unknown."""

    @property
    def state(self) -> GpuState | None:
        """The GPU's state as the driver reported it; None if the GPU did not answer."""
        return self.reading.value

    @property
    def row_key(self) -> str:
        """The key of the GPU's row."""
        return f"gpu:{self.uuid}"


def short_model(name: str) -> str:
    """The model without vendor and family: "H100 80GB HBM3" for "NVIDIA H100 80GB HBM3"."""
    for word in ("NVIDIA ", "GeForce "):
        name = name.replace(word, "")
    return name


def throttle_text(state: GpuState) -> str:
    """The most severe reason why the clocks are lowered; "none" if they are not, "?" when unknown."""
    if state.clock_reasons is None:
        return "?"
    for bit, word in _REASONS:
        if state.clock_reasons & bit:
            return word
    return "none"


LEAST_THROTTLE_SHARE = 0.01
"""The smallest share of the interval at which a throttle reason counts."""


def throttle_share(gpu: Gpu) -> tuple[str, float] | None:
    """(the most severe throttle reason, its share of the interval); None if the GPU does not count the time, or
    did not answer.

    If no share reaches LEAST_THROTTLE_SHARE, the least severe reason that the GPU counts is returned.

    Heat and the power brake come before the power limit, because being at the power limit is normal at full load.
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
    known_shares = [(word, share) for word, share in shares if share is not None]
    if not known_shares:
        return None
    return next((entry for entry in known_shares if entry[1] >= LEAST_THROTTLE_SHARE), known_shares[-1])


def number_runs(numbers: Iterable[int]) -> str:
    """The numbers in ascending order, with consecutive ones shortened: "0-7", "0-2,4"."""
    runs: list[list[int]] = []
    for n in sorted(numbers):
        if runs and n == runs[-1][-1] + 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    return ",".join(str(r[0]) if len(r) == 1 else f"{r[0]}-{r[-1]}" for r in runs)


def link_text(state: GpuState) -> str:
    """The generation and width of the PCIe link, "Gen5 x16"; with the full width after a slash if the link is narrower,
    "3x8/x16"; "?" when unknown.
    """
    if state.pcie_generation is None or state.pcie_width is None:
        return "?"
    link = f"Gen{state.pcie_generation} x{state.pcie_width}"
    # The generation drops while a GPU is idle, but the width does not.
    if state.pcie_max_width is not None and state.pcie_width < state.pcie_max_width:
        return f"{state.pcie_generation}x{state.pcie_width}/x{state.pcie_max_width}"
    return link


@cached_per_frame
def gpus(frame: Frame, view: View) -> tuple[Gpu, ...]:
    """All GPUs in the order of their numbers; GPUs that do not answer come last."""
    rates = frame.sample.gpu.value or {}
    recent = [s.gpu.value or {} for s in frame.history[-_AVERAGED_SAMPLES:] if s.gpu.renewed]
    out = []
    for uuid, reading in (frame.snapshot.gpu.value or {}).items():
        busy = [b for table in recent if uuid in table and (b := table[uuid].busy_ratio) is not None]
        out.append(Gpu(uuid, reading, rates.get(uuid), sum(busy) / len(busy) if busy else None))
    return tuple(sorted(out, key=lambda g: (g.state.number if g.state else 1 << 20, g.uuid)))


def selected_gpu(frame: Frame, view: View, uuid: str) -> Gpu | None:
    """The GPU with this UUID; for "", the first GPU that the verdict names, otherwise the first of all; None if there
    is no such GPU.
    """
    all_gpus = gpus(frame, view)
    if not uuid:
        culprit_uuids = culprit_of(frame, view).gpus
        return next((gpu for gpu in all_gpus if gpu.uuid in culprit_uuids), all_gpus[0] if all_gpus else None)
    return next((gpu for gpu in all_gpus if gpu.uuid == uuid), None)


def _are_near(values: Sequence[float | None], distance: float) -> list[bool]:
    """Whether each value lies within ``distance`` of the median. An unknown value counts as near only if most are
    unknown.
    """
    known_values = [v for v in values if v is not None]
    if not known_values:
        return [True] * len(values)
    from statistics import median  # slow to import, and only needed with a GPU

    middle = median(known_values)
    most_known = 2 * len(known_values) >= len(values)
    return [(abs(v - middle) <= distance) if v is not None else not most_known for v in values]


def _ratio(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole


@cached_per_frame
def gpu_groups(frame: Frame, view: View) -> tuple[tuple[Gpu, ...], ...]:
    """The GPUs in groups of the same model, memory size, link and throttle reason. A GPU whose figures differ from its
    group's is a group by itself.
    """
    by_traits: dict[tuple[str, int | None, str, str], list[Gpu]] = {}
    unread: list[tuple[Gpu, ...]] = []
    for gpu in gpus(frame, view):
        state = gpu.state
        if state is None:
            unread.append((gpu,))
        else:
            traits = state.name, state.memory_total_bytes, link_text(state), throttle_text(state)
            by_traits.setdefault(traits, []).append(gpu)
    out: list[tuple[Gpu, ...]] = []
    for members in by_traits.values():
        rates = [g.rates for g in members]
        checks = (
            _are_near([g.busy for g in members], _BUSY_RANGE),
            _are_near([r and r.temperature_celsius for r in rates], _CELSIUS_RANGE),
            _are_near([r and _ratio(r.memory_used_bytes, r.memory_total_bytes) for r in rates], _SHARE_RANGE),
            _are_near([r and _ratio(r.power_watts, r.power_limit_watts) for r in rates], _SHARE_RANGE),
        )
        similar = tuple(g for i, g in enumerate(members) if all(check[i] for check in checks))
        if similar:
            out.append(similar)
        out += [(g,) for g in members if g not in similar]
    return tuple(sorted((*out, *unread), key=lambda group: group[0].state.number if group[0].state else 1 << 20))


def panel_groups(frame: Frame, view: View, height: int) -> tuple[tuple[Gpu, ...], ...]:
    """The groups of the panel from top to bottom, including those that do not fit. Each GPU is a group by itself if all
    GPUs fit below the rule of a panel with ``height`` rows.
    """
    all_gpus = gpus(frame, view)
    return tuple((gpu,) for gpu in all_gpus) if height - 1 >= len(all_gpus) else gpu_groups(frame, view)


def group_key(group: tuple[Gpu, ...], view: View) -> str:
    """The key of a group's row: the key of the member under the cursor, otherwise of the first member. A group has no
    key of its own, because groups change from one refresh to the next.
    """
    return next((gpu.row_key for gpu in group if gpu.row_key == view.cursor), group[0].row_key)
