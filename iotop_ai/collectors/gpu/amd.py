"""Reads AMD GPUs from the amdgpu driver's files in sysfs, and from the library amdsmi if it is installed.

Source: https://docs.kernel.org/gpu/amdgpu/thermal.html and driver-misc.html. ``pcie_bw`` is never read, because the
driver sleeps for a second in each read of this file.
"""

from __future__ import annotations

from typing import Any

from iotop_ai.collectors.gpu.amd_metrics import ThrottleDecoder
from iotop_ai.collectors.gpu.topology import AMD, DEVICES, DRM, drm_cards, edge_of
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.pcie import known_width, parse_generation
from iotop_ai.model.clean import clean
from iotop_ai.model.gpu.amd_throttle import OTHER, clock_reasons
from iotop_ai.model.gpu.detail import GpuDetail
from iotop_ai.model.gpu.state import GpuState

_MILLI, _MICRO_TO_MILLI, _HERTZ_TO_MEGA = 1000, 1000, 1_000_000
"""The divisors that convert 1/1000 °C to °C, µW to mW and µJ to mJ, and Hz to MHz."""
_FULL_PWM = 255
"""The value of pwm1 at full speed."""
_METRICS_BYTES = 4096
"""The maximum number of bytes of ``gpu_metrics`` that are read."""


class AmdCards:
    """The cards of the amdgpu driver, by an ID that stays the same after a restart.

    The ID is "AMD-" and the board's own ID, or else its PCI address, or else its DRM name ("card0"). smi: the module
    amdsmi; None to read only sysfs.
    """

    def __init__(self, root: Root, clock: Clock, smi: Any = None) -> None:
        self._root = root
        self._clock = clock
        self._smi = smi
        self._folders: dict[str, str] = {}
        self._links: dict[str, str] = {}
        self._throttles: dict[str, ThrottleDecoder] = {}
        self._handles: dict[str, Any] = {}

    def cards(self) -> tuple[str, ...]:
        """Find the cards that are present and return their IDs; () when there are none."""
        self._folders = {}
        for name in drm_cards(self._root):
            folder = f"{DRM}/{name}/device"
            # A card without its own memory is not used for training.
            if self._root.text_or(f"{folder}/vendor") == AMD and self._root.number_or_none(
                f"{folder}/mem_info_vram_total"
            ):
                self._folders[self._id(folder, name)] = folder
        self._links = {card: self._link(folder) for card, folder in self._folders.items()}
        if self._folders and self._smi is not None:
            self._handles = smi_handles(self._smi)
        return tuple(self._folders)

    def state(self, card: str) -> GpuState:
        """Read one card. A value that the kernel or the card does not provide is None."""
        folder, link = self._folders[card], self._links[card]
        number = self._root.number_or_none
        hwmon = self._hwmon(folder)
        address = self._pci_address(folder)
        used, total = number(f"{folder}/mem_info_vram_used"), number(f"{folder}/mem_info_vram_total")
        power = number(f"{hwmon}/power1_average") if hwmon else None
        if power is None and hwmon:
            power = number(f"{hwmon}/power1_input")
        energy = _divided(self._sensor(hwmon, "energy1"), _MICRO_TO_MILLI)
        energy_at_ns = None if energy is None else self._clock.monotonic_ns()
        sensor, label = self._core_sensor(hwmon)
        bits = self._throttle(card, folder)
        state = GpuState(
            uuid=card,
            number=list(self._folders).index(card),
            name=self._name(folder),
            utilization_percent=_percent(number(f"{folder}/gpu_busy_percent")),
            memory_activity_percent=_percent(number(f"{folder}/mem_busy_percent")),
            memory_total_bytes=total,
            memory_used_bytes=used,
            memory_free_bytes=None if used is None or total is None else max(0, total - used),
            temperature_celsius=_divided(self._sensor(hwmon, sensor), _MILLI),
            memory_celsius=_divided(self._sensor(hwmon, self._labelled(hwmon, "temp", "mem")), _MILLI),
            power_mw=_divided(power, _MICRO_TO_MILLI),
            power_limit_mw=_divided(self._sensor(hwmon, "power1", "cap"), _MICRO_TO_MILLI),
            energy_mj=energy,
            sm_mhz=_divided(self._sensor(hwmon, self._labelled(hwmon, "freq", "sclk")), _HERTZ_TO_MEGA),
            memory_mhz=_divided(self._sensor(hwmon, self._labelled(hwmon, "freq", "mclk")), _HERTZ_TO_MEGA),
            fan_percent=self._fan(hwmon),
            pcie_generation=parse_generation(self._root.text_or(f"{link}/current_link_speed")),
            pcie_width=known_width(number(f"{link}/current_link_width")),
            pcie_max_generation=parse_generation(self._root.text_or(f"{link}/max_link_speed")),
            pcie_max_width=known_width(number(f"{link}/max_link_width")),
            pcie_replays=number(f"{folder}/pcie_replay_count"),
            bus_id=address,
            energy_at_ns=energy_at_ns,
            temperature_sensor=label,
            throttle_bits=bits,
            clock_reasons=None if bits is None or bits == OTHER else clock_reasons(bits),
        )
        handle = self._handles.get(address.lower())
        return state if handle is None else with_smi(self._smi, handle, state)

    def detail(self, card: str) -> GpuDetail:
        """Read the limits and the VBIOS version of a card."""
        folder = self._folders[card]
        hwmon = self._hwmon(folder)
        sensor, _ = self._core_sensor(hwmon)
        memory = self._labelled(hwmon, "temp", "mem")
        return GpuDetail(
            card,
            vbios=self._root.text_or(f"{folder}/vbios_version"),
            slowdown_celsius=_divided(self._sensor(hwmon, sensor, "crit"), _MILLI),
            shutdown_celsius=_divided(self._sensor(hwmon, sensor, "emergency"), _MILLI),
            memory_max_celsius=_divided(self._sensor(hwmon, memory, "crit"), _MILLI),
            default_limit_mw=_divided(self._sensor(hwmon, "power1", "cap_default"), _MICRO_TO_MILLI),
            least_limit_mw=_divided(self._sensor(hwmon, "power1", "cap_min"), _MICRO_TO_MILLI),
            most_limit_mw=_divided(self._sensor(hwmon, "power1", "cap_max"), _MICRO_TO_MILLI),
        )

    def bus_id(self, card: str) -> str:
        """Return the PCI address of a card; "" when it is unknown."""
        return self._pci_address(self._folders[card])

    def _id(self, folder: str, name: str) -> str:
        board_id = self._root.text_or(f"{folder}/unique_id")
        return f"AMD-{board_id}" if board_id else f"AMD-{self._pci_address(folder) or name}"

    def _pci_address(self, folder: str) -> str:
        for line in self._root.lines(f"{folder}/uevent"):
            key, _, value = line.partition("=")
            if key == "PCI_SLOT_NAME":
                return value
        return ""

    def _name(self, folder: str) -> str:
        product = self._root.text_or(f"{folder}/product_name")
        return product or f"AMD GPU {self._root.text_or(f'{folder}/device').removeprefix('0x')}".strip()

    def _hwmon(self, folder: str) -> str:
        names = self._root.names(f"{folder}/hwmon")
        return f"{folder}/hwmon/{names[0]}" if names else ""

    def _throttle(self, card: str, folder: str) -> int | None:
        try:
            raw = self._root.read_once(f"{folder}/gpu_metrics", _METRICS_BYTES)
        except OSError:  # older kernels and models do not have this file
            return None
        return self._throttles.setdefault(card, ThrottleDecoder()).bits(raw)

    def _link(self, folder: str) -> str:
        """Return the folder of the device that reports the link of the slot, or else the card's own folder."""
        edge, _ = edge_of(self._root, self._pci_address(folder))
        return f"{DEVICES}/{edge}" if edge and self._root.exists(f"{DEVICES}/{edge}/current_link_speed") else folder

    def _sensor(self, hwmon: str, name: str, kind: str = "input") -> int | None:
        return self._root.number_or_none(f"{hwmon}/{name}_{kind}") if hwmon and name else None

    def _core_sensor(self, hwmon: str) -> tuple[str, str | None]:
        """Return (the sensor of the core, its label); the label is None for the usual sensor, which is the edge sensor.

        MI300 and similar boards have no edge sensor. If no sensor has a known label, temp1 is returned.
        """
        if edge := self._labelled(hwmon, "temp", "edge"):
            return edge, None
        junction = self._labelled(hwmon, "temp", "junction")
        return (junction, "junction") if junction else ("temp1", None)

    def _labelled(self, hwmon: str, kind: str, label: str) -> str:
        """Return the sensor with this label; "" when it is missing.

        The usual labels are edge for temp1, junction for temp2, mem for temp3, sclk for freq1 and mclk for freq2.
        """
        names = (f"{kind}{i}" for i in range(1, 4))
        return next((name for name in names if hwmon and self._root.text_or(f"{hwmon}/{name}_label") == label), "")

    def _fan(self, hwmon: str) -> int | None:
        pwm = self._root.number_or_none(f"{hwmon}/pwm1") if hwmon else None
        return None if pwm is None else round(100 * pwm / _FULL_PWM)


