"""The rules that judge a disk's health, each with its source and threshold, and the resulting severity.

Growth matters more than level: an old count says little, but a count that grows today is a current problem. The number
of entries in an NVMe drive's error log is not judged: every command that the drive does not support adds an entry.
"""

from __future__ import annotations

from collections.abc import Callable

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.health.growth import growth, left_words, recent_growth, wear_left_days
from iotop_ai.model.health.smart import Judgement, SmartAttribute, SmartState

NOTE, WARNING, CRITICAL = "note", "warning", "critical"
_ORDER = (NOTE, WARNING, CRITICAL)

REALLOCATED_CRITICAL = 300
REALLOCATED_GROWTH = 10  # in 24 h
CRC_PER_HOUR = 1.0
CRC_BURST = 10  # in the last hour
SPARE_MARGIN_PERCENT = 5
USED_WARNING_PERCENT = 90
USED_CRITICAL_PERCENT = 100
WEAR_SOON_DAYS = 90.0
DISK_WARNING_CELSIUS = 50
DISK_CRITICAL_CELSIUS = 60
FLASH_WARNING_CELSIUS = 80
"""The limit for a flash drive that does not report one; most drives begin to throttle between 70 and 85 °C."""

SMARTCTL = "smartctl(8)"
ATA = "ATA-8 ACS, SMART attributes"
BACKBLAZE = "Backblaze 2016, What SMART Stats Tell Us About Hard Drives"
GOOGLE = "Pinheiro et al. 2007, Failure Trends in a Large Disk Drive Population"
NVME = "NVMe Base Specification, SMART / Health log (02h)"
OWN_JUDGEMENT = "ours"

CRITICAL_WARNING_BITS: tuple[tuple[int, str, str], ...] = (
    (0x01, "spare", "spare blocks are below the threshold"),
    (0x02, "temperature", "temperature is outside its limits"),
    (0x04, "reliability", "reliability is degraded"),
    (0x08, "read-only", "the medium is read-only"),
    (0x10, "backup", "the volatile memory backup has failed"),
    (0x20, "memory-region", "the persistent memory region is unreliable"),
)
"""Each bit of the critical warning, its short name and its meaning."""

Check = Callable[[SmartState], tuple[str, ...]]


class Rule(NamedTuple):
    """A rule about a disk's health.

    id: the rule's name, which never changes
    threshold: the condition as text, with its numbers
    clauses: the function that returns the reasons as clauses; () if the rule does not apply to the state
    """

    id: str
    severity: str
    source: str
    threshold: str
    clauses: Check


def with_verdict(state: SmartState) -> SmartState:
    """The state with severity, judgements and reasons filled in. The worst come first; ties keep the order of RULES.

    severity is "unknown" if there is nothing to judge.
    """
    judgements = [Judgement(rule.id, rule.severity, text) for rule in RULES for text in rule.clauses(state)]
    judgements.sort(key=lambda judgement: -_ORDER.index(judgement.severity))
    kept: list[Judgement] = []
    for judgement in judgements:
        # If several rules judge the same figure, only the worst judgement counts.
        subject = _SUBJECTS.get(judgement.rule)
        if subject is None or all(_SUBJECTS.get(other.rule) != subject for other in kept):
            kept.append(judgement)
    worst = max((_ORDER.index(judgement.severity) for judgement in kept), default=0)
    figures = (
        state.assessment,
        state.attributes or None,
        state.critical_warning,
        state.used_percent,
        state.reallocated,
    )
    can_judge = worst > 0 or any(figure is not None for figure in figures)
    severity = ("ok", WARNING, CRITICAL)[worst] if can_judge else "unknown"
    return state._replace(
        severity=severity, judgements=tuple(kept), reasons=tuple(judgement.text for judgement in kept)
    )


