"""A disk's health in one word, so that it can stand in the disk's row."""

from __future__ import annotations

from iotop_ai.model.frame import Frame
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.record import NamedTuple
from iotop_ai.model.typed import TYPE_CHECKING, Any
from iotop_ai.present import devices

if TYPE_CHECKING:
    from iotop_ai.model.smart import SmartState


class Health(NamedTuple):
    """word: at most eight columns. reason: the clause behind it, "" when there is nothing to say."""

    word: str
    token: str
    reason: str = ""


_RANK = ("FAILING", "degraded", "warm", "worn", "warn")
_WARM = {"warm", "throttles"}
_WORN = {"worn", "worn-soon", "spare-low"}
_STATUS = {
    Status.PENDING: Health("asking", "dim", "smartctl has not answered yet"),
    Status.ABSENT: Health("no node", "unsure", "it has no device node here"),
    Status.UNSUPPORTED: Health("none", "dim", "this device has no SMART"),
    Status.DENIED: Health("? root", "unsure", "SMART needs root"),
    Status.FAILED: Health("? failed", "unsure", "smartctl failed"),
    Status.ASLEEP: Health("asleep", "dim", "in standby, not woken"),
    Status.OFF: Health("off", "dim", "SMART is not asked for"),
    Status.OK: Health("?", "unsure", "smartctl gave no answer"),
}


def _worded(state: SmartState) -> Health:
    reason = state.reasons[0] if state.reasons else ""
    if state.severity == "critical":
        return Health("FAILING", "bad", reason)
    if state.severity == "warning":
        rules = {one.rule for one in state.judgements[:1]}
        low = "" if rules else " ".join(state.reasons).lower()
        word = "warm" if rules & _WARM else "worn" if rules & _WORN else "warn"
        if "temperature" in low or "celsius" in low or "°c" in low:
            word = "warm"
        elif "used" in low or "wear" in low or "spare" in low:
            word = "worn"
        return Health(word, "warn", reason)
    if state.severity == "ok" and state.assessment is not None:
        worn = f"wear {state.used_percent} %" if state.used_percent else ""
        return Health("ok", "dim", worn)
    return Health("?", "unsure", "the disk does not say")


def of_reading(reading: Reading[SmartState] | None, whole: Reading[Any]) -> Health:
    """One disk's Reading in words; without one, the subsystem's own state."""
    if reading is None:
        if whole.value is not None:
            return _STATUS[Status.UNSUPPORTED]
        if whole.status is Status.ABSENT:
            return Health("no tool", "dim", whole.reason or "smartctl is not installed")
        reading = Reading(None, whole.status, whole.reason, whole.remedy)
    if reading.value is not None and reading.status is Status.OK:
        return _worded(reading.value)
    if reading.value is not None and reading.status is Status.ASLEEP:
        last = _worded(reading.value)
        # Sleep mends nothing: what was wrong with it stays said.
        if last.token in ("bad", "warn"):
            return last._replace(reason=f"{last.reason} (now asleep)")
    said = _STATUS[reading.status]
    if reading.status is Status.FAILED and "answer" in reading.reason:
        said = said._replace(word="? hung")
    return said._replace(reason=reading.reason or said.reason)


def health(frame: Frame, name: str) -> Health:
    """Health of a device: its own for a disk, the worst below it for partitions, md and dm."""
    smart, info = frame.snapshot.smart, devices.infos(frame).get(name)
    if info is not None and "degraded" in info.detail:
        return Health("degraded", "bad", info.detail)
    known = smart.value or {}
    behind = [reading for disk, reading in known.items() if disk.startswith(f"{name}/")]
    if behind:
        return _worst([of_reading(reading, smart) for reading in behind])
    if name in known or info is None or (not info.slaves and info.kind != "partition"):
        return of_reading(known.get(name), smart)
    return _worst([of_reading(known.get(leaf), smart) for leaf in devices.leaves(name, frame)])


def _worst(below: list[Health]) -> Health:
    """Of several disks the worst that is known, else one that is not known, else the first."""
    for word in _RANK:
        for one in below:
            if one.word == word:
                return one
    return next((one for one in below if one.token == "unsure"), below[0])


def temperature(frame: Frame, name: str) -> float | None:
    """°C from the kernel's own sensor, else from SMART; None when nobody says."""
    info = devices.infos(frame).get(name)
    if info is not None and info.temperature_celsius is not None:
        return info.temperature_celsius
    reading = (frame.snapshot.smart.value or {}).get(name)
    return None if reading is None or reading.value is None else reading.value.temperature_celsius
