"""Makes a SmartState from smartctl's answer about one disk. The functions are pure.

The JSON keys are smartmontools' own (smartctl 7.0 and newer). If JSON and pySMART both have a value, the one in JSON is
used. The exit status is a bit mask (smartctl(8)): bits 0 and 1 mean that the data is missing, and bits 2 to 7 are
findings about the disk. The exact value 3 is the result of ``-n standby,3`` for a sleeping disk.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from iotop_ai.collectors.base import Unavailable
from iotop_ai.collectors.health.json_access import LONGEST_TEXT as _LONGEST_MESSAGE
from iotop_ai.collectors.health.json_access import get as _get
from iotop_ai.collectors.health.json_access import integer as _int
from iotop_ai.collectors.health.json_access import rows as _rows
from iotop_ai.collectors.health.json_access import text as _text
from iotop_ai.collectors.health.logs import error_log, self_test_facts, self_test_log
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.lazy.regex import pattern
from iotop_ai.model.clean import clean
from iotop_ai.model.counter import known_int
from iotop_ai.model.health.attributes import count_of, hours_of
from iotop_ai.model.health.rules import with_verdict
from iotop_ai.model.health.smart import SmartAttribute, SmartState
from iotop_ai.model.health.volume import NOT_QUERIED
from iotop_ai.model.reading import Status

ASLEEP_EXIT = 3
NVME_UNIT_BYTES = 512_000
"""The size of an NVMe data unit: 1000 sectors of 512 bytes."""
_NO_DATA = 0b11
_DENIED = pattern(r"permission denied|operation not permitted|requires root", re.IGNORECASE)
_LEAST_TRIP_CELSIUS = 45
"""The least plausible critical temperature of a SCSI disk. A lower one is ignored."""
_MISSING = pattern(r"no such (?:file|device)", re.IGNORECASE)
_UNKNOWN_KIND = pattern(r"unable to detect|unknown usb bridge|unsupported|specify device type", re.IGNORECASE)
_ADVICE = r"(?:please try adding|requires option) '-d ([a-z0-9]{1,16}),N'"
_VOLUME_ADVICE = pattern(_ADVICE)
_VOLUME_MESSAGE = pattern(r"open device: /dev/(\S{1,32}).*" + _ADVICE)
_NO_SMART = "this device has no SMART"
_DISK_NUMBERS = {"aacraid": "H,L,ID"}
"""What follows the type in ``-d``, where a single number N does not name a disk."""
_LIMITS = pattern(r"^(Warning|Critical)\s+Comp\. Temp\. Threshold:\s+(\d+) Celsius", re.MULTILINE)
_WHEN_FAILED = {"now": "now", "failing_now": "now", "past": "past", "in_the_past": "past"}


def parse_json(text: str) -> dict[str, Any] | None:
    """Return smartctl's JSON object; None if the text is not one (smartctl is older than 7.0, or gave no answer)."""
    import json

    try:
        answer = json.loads(text)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None


class Scan(NamedTuple):
    """What ``smartctl --scan-open`` has found, in smartctl's order.

    types: (device, type) of each disk. volumes: (device, controller) of each RAID volume, with the controller in the
    words of ``-d``: "megaraid".
    """

    types: tuple[tuple[str, str], ...] = ()
    volumes: tuple[tuple[str, str], ...] = ()


def parse_scan(answer: Mapping[str, Any] | None) -> Scan:
    """Return the complete entries in the answer of ``--scan-open``.

    smartctl recognises a RAID volume only here, where it detects the type: a query with ``-d scsi`` gets no hint.

    Sample: {"devices": [{"name": "/dev/sda", "info_name": "/dev/sda [SAT]", "type": "sat", "protocol": "ATA"},
    {"name": "/dev/sdb", "info_name": "/dev/sdb", "type": "scsi", "protocol": "SCSI",
    "open_error": "DELL or MegaRaid controller, please try adding '-d megaraid,N'"}]}
    """
    types, volumes = [], []
    for entry in _rows(_get(answer, "devices")):
        name, kind, error = entry.get("name"), entry.get("type"), entry.get("open_error")
        if isinstance(name, str) and isinstance(kind, str):
            types.append((clean(name), clean(kind)))
        if isinstance(name, str) and isinstance(error, str) and (advice := _VOLUME_ADVICE.search(error)):
            volumes.append((clean(name), advice[1]))
    return Scan(tuple(types), tuple(volumes))


