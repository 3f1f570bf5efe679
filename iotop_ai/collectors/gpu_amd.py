"""AMD GPUs: by the amdgpu driver's files in sysfs, with amdsmi's word where that library is installed.

Source: https://docs.kernel.org/gpu/amdgpu/thermal.html and driver-misc.html. ``pcie_bw`` is never read: the driver
sleeps a second in it.
"""

from __future__ import annotations

from typing import Any

from iotop_ai.collectors.clock import Clock
from iotop_ai.collectors.gpu_place import parse_generation, placed
from iotop_ai.collectors.root import Root
from iotop_ai.model.clean import clean
from iotop_ai.model.gpu import GpuState
from iotop_ai.model.gpu_detail import GpuDetail
from iotop_ai.model.reading import Reading, Status

DRM = "sys/class/drm"
AMD = "0x1002"
_MILLI, _MICRO_TO_MILLI, _HERTZ_TO_MEGA = 1000, 1000, 1_000_000
_FULL_PWM = 255
LOOK_EVERY = 5


class AmdCards:
    """The cards of the amdgpu driver, by an id that survives a restart: the board's own, else its PCI address."""

    def __init__(self, root: Root, smi: Any = None) -> None:
        self._root = root
        self._smi = smi
        self._folders: dict[str, str] = {}
        self._handles: dict[str, Any] = {}

    def cards(self) -> tuple[str, ...]:
        """Ids of the cards there are now; () without any."""
        self._folders = {}
        for name in self._root.names(DRM):
            folder = f"{DRM}/{name}/device"
            if not (name.startswith("card") and name[4:].isdigit()):
                continue
            # A display-only part has no memory of its own: no GPU to train on.
            if self._root.text_or(f"{folder}/vendor") == AMD and self._root.number_or_none(
                f"{folder}/mem_info_vram_total"
            ):
                self._folders[self._id(folder, name)] = folder
        if self._folders and self._smi is not None:
            self._handles = smi_handles(self._smi)
        return tuple(self._folders)

    def state(self, card: str) -> GpuState:
        """One card now; what its kernel or model does not tell is None."""
        folder = self._folders[card]
        number = self._root.number_or_none
        hwmon = self._hwmon(folder)
        slot = self._slot(folder)
        used, total = number(f"{folder}/mem_info_vram_used"), number(f"{folder}/mem_info_vram_total")
        power = number(f"{hwmon}/power1_average") if hwmon else None
        if power is None and hwmon:
            power = number(f"{hwmon}/power1_input")
        state = GpuState(
            uuid=card,
            number=list(self._folders).index(card),
            name=self._name(folder),
            utilization_percent=_percent(number(f"{folder}/gpu_busy_percent")),
            memory_activity_percent=_percent(number(f"{folder}/mem_busy_percent")),
            memory_total_bytes=total,
            memory_used_bytes=used,
            memory_free_bytes=None if used is None or total is None else max(0, total - used),
            temperature_celsius=_over(self._labelled(hwmon, "temp", "edge") or self._sensor(hwmon, "temp1"), _MILLI),
            memory_celsius=_over(self._labelled(hwmon, "temp", "mem"), _MILLI),
            power_mw=_over(power, _MICRO_TO_MILLI),
            power_limit_mw=_over(self._sensor(hwmon, "power1", "cap"), _MICRO_TO_MILLI),
            energy_mj=_over(self._sensor(hwmon, "energy1"), _MICRO_TO_MILLI),
            sm_mhz=_over(self._labelled(hwmon, "freq", "sclk"), _HERTZ_TO_MEGA),
            memory_mhz=_over(self._labelled(hwmon, "freq", "mclk"), _HERTZ_TO_MEGA),
            fan_percent=self._fan(hwmon),
            pcie_generation=parse_generation(self._root.text_or(f"{folder}/current_link_speed")),
            pcie_width=number(f"{folder}/current_link_width"),
            pcie_max_generation=parse_generation(self._root.text_or(f"{folder}/max_link_speed")),
            pcie_max_width=number(f"{folder}/max_link_width"),
            pcie_replays=number(f"{folder}/pcie_replay_count"),
            bus_id=slot,
        )
        handle = self._handles.get(slot.lower())
        return state if handle is None else with_smi(self._smi, handle, state)

    def detail(self, card: str) -> GpuDetail:
        """Its limits."""
        folder = self._folders[card]
        hwmon = self._hwmon(folder)
        return GpuDetail(
            card,
            vbios=self._root.text_or(f"{folder}/vbios_version"),
            slowdown_celsius=_over(self._sensor(hwmon, "temp1", "crit"), _MILLI),
            shutdown_celsius=_over(self._sensor(hwmon, "temp1", "emergency"), _MILLI),
            default_limit_mw=_over(self._sensor(hwmon, "power1", "cap_default"), _MICRO_TO_MILLI),
            least_limit_mw=_over(self._sensor(hwmon, "power1", "cap_min"), _MICRO_TO_MILLI),
            most_limit_mw=_over(self._sensor(hwmon, "power1", "cap_max"), _MICRO_TO_MILLI),
        )

    def bus_id(self, card: str) -> str:
        """Its PCI address."""
        return self._slot(self._folders[card])

    def _id(self, folder: str, name: str) -> str:
        own = self._root.text_or(f"{folder}/unique_id")
        return f"AMD-{own}" if own else f"AMD-{self._slot(folder) or name}"

    def _slot(self, folder: str) -> str:
        for line in self._root.lines(f"{folder}/uevent"):
            key, _, value = line.partition("=")
            if key == "PCI_SLOT_NAME":
                return value
        return ""

    def _name(self, folder: str) -> str:
        given = self._root.text_or(f"{folder}/product_name")
        return given or f"AMD GPU {self._root.text_or(f'{folder}/device').removeprefix('0x')}".strip()

    def _hwmon(self, folder: str) -> str:
        names = self._root.names(f"{folder}/hwmon")
        return f"{folder}/hwmon/{names[0]}" if names else ""

    def _sensor(self, hwmon: str, name: str, kind: str = "input") -> int | None:
        return self._root.number_or_none(f"{hwmon}/{name}_{kind}") if hwmon else None

    def _labelled(self, hwmon: str, kind: str, label: str) -> int | None:
        """The sensor of that label: temp1_label = edge, temp2 = junction, temp3 = mem; freq1 = sclk, freq2 = mclk."""
        for i in range(1, 4):
            if hwmon and self._root.text_or(f"{hwmon}/{kind}{i}_label") == label:
                return self._sensor(hwmon, f"{kind}{i}")
        return None

    def _fan(self, hwmon: str) -> int | None:
        pwm = self._root.number_or_none(f"{hwmon}/pwm1") if hwmon else None
        return None if pwm is None else round(100 * pwm / _FULL_PWM)