def _divided(value: int | None, divisor: int) -> int | None:
    return None if value is None else value // divisor


def _percent(value: int | None) -> int | None:
    return value if value is not None and 0 <= value <= 100 else None


def load_smi() -> Any:
    """Return the module amdsmi, initialised; None when it is not installed or cannot be initialised."""
    try:
        import amdsmi  # type: ignore[import-not-found, unused-ignore]

        amdsmi.amdsmi_init()
    except Exception:  # a broken ROCm installation may raise any exception, and sysfs still works without it
        return None
    return amdsmi


def smi_handles(smi: Any) -> dict[str, Any]:
    """Return amdsmi's handle of each GPU by PCI address; {} when amdsmi fails."""
    try:
        return {
            clean(str(smi.amdsmi_get_gpu_device_bdf(handle))).lower(): handle
            for handle in smi.amdsmi_get_processor_handles()
        }
    except smi.AmdSmiException:
        return {}


def with_smi(smi: Any, handle: Any, state: GpuState) -> GpuState:
    """Return the state with amdsmi's values for the utilisation, the memory activity and the power.

    A value that sysfs has given is kept. Source: amdsmi_interface.py of version 7.0.2, in which a figure that the board
    does not have is "N/A".
    """

    def ask(function: str, key: str) -> int | None:
        try:
            answer = getattr(smi, function)(handle)[key]
        except (smi.AmdSmiException, AttributeError, KeyError):
            return None
        return answer if type(answer) is int else None

    busy, memory = ask("amdsmi_get_gpu_activity", "gfx_activity"), ask("amdsmi_get_gpu_activity", "umc_activity")
    # MI300 and later boards report only the current power, and older boards only the mean power.
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