def messages_of(answer: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return smartctl's messages, shortened and without control characters."""
    rows = _rows(_get(answer, "smartctl", "messages"))
    return tuple(clean(row["string"], _LONGEST_MESSAGE) for row in rows if isinstance(row.get("string"), str))


def refusal(answer: Mapping[str, Any], stderr: str = "") -> Unavailable | None:
    """Return why smartctl's answer has no health data; None when it has some.

    The caller adds the remedy for a missing permission, because the caller knows the user and the path.
    """
    exit_status = _int(answer, "smartctl", "exit_status") or 0
    messages = messages_of(answer)
    text = "; ".join(messages) or clean(stderr.strip(), _LONGEST_MESSAGE)
    if exit_status == ASLEEP_EXIT:
        return Unavailable(Status.ASLEEP, "the disk is asleep and was not woken")
    if exit_status & _NO_DATA:
        if _DENIED.search(text):
            return Unavailable(Status.DENIED, "reading SMART needs root")
        if volume := _VOLUME_MESSAGE.search(text):
            return _volume_unavailable(volume[1], volume[2])
        if _UNKNOWN_KIND.search(text):
            return Unavailable(Status.UNSUPPORTED, text, "give its type: --smart-type DISK=TYPE (see smartctl(8))")
        if _MISSING.search(text):
            return Unavailable(Status.ABSENT, f"no device node here: {text}")
        return Unavailable(Status.FAILED, text or f"smartctl ended with status {exit_status}")
    if _get(answer, "smart_support", "available") is False:
        return Unavailable(Status.UNSUPPORTED, _NO_SMART)
    if _get(answer, "smart_support", "enabled") is False:
        device = _text(answer, "device", "name")
        return Unavailable(Status.OFF, "SMART is switched off on this disk", f"smartctl -s on {device}")
    return None


def _volume_unavailable(name: str, controller: str) -> Unavailable:
    node, number = ("sgX", "N") if controller == "areca" else (name, _DISK_NUMBERS.get(controller, "N"))
    where = ", where sgX is the controller's node" if node != name else ""
    remedy = f"--smart-type {node}={controller},{number} for each disk behind it{where} (see smartctl(8))"
    return Unavailable(Status.UNSUPPORTED, NOT_QUERIED, remedy)


def volume_refusal(name: str, controller: str, found: Unavailable | None) -> Unavailable | None:
    """Return why smartctl's answer about a RAID volume has no health data.

    controller: the controller's type, such as "megaraid". found: what ``refusal`` returned for the answer; it stays if
    it has a reason of its own. A volume may report that it has SMART, but this does not cover the disks behind it.
    """
    return _volume_unavailable(name, controller) if found is None or found.reason == _NO_SMART else found


def parse_state(
    answer: Mapping[str, Any] | None, pysmart_values: Mapping[str, Any] | None, device: str, kind: str
) -> SmartState:
    """Return the state of one disk from smartctl's JSON and pySMART's values; one of the two may be None.

    pysmart_values: pySMART's values under the keys model, serial, firmware, assessment, temperature, messages,
    attributes, tests and text, as helper.py sends them. Raises Unavailable when neither has data.
    """
    if answer is None and not (pysmart_values and (pysmart_values.get("model") or pysmart_values.get("assessment"))):
        if pysmart_values and _DENIED.search(str(pysmart_values.get("text", ""))):
            raise Unavailable(Status.DENIED, "reading SMART needs root")
        raise Unavailable(Status.FAILED, "smartctl's output could not be read")
    pysmart_values = pysmart_values or {}
    protocol = (_text(answer, "device", "protocol") or ("nvme" if kind.startswith(("nvme", "snt")) else kind)).lower()
    table = _attributes(answer) or _pysmart_attributes(pysmart_values)
    log = _get(answer, "nvme_smart_health_information_log")
    warning, critical = _temperature_limits(answer, pysmart_values)
    model = _first_text(answer, ("model_name", "scsi_model_name", "scsi_product")) or _text(pysmart_values, "model")
    hours = _int(answer, "power_on_time", "hours")
    tests = self_test_facts(answer, protocol)
    state = SmartState(
        device=device,
        protocol={"sat": "ata"}.get(protocol, protocol),
        model=model,
        serial=_first_text(answer, ("serial_number",)) or _text(pysmart_values, "serial"),
        firmware=_first_text(answer, ("firmware_version", "scsi_revision")) or _text(pysmart_values, "firmware"),
        assessment=_assessment(answer, pysmart_values),
        severity="unknown",
        reasons=(),
        temperature_celsius=_temperature(answer, pysmart_values),
        power_on_hours=hours_of(table) if hours is None else hours,
        attributes=table,
        reallocated=_first_known(count_of(table, 5), _int(answer, "scsi_grown_defect_list")),
        pending=count_of(table, 197, model),
        uncorrectable=_first_known(count_of(table, 198), _scsi_uncorrected(answer)),
        crc_errors=count_of(table, 199),
        critical_warning=_int(log, "critical_warning"),
        available_spare_percent=_int(log, "available_spare"),
        spare_threshold_percent=_int(log, "available_spare_threshold"),
        used_percent=_used_percent(answer, log),
        media_errors=_int(log, "media_errors"),
        error_log_entries=_error_log_entries(answer, log),
        unsafe_shutdowns=_int(log, "unsafe_shutdowns"),
        warning_temperature_minutes=_int(log, "warning_temp_time"),
        written_bytes=_data_bytes(log, "data_units_written"),
        read_bytes=_data_bytes(log, "data_units_read"),
        exit_status=_int(answer, "smartctl", "exit_status"),
        messages=messages_of(answer) or _pysmart_messages(pysmart_values),
        device_type=kind,
        reported_uncorrectable=count_of(table, 187),
        command_timeouts=count_of(table, 188),
        power_cycles=_int(answer, "power_cycle_count"),
        critical_temperature_minutes=_int(log, "critical_comp_time"),
        warning_celsius=warning,
        critical_celsius=critical,
        rotation_rpm=_int(answer, "rotation_rate"),
        self_test_left_percent=tests.left_percent,
        self_tests=tests.supported,
        test_short_minutes=tests.short_minutes,
        test_long_minutes=tests.long_minutes,
        self_test_log=self_test_log(answer, pysmart_values),
        error_log=error_log(answer),
        wwn=_world_wide_name(answer),
    )
    return with_verdict(state)


def _world_wide_name(answer: object) -> str:
    """Return the world-wide name of a disk; "" when it has none.

    Samples: {"wwn": {"naa": 5, "oui": 3152, "id": 2834678415}} (ATA), {"logical_unit_id": "0x5000c5..."} (SCSI).
    """
    naa, oui, unique_id = (_int(answer, "wwn", key) for key in ("naa", "oui", "id"))
    if naa is None or oui is None or unique_id is None:
        return _text(answer, "logical_unit_id").removeprefix("0x")
    return f"{naa:x}{oui:06x}{unique_id:09x}"


def _first_known(count: int | None, other: int | None) -> int | None:
    return other if count is None else count


def _first_text(answer: object, keys: tuple[str, ...]) -> str:
    return next(filter(None, (_text(answer, key) for key in keys)), "")


def _pysmart_messages(pysmart_values: Mapping[str, Any]) -> tuple[str, ...]:
    messages = pysmart_values.get("messages")
    return tuple(clean(str(m), _LONGEST_MESSAGE) for m in messages) if isinstance(messages, list) else ()


def _assessment(answer: object, pysmart_values: Mapping[str, Any]) -> str | None:
    passed = _get(answer, "smart_status", "passed")
    if isinstance(passed, bool):
        return "PASS" if passed else "FAIL"
    word = pysmart_values.get("assessment")
    return word if word in ("PASS", "WARN", "FAIL") else None


def _temperature(answer: object, pysmart_values: Mapping[str, Any]) -> int | None:
    celsius = _int(answer, "temperature", "current")
    celsius = _int(pysmart_values, "temperature") if celsius is None else celsius
    # A disk without a sensor reports 0, and no disk runs at 0 °C.
    return celsius or None


def _temperature_limits(answer: object, pysmart_values: Mapping[str, Any]) -> tuple[int | None, int | None]:
    limits = dict(_LIMITS.findall(pysmart_values["text"])) if isinstance(pysmart_values.get("text"), str) else {}
    thresholds = _get(answer, "nvme_composite_temperature_threshold")
    warning, critical = _int(thresholds, "warning"), _int(thresholds, "critical")
    warning = int(limits["Warning"]) if warning is None and "Warning" in limits else warning
    critical = int(limits["Critical"]) if critical is None and "Critical" in limits else critical
    if critical is None:
        trip = _first_known(_int(answer, "temperature", "drive_trip"), _int(answer, "scsi_temperature", "drive_trip"))
        critical = trip if trip is not None and trip >= _LEAST_TRIP_CELSIUS else None
    return warning or None, critical or None


def _used_percent(answer: object, log: object) -> int | None:
    percent = _int(log, "percentage_used")
    if percent is None:
        percent = _int(answer, "endurance_used", "current_percent")
    return _int(answer, "scsi_percentage_used_endurance_indicator") if percent is None else percent


def _error_log_entries(answer: object, log: object) -> int | None:
    count = _int(log, "num_err_log_entries")
    for kind in ("extended", "summary"):
        count = _int(answer, "ata_smart_error_log", kind, "count") if count is None else count
    return count


def _scsi_uncorrected(answer: object) -> int | None:
    kinds = ("read", "write", "verify")
    totals = [_int(answer, "scsi_error_counter_log", kind, "total_uncorrected_errors") for kind in kinds]
    counts = [count for count in totals if count is not None]
    return sum(counts) if counts else None


def _data_bytes(log: object, key: str) -> int | None:
    units = _int(log, key)
    return None if units is None else known_int(units * NVME_UNIT_BYTES)


def _attribute(number: int, row: Mapping[str, Any], raw: int | None, raw_text: str, prefail: bool) -> SmartAttribute:
    return SmartAttribute(
        number,
        _text(row, "name"),
        _int(row, "value"),
        _int(row, "worst"),
        _int(row, "thresh"),
        raw,
        raw_text,
        _WHEN_FAILED.get(_text(row, "when_failed").lower(), ""),
        prefail,
    )


def _attributes(answer: object) -> tuple[SmartAttribute, ...]:
    return tuple(
        _attribute(
            number,
            row,
            _int(row, "raw", "value"),
            _text(row, "raw", "string"),
            _get(row, "flags", "prefailure") is True,
        )
        for row in _rows(_get(answer, "ata_smart_attributes", "table"))
        if (number := _int(row, "id")) is not None
    )


def _pysmart_attributes(pysmart_values: Mapping[str, Any]) -> tuple[SmartAttribute, ...]:
    attributes = []
    for row in _rows(pysmart_values.get("attributes")):
        number, raw_text = _int(row, "id"), _text(row, "raw")
        leading_digits = re.match(r"\d+", raw_text)
        if number is not None:
            prefail = _text(row, "type").lower() == "pre-fail"
            attributes.append(
                _attribute(number, row, int(leading_digits.group()) if leading_digits else None, raw_text, prefail)
            )
    return tuple(attributes)
