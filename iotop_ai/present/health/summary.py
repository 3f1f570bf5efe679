"""A disk's health as one word, short enough for the disk's row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.frame import Frame
from iotop_ai.model.health.volume import bus_in
from iotop_ai.model.reading import Reading, Status
from iotop_ai.present.block import devices
from iotop_ai.present.text.units import count, duration

if TYPE_CHECKING:
    from iotop_ai.model.health.smart import SmartState


class Health(NamedTuple):
    """The health of a disk."""

    word: str
    """The health in at most eight columns."""
    token: str
    """The theme's name for the colour of the word, such as "bad" or "dim"."""
    reason: str = ""
    """The clause after the word; "" for none."""


NO_SMART = "no SMART"
_FAULTS = ("FAILING", "degraded", "warm", "worn", "warn")
"""The words for a fault, the worst first."""
_WARM = {"warm", "throttles"}
_WORN = {"worn", "worn-soon", "spare-low"}
"""The ids of the rules whose warning gives a disk the word "warm" (_WARM) or "worn" (_WORN)."""
_HEALTH_BY_STATUS = {
    Status.PENDING: Health("asking", "dim", "smartctl has not answered yet"),
    Status.ABSENT: Health("no node", "unsure", "it has no device node here"),
    Status.UNSUPPORTED: Health(NO_SMART, "dim", "this device has no SMART"),
    Status.DENIED: Health("? root", "unsure", "SMART needs root"),
    Status.FAILED: Health("? failed", "unsure", "smartctl failed"),
    Status.ASLEEP: Health("asleep", "dim", "in standby, not woken"),
    Status.OFF: Health("not read", "dim", "SMART is not queried"),
    Status.OK: Health("?", "unsure", "smartctl gave no answer"),
}
"""The health of a disk without SMART figures, by the status of its Reading."""


def _state_health(state: SmartState) -> Health:
    reason = state.reasons[0] if state.reasons else ""
    if state.severity == "critical":
        return Health("FAILING", "bad", reason)
    if state.severity == "warning":
        rules = {judgement.rule for judgement in state.judgements[:1]}
        # Without judgements, the words of the reasons decide.
        reasons = "" if rules else " ".join(state.reasons).lower()
        word = "warm" if rules & _WARM else "worn" if rules & _WORN else "warn"
        if "temperature" in reasons or "celsius" in reasons or "°c" in reasons:
            word = "warm"
        elif "used" in reasons or "wear" in reasons or "spare" in reasons:
            word = "worn"
        return Health(word, "warn", reason)
    if state.severity == "ok" and state.assessment is not None:
        wear_text = f"wear {state.used_percent} %" if state.used_percent else ""
        return Health("ok", "dim", wear_text)
    return Health("?", "unsure", "the disk reports no verdict")


def reading_health(reading: Reading[SmartState] | None, smart: Reading[Any]) -> Health:
    """The health of a disk by its Reading; for a disk without a Reading, by ``smart``, the Reading of all disks."""
    if reading is None:
        if smart.value is not None:
            return _HEALTH_BY_STATUS[Status.UNSUPPORTED]
        if smart.status is Status.ABSENT:
            return Health("no tool", "dim", smart.reason or "smartctl is not installed")
        reading = Reading(None, smart.status, smart.reason, smart.remedy)
    if reading.value is not None and reading.status is Status.OK:
        return _state_health(reading.value)
    if reading.value is not None and reading.status is Status.ASLEEP:
        last = _state_health(reading.value)
        # A fault stays visible while the disk sleeps.
        if last.token in ("bad", "warn"):
            return last._replace(reason=f"{last.reason} (now asleep)")
    health = _HEALTH_BY_STATUS[reading.status]
    if reading.status is Status.FAILED and "answer" in reading.reason:
        health = health._replace(word="? hung")
    return health._replace(reason=reading.reason or health.reason)


def health(frame: Frame, name: str) -> Health:
    """The health of a device. Unless it hangs or is degraded, a RAID volume, partition, md or dm device has the worst
    health of the disks below it.
    """
    hung = _hung(frame, name)
    if hung is not None:
        return hung
    smart, info = frame.snapshot.smart, devices.infos(frame).get(name)
    if info is not None and "degraded" in info.detail:
        return Health("degraded", "bad", info.detail)
    if name in (smart.value or {}) or info is None or (not info.slaves and info.kind != "partition"):
        return _disk_health(name, smart)
    return _worst([_disk_health(leaf, smart) for leaf in devices.leaves(name, frame)])


def _disk_health(name: str, smart: Reading[Any]) -> Health:
    """The health of a disk; a RAID volume has the worst health of the disks behind it."""
    readings = smart.value or {}
    own = readings.get(name)
    bus = "" if own is None else bus_in(own.reason)
    behind = (f"{name}/", f"{bus}/") if bus else f"{name}/"
    raid_disks = [reading_health(reading, smart) for disk, reading in readings.items() if disk.startswith(behind)]
    return _worst(raid_disks) if raid_disks else reading_health(own, smart)


def _hung(frame: Frame, name: str) -> Health | None:
    """The health of a device that has completed none of its requests for LIMITS.hung_s; None for any other device."""
    if name not in frame.carry.hung:
        return None
    from iotop_ai.diagnosis.memory.hung_devices import hung_s
    from iotop_ai.diagnosis.thresholds import LIMITS

    age = hung_s(frame.carry.hung, name, frame.snapshot.at_ns)
    if age < LIMITS.hung_s:
        return None
    in_flight = next((c.in_flight for key, c in (frame.snapshot.block.value or {}).items() if key.name == name), None)
    return Health(f"hung {_two_digits(age)}", "bad", f"no completion for {duration(age)}, {count(in_flight)} in flight")


def _two_digits(seconds: float) -> str:
    """A time in three columns, up to 99 days: "59s", "99m", "48h", "12d"."""
    for letter, unit_s in (("s", 1), ("m", 60), ("h", 3600)):
        if round(seconds / unit_s) < 100:
            return f"{seconds / unit_s:.0f}{letter}"
    return f"{min(99, round(seconds / 86_400))}d"


def _worst(below: list[Health]) -> Health:
    """The worst fault among these; without a fault, the first unknown health; without one, the first health."""
    for word in _FAULTS:
        for health_below in below:
            if health_below.word == word:
                return health_below
    return next((health_below for health_below in below if health_below.token == "unsure"), below[0])


def temperature(frame: Frame, name: str) -> float | None:
    """The temperature in °C from the kernel's sensor, otherwise from SMART; None when unknown."""
    info = devices.infos(frame).get(name)
    if info is not None and info.temperature_celsius is not None:
        return info.temperature_celsius
    reading = (frame.snapshot.smart.value or {}).get(name)
    return None if reading is None or reading.value is None else reading.value.temperature_celsius
