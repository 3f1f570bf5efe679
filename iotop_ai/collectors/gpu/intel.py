"""Reads Intel's GPU cards from sysfs files of the i915 and xe drivers: clock, throttling, energy, temperature, link.

Source: drivers/gpu/drm/i915/gt/intel_gt_sysfs_pm.c, drivers/gpu/drm/xe/{xe_gt_freq,xe_gt_throttle}.c, i915_hwmon.c and
xe_hwmon.c. The busy time comes from /proc/PID/fdinfo (drm_clients.py). An integrated GPU is not listed, because it is
not used for training.
"""

from __future__ import annotations

from iotop_ai.collectors.gpu.topology import DEVICES, DRM, drm_cards, edge_of
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.pcie import known_width, parse_generation
from iotop_ai.model.gpu.detail import GpuDetail
from iotop_ai.model.gpu.state import GpuState

INTEL = "0x8086"
_INTEGRATED = ":00:02."
"""The bus and device of an integrated GPU in its PCI address; functions after 0 are its virtual functions (SR-IOV)."""
_REASONS = {
    "pl1": 0x4, "pl2": 0x4, "pl4": 0x4, "vr_tdc": 0x4,
    "thermal": 0x20, "ratl": 0x20, "vr_thermalert": 0x20,
    "prochot": 0x40,
}  # fmt: skip
"""The bit of nvmlClocksEventReasons for each of the drivers' reasons: limits of power and current, heat, PROCHOT."""


class IntelCards:
    """Reads the cards that are present. A card is identified by its PCI address."""

    def __init__(self, root: Root, clock: Clock) -> None:
        self._root = root
        self._clock = clock
        self._folders: dict[str, str] = {}
        self._links: dict[str, str] = {}

    def cards(self) -> tuple[str, ...]:
        """Find the cards that are present and return their IDs; () when there are none."""
        self._folders, self._links = {}, {}
        for name in drm_cards(self._root):
            folder = f"{DRM}/{name}"
            if self._root.text_or(f"{folder}/device/vendor") != INTEL:
                continue
            properties = dict(line.split("=", 1) for line in self._root.lines(f"{folder}/device/uevent") if "=" in line)
            address = properties.get("PCI_SLOT_NAME", "")
            edge, bridge = edge_of(self._root, address)
            # In a virtual machine, a card that is passed through may be on the root bus.
            is_card = edge and (bridge or _INTEGRATED not in address)
            if properties.get("DRIVER") in ("i915", "xe") and is_card:
                card = f"Intel-{address}"
                self._folders[card], self._links[card] = folder, f"{DEVICES}/{edge}"
        return tuple(self._folders)

    def state(self, card: str) -> GpuState:
        """Read one card. A value that the kernel or the card does not provide is None."""
        folder, link = self._folders[card], self._links[card]
        read_number = self._root.number_or_none
        hwmon = self._hwmon(folder)
        energy = read_number(f"{hwmon}/energy1_input")
        energy_at_ns = None if energy is None else self._clock.monotonic_ns()
        i915, xe = f"{folder}/gt/gt0", f"{folder}/device/tile0/gt0/freq0"
        return GpuState(
            uuid=card,
            number=list(self._folders).index(card),
            name=f"Intel GPU {self._root.text_or(f'{folder}/device/device').removeprefix('0x')}",
            temperature_celsius=_divided(self._first_number(f"{hwmon}/temp2_input", f"{hwmon}/temp1_input"), 1000),
            memory_celsius=_divided(read_number(f"{hwmon}/temp3_input"), 1000),
            power_limit_mw=_divided(read_number(f"{hwmon}/power1_max"), 1000),
            energy_mj=_divided(energy, 1000),
            sm_mhz=self._first_number(f"{xe}/act_freq", f"{i915}/rps_act_freq_mhz"),
            sm_max_mhz=self._first_number(f"{xe}/rp0_freq", f"{i915}/rps_RP0_freq_mhz"),
            clock_reasons=self._reasons(f"{xe}/throttle/", "reason_", f"{i915}/throttle_reason_", ""),
            pcie_generation=parse_generation(self._root.text_or(f"{link}/current_link_speed")),
            pcie_width=known_width(read_number(f"{link}/current_link_width")),
            pcie_max_generation=parse_generation(self._root.text_or(f"{link}/max_link_speed")),
            pcie_max_width=known_width(read_number(f"{link}/max_link_width")),
            bus_id=card.removeprefix("Intel-"),
            energy_at_ns=energy_at_ns,
        )

    def detail(self, card: str) -> GpuDetail:
        """Read the default power limit of a card."""
        rated = self._root.number_or_none(f"{self._hwmon(self._folders[card])}/power1_rated_max")
        return GpuDetail(card, default_limit_mw=_divided(rated, 1000))

    def bus_id(self, card: str) -> str:
        """Return the PCI address of a card."""
        return card.removeprefix("Intel-")

    def devices(self, card: str) -> list[str]:
        """Return the names of a card's devices in /dev/dri, such as "card1" and "renderD128"."""
        return self._root.names(f"{self._folders[card]}/device/drm")

    def _reasons(self, *prefixes: str) -> int | None:
        """Return the present throttle reasons; 0 when the card is not throttled.

        None when no driver has these files, or when no present reason is in _REASONS. prefixes: for each driver,
        the beginning of the paths of its files, and the prefix of a reason's name.
        """
        for start, prefix in zip(prefixes[::2], prefixes[1::2], strict=True):
            status = self._root.number_or_none(f"{start}status")
            if status is None:
                continue
            bits = 0
            for reason, bit in _REASONS.items() if status else ():
                bits |= bit if self._root.number_or_none(f"{start}{prefix}{reason}") else 0
            return bits or (None if status else 0)
        return None

    def _first_number(self, *files: str) -> int | None:
        values = (self._root.number_or_none(file) for file in files)
        return next((value for value in values if value is not None), None)

    def _hwmon(self, folder: str) -> str:
        names = self._root.names(f"{folder}/device/hwmon")
        # Without a sensor, this is the path of a folder that does not exist, so every value in it is None.
        return f"{folder}/device/hwmon/{names[0] if names else 'none'}"


def _divided(value: int | None, divisor: int) -> int | None:
    return None if value is None else value // divisor