def count(number: int, noun: str) -> str:
    """A count with its noun, such as "1 media error" or "1,204 CRC errors"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _level(name: str, noun: str, least: int = 1) -> Check:
    """A check that the count is at least ``least``; the clause includes its growth if known."""

    def clauses(state: SmartState) -> tuple[str, ...]:
        value: int | None = getattr(state, name)
        if value is None or value < least:
            return ()
        increase = growth(state, name)
        return (count(value, _noun(state, noun)) + ("" if increase is None else f", {increase.text}"),)

    return clauses


def _grows(name: str, noun: str, per_day: float) -> Check:
    """A check that the count grew, and by at least ``per_day`` in 24 h."""

    def clauses(state: SmartState) -> tuple[str, ...]:
        value, increase = getattr(state, name), growth(state, name)
        if increase is None or increase.per_day < per_day:
            return ()
        return (f"{count(value, _noun(state, noun))}, {increase.text}",)

    return clauses


def _noun(state: SmartState, noun: str) -> str:
    """The noun for a count; the "uncorrectable" of a SCSI disk counts errors, not sectors."""
    return "uncorrected error" if noun == "uncorrectable sector" and state.protocol != "ata" else noun


def _assessment(word: str, text: str) -> Check:
    return lambda state: (text,) if state.assessment == word else ()


def _attributes(failed: str, prefail: bool, clause: Callable[[SmartAttribute], str]) -> Check:
    """A check for attributes whose fields ``failed`` and ``prefail`` have these values; ``clause`` describes each."""

    def clauses(state: SmartState) -> tuple[str, ...]:
        rows = [row for row in state.attributes if row.failed == failed and row.prefail == prefail]
        return tuple(clause(row) for row in rows)

    return clauses


def _bit(bit: int, text: str) -> Check:
    return lambda state: (text,) if (state.critical_warning or 0) & bit else ()


def _other_bits(state: SmartState) -> tuple[str, ...]:
    bits = state.critical_warning or 0
    return (f"critical warning 0x{bits:02x}",) if bits & ~0x3F else ()


def _spare(state: SmartState) -> tuple[str, ...]:
    spare, limit = state.available_spare_percent, state.spare_threshold_percent
    if spare is None or limit is None:
        return ()
    # If a drive's limit leaves no room for the margin (Apple: 99 %), only a spare below the limit is low, as NVMe
    # specifies. An emulated drive without spare blocks reports 0 % and a limit of 0 %, which is not low.
    near = (spare or limit) and limit + SPARE_MARGIN_PERCENT < 100 and spare <= limit + SPARE_MARGIN_PERCENT
    if not (near or spare < limit):
        return ()
    return (f"{spare} % spare blocks left, limit {limit} %",)


def _used_text(state: SmartState) -> str:
    left = wear_left_days(state)
    return f"{state.used_percent} % of its rated life used" + ("" if left is None else f", {left_words(left)}")


def _worn(state: SmartState) -> tuple[str, ...]:
    used = state.used_percent
    return (_used_text(state),) if used is not None and USED_WARNING_PERCENT <= used < USED_CRITICAL_PERCENT else ()


def _worn_out(state: SmartState) -> tuple[str, ...]:
    used = state.used_percent
    return (_used_text(state),) if used is not None and used >= USED_CRITICAL_PERCENT else ()


def _worn_soon(state: SmartState) -> tuple[str, ...]:
    left = wear_left_days(state)
    return (_used_text(state),) if left is not None and left <= WEAR_SOON_DAYS else ()


def _throttles(state: SmartState) -> tuple[str, ...]:
    increases = [growth(state, name) for name in ("warning_temperature_minutes", "critical_temperature_minutes")]
    known = [increase for increase in increases if increase is not None]
    worst = max(known, key=lambda increase: increase.amount, default=None)
    return (
        () if worst is None else (f"too hot for {count(worst.amount, 'minute')}, {worst.text}: it slows itself down",)
    )


def _crc_grows(state: SmartState) -> tuple[str, ...]:
    increase = growth(state, "crc_errors")
    if increase is None or increase.per_hour < CRC_PER_HOUR:
        # In the mean over a day, a cable that began to fail in the last hour would not show.
        increase = recent_growth(state, "crc_errors")
        if increase is None or increase.amount < CRC_BURST:
            return ()
    return (f"{count(state.crc_errors or 0, 'CRC error')}, {increase.text}: cable or backplane, not the disk",)


def _crc(state: SmartState) -> tuple[str, ...]:
    # The count is a lifetime total and concerns the cable, so it matters only while it grows.
    return (
        (count(state.crc_errors, "CRC error") + " so far: cable or backplane, not the disk",)
        if state.crc_errors
        else ()
    )


def _self_test(state: SmartState) -> tuple[str, ...]:
    """The newest failed self-test, unless an extended one passed later, as in smartctl(8).

    A passed short self-test does not count, because it reads only a small part of the disk.
    """
    finished = [test for test in state.self_test_log if test.passed is not None]
    for number, test in enumerate(finished):
        if not test.passed:
            return (f"{'a' if number else 'the last'} self-test failed: {test.status}",)
        if any(word in test.kind.lower() for word in ("extended", "long")):
            return ()
    return ()


def _limits(state: SmartState) -> tuple[int | None, int | None]:
    """The temperatures in °C at or above which the disk is too warm or critically hot; None without such a limit."""
    if state.protocol == "nvme" or state.rotation_rpm == 0:
        return state.warning_celsius or FLASH_WARNING_CELSIUS, state.critical_celsius
    # A hard disk is too warm above the constants, hence + 1.
    own = state.critical_celsius
    return (DISK_WARNING_CELSIUS + 1, own or DISK_CRITICAL_CELSIUS + 1) if state.rotation_rpm else (None, own)


def _warm(state: SmartState) -> tuple[str, ...]:
    now, (warning, critical) = state.temperature_celsius, _limits(state)
    if now is None or warning is None or now < warning or (critical is not None and now >= critical):
        return ()
    return (f"{now} °C, too warm at {warning} °C or above",)


def _hot(state: SmartState) -> tuple[str, ...]:
    now, (_, critical) = state.temperature_celsius, _limits(state)
    if now is None or not critical or now < critical:
        return ()
    return (f"{now} °C, critical at {critical} °C or above",)


RULES: tuple[Rule, ...] = (
    Rule(
        "overall-failed",
        CRITICAL,
        SMARTCTL,
        "overall status FAILED (smart_status.passed false)",
        _assessment("FAIL", "the disk itself says that it is failing"),
    ),
    Rule(
        "prefail-now",
        CRITICAL,
        ATA,
        "a pre-fail attribute's value <= its threshold",
        _attributes("now", True, lambda row: f"{row.name} is failing now ({row.value}, limit {row.threshold})"),
    ),
    *(
        Rule(f"nvme-{name}", CRITICAL, NVME, f"critical warning bit 0x{bit:02x}", _bit(bit, text))
        for bit, name, text in CRITICAL_WARNING_BITS
    ),
    Rule("nvme-other", CRITICAL, NVME, "critical warning bit 0x40 or 0x80 (reserved)", _other_bits),
    Rule(
        "pending-grows",
        CRITICAL,
        GOOGLE,
        "attribute 197 grows by >= 1 in 24 h",
        _grows("pending", "pending sector", 1),
    ),
    Rule(
        "uncorrectable-grows",
        CRITICAL,
        GOOGLE,
        "attribute 198 (SCSI: uncorrected errors) grows by >= 1 in 24 h",
        _grows("uncorrectable", "uncorrectable sector", 1),
    ),
    Rule(
        "reallocated-grows",
        CRITICAL,
        GOOGLE,
        f"attribute 5 grows by >= {REALLOCATED_GROWTH} in 24 h",
        _grows("reallocated", "reallocated sector", REALLOCATED_GROWTH),
    ),
    Rule(
        "reallocated-many",
        CRITICAL,
        OWN_JUDGEMENT,
        f"attribute 5 >= {REALLOCATED_CRITICAL}",
        _level("reallocated", "reallocated sector", REALLOCATED_CRITICAL),
    ),
    Rule("media-grows", CRITICAL, NVME, "media errors grow", _grows("media_errors", "media error", 0)),
    Rule("worn-out", CRITICAL, NVME, f"percentage used >= {USED_CRITICAL_PERCENT}", _worn_out),
    Rule(
        "hot",
        CRITICAL,
        OWN_JUDGEMENT,
        f"at or above the disk's own critical limit; above {DISK_CRITICAL_CELSIUS} °C for an HDD without one",
        _hot,
    ),
    Rule(
        "overall-warns", WARNING, "pySMART, assessment", "assessment WARN", _assessment("WARN", "the disk itself warns")
    ),
    Rule(
        "attribute-now",
        WARNING,
        ATA,
        "an old-age attribute's value <= its threshold",
        _attributes("now", False, lambda row: f"{row.name} is past its limit ({row.value}, limit {row.threshold})"),
    ),
    Rule(
        "prefail-past",
        WARNING,
        ATA,
        "a pre-fail attribute's worst value <= its threshold",
        _attributes("past", True, lambda row: f"{row.name} was past its limit ({row.worst}, limit {row.threshold})"),
    ),
    Rule(
        "self-test-failed",
        WARNING,
        SMARTCTL,
        "the self-test log has a failure that is not older than a passed extended self-test",
        _self_test,
    ),
    Rule("reallocated", WARNING, BACKBLAZE, "attribute 5 > 0", _level("reallocated", "reallocated sector")),
    Rule("pending", WARNING, BACKBLAZE, "attribute 197 > 0", _level("pending", "pending sector")),
    Rule("uncorrectable", WARNING, BACKBLAZE, "attribute 198 > 0", _level("uncorrectable", "uncorrectable sector")),
    Rule(
        "reported",
        WARNING,
        BACKBLAZE,
        "attribute 187 > 0",
        _level("reported_uncorrectable", "reported uncorrectable error"),
    ),
    Rule(
        "timeouts",
        WARNING,
        BACKBLAZE,
        "attribute 188, low 16 bits, > 0",
        _level("command_timeouts", "command timeout"),
    ),
    Rule("media", WARNING, NVME, "media errors > 0", _level("media_errors", "media error")),
    Rule(
        "crc-grows",
        WARNING,
        ATA,
        f"attribute 199 grows by >= {CRC_PER_HOUR:g} an hour over 24 h, or by >= {CRC_BURST} in the last hour",
        _crc_grows,
    ),
    Rule("throttles", WARNING, NVME, "minutes above the warning or critical temperature grow", _throttles),
    Rule(
        "spare-low",
        WARNING,
        NVME,
        f"available spare <= its threshold + {SPARE_MARGIN_PERCENT} %; "
        f"< its threshold where that is {100 - SPARE_MARGIN_PERCENT} % or more",
        _spare,
    ),
    Rule("worn", WARNING, NVME, f"percentage used >= {USED_WARNING_PERCENT}", _worn),
    Rule(
        "worn-soon",
        WARNING,
        OWN_JUDGEMENT,
        f"100 % used within {WEAR_SOON_DAYS:g} days at the rate observed so far",
        _worn_soon,
    ),
    Rule(
        "warm",
        WARNING,
        OWN_JUDGEMENT,
        f"above {DISK_WARNING_CELSIUS} °C (HDD); at or above the SSD's own limit, or {FLASH_WARNING_CELSIUS} °C for an "
        "SSD without one",
        _warm,
    ),
    Rule("crc", NOTE, ATA, "attribute 199 > 0, without the growth of crc-grows", _crc),
)
"""All rules by severity, the worst first; within a severity, in the order in which reasons are shown."""

# The figure that each rule judges, if several rules judge it.
_SUBJECTS = {
    **dict.fromkeys(("reallocated-grows", "reallocated-many", "reallocated"), "reallocated"),
    **dict.fromkeys(("pending-grows", "pending"), "pending"),
    **dict.fromkeys(("uncorrectable-grows", "uncorrectable"), "uncorrectable"),
    **dict.fromkeys(("media-grows", "media"), "media"),
    **dict.fromkeys(("crc-grows", "crc"), "crc"),
    **dict.fromkeys(("worn-out", "worn", "worn-soon"), "wear"),
}