class AmdSweep:
    """Reads all cards at once; which there are, and their limits, every fifth time. Used by one thread."""

    def __init__(self, root: Root, clock: Clock) -> None:
        self._root = root
        self._clock = clock
        self._cards = AmdCards(root)
        self._sweeps = 0
        self._names: tuple[str, ...] = ()
        self.details: dict[str, Reading[GpuDetail]] = {}

    def read(self) -> dict[str, Reading[GpuState]]:
        """Each card's Reading; {} without any."""
        if self._sweeps % LOOK_EVERY == 0:
            self._look()
        self._sweeps += 1
        out = {}
        for card in self._names:
            start_ns = self._clock.monotonic_ns()
            state = self._cards.state(card)
            end_ns = self._clock.monotonic_ns()
            out[card] = Reading(state, Status.OK, "", "", end_ns, end_ns - start_ns)
        return out

    def _look(self) -> None:
        first = not self._names
        self._names = self._cards.cards()
        if self._names and first and self._root.live:
            self._cards = AmdCards(self._root, load_smi())
            self._names = self._cards.cards()
        self.details = {}
        for card in self._names:
            start_ns = self._clock.monotonic_ns()
            detail = placed(self._root, self._cards.detail(card), self._cards.bus_id(card))
            end_ns = self._clock.monotonic_ns()
            self.details[card] = Reading(detail, Status.OK, "", "", end_ns, end_ns - start_ns)


def _over(value: int | None, unit: int) -> int | None:
    return None if value is None else value // unit


def _percent(value: int | None) -> int | None:
    return value if value is not None and 0 <= value <= 100 else None


def load_smi() -> Any:
    """The amdsmi module, begun; None where it is not installed or finds no driver."""
    try:
        import amdsmi  # type: ignore[import-not-found, unused-ignore]

        amdsmi.amdsmi_init()
    except Exception:  # a broken ROCm installation fails in its own ways; sysfs still answers
        return None
    return amdsmi


def smi_handles(smi: Any) -> dict[str, Any]:
    """PCI address to amdsmi's handle; {} when it fails."""
    try:
        return {
            clean(str(smi.amdsmi_get_gpu_device_bdf(handle))).lower(): handle
            for handle in smi.amdsmi_get_processor_handles()
        }
    except smi.AmdSmiException:
        return {}


def with_smi(smi: Any, handle: Any, state: GpuState) -> GpuState:
    """The state with what amdsmi knows where sysfs was silent.

    Source: amdsmi_interface.py of 7.0.2, where a figure that the board does not have is "N/A".
    """

    def ask(function: str, key: str) -> int | None:
        try:
            answer = getattr(smi, function)(handle)[key]
        except (smi.AmdSmiException, AttributeError, KeyError):
            return None
        return answer if type(answer) is int else None

    busy, memory = ask("amdsmi_get_gpu_activity", "gfx_activity"), ask("amdsmi_get_gpu_activity", "umc_activity")
    # MI300 and later tell the current power only, older boards the mean.
    watts = ask("amdsmi_get_power_info", "current_socket_power")
    if watts is None:
        watts = ask("amdsmi_get_power_info", "average_socket_power")
    if state.utilization_percent is None:
        state = state._replace(utilization_percent=_percent(busy))
    if state.memory_activity_percent is None:
        state = state._replace(memory_activity_percent=_percent(memory))
    if state.power_mw is None and watts is not None:
        state = state._replace(power_mw=watts * 1000)
    return state
