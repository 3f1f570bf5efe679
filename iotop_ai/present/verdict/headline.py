"""The verdict in words: the loss, its cause, and the advice.

Every function separates its clauses with Spans that hold only the separator, so that ``present.text.fit`` can drop
whole clauses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from iotop_ai.model.finding import Finding, Severity, SlowDisk, Verdict
from iotop_ai.model.verdict_class import State
from iotop_ai.present.job import verdict_words
from iotop_ai.present.text import units
from iotop_ai.present.text.line import Span
from iotop_ai.present.text.phrases import COMMA, SEMI, Spans
from iotop_ai.present.text.phrases import bad as _bad
from iotop_ai.present.text.phrases import plain as _plain
from iotop_ai.present.text.phrases import strong as _strong
from iotop_ai.present.verdict.advice import (
    Args,
    amount,
    idle_cores,
    latency,
    number,
    percent,
    rate,
    whole,
    why_text,
    word,
)

SURE_HIGH, SURE_MEDIUM = 0.85, 0.6
"""The confidences from which the words "high" and "medium" are used."""
_Words = Callable[[Args], Spans]


def text_of(spans: Sequence[Span]) -> str:
    """The text of the Spans, without their tokens."""
    return "".join(span.text for span in spans)


def _starved_gpus(a: Args) -> Spans:
    gpus, wait = verdict_words.gpus_wait(a)
    return [_strong(gpus), _plain(f" {wait} for data "), _strong(percent(a, "lost")), _plain(" of the time")]


def _many_tasks(a: Args) -> bool:
    return (number(a, "tasks") or 1) > 1


def _storage(a: Args) -> Spans:
    if number(a, "gpus"):
        return _starved_gpus(a)
    subject = f"{word(a, 'task')} x{whole(a, 'tasks')} wait" if _many_tasks(a) else f"{word(a, 'task')} waits"
    share = percent(a, "blocked")
    return [
        _strong(subject),
        _plain(" for disk "),
        _bad(word(a, "device")),
        _plain(" "),
        _strong(share),
        _plain(" of the time"),
    ]


def _cpu_prep(a: Args) -> Spans:
    if number(a, "gpus"):
        return _starved_gpus(a)
    return [_plain("training waits for "), _strong(f"{whole(a, 'tasks')} {word(a, 'task')}"), _plain(" that compute")]


def _gpu_bound(a: Args) -> Spans:
    subject = "GPUs run small kernels: " if number(a, "small") else "GPUs compute: "
    out = [_plain(subject), _strong(f"{percent(a, 'gpu_busy')} busy")]
    if number(a, "sm") is not None:
        out += [COMMA, _plain("SM "), _strong(percent(a, "sm"))]
    if number(a, "power") is not None:
        out += [COMMA, _strong(percent(a, "power")), _plain(" of the power limit")]
    return out


def _healthy(a: Args) -> Spans:
    return [_plain("GPUs are fed"), SEMI, _strong(f"{percent(a, 'gpu_busy')} busy"), COMMA, _plain("no process waits")]


def _failing_how(a: Args) -> str:
    """The state of a failing disk, after "is"."""
    if number(a, "io_errors") is not None:
        return "reporting errors"
    if number(a, "hot"):
        return "too hot"
    return "FAILING" if number(a, "await_ms") is None else "slow and getting worse"


def _hung(a: Args) -> Spans:
    none = f"no completion for {units.duration(number(a, 'hung_s') or 0.0)}"
    out = [_bad(word(a, "device")), _plain(" does "), _bad("not answer"), _plain(": "), _strong(none)]
    return [*out, COMMA, _strong(f"{whole(a, 'in_flight')} in flight")]


def _failing(a: Args) -> Spans:
    if number(a, "hung_s") is not None:
        return _hung(a)
    out = [_bad(word(a, "device")), _plain(" is "), _bad(_failing_how(a))]
    for i, reason in enumerate(filter(None, word(a, "reasons").split(", "))):
        out += [COMMA if i else Span(": "), _strong(reason)]
    return out


def _nothing_fits(part: str, a: Args) -> Spans:
    # imported here to keep start-up fast
    from iotop_ai.present.verdict import nothing_fits_words as words

    return words.headline(a) if part == "headline" else words.because(a)


_HEADLINES: dict[str, Callable[[Args], Spans]] = {
    "storage_read": _storage,
    "cpu_prep": _cpu_prep,
    "single_thread": _starved_gpus,
    "gpu_bound": _gpu_bound,
    "healthy": _healthy,
    "idle": lambda a: (
        [_strong(word(a, "job")), _plain(" is idle")]
        if verdict_words.is_about_job(a)
        else [_plain("no training job seen")]
    ),
    "failing_disk": _failing,
    "unknown": lambda a: _nothing_fits("headline", a),
}


def headline(verdict: Verdict) -> Spans:
    """The verdict's sentence beside the state: "8 of 8 GPUs wait for data 78 % of the time"."""
    if verdict.measuring and verdict.primary.class_id == "unknown":
        done, needed = f"{verdict.watched_s:.0f}", f"{verdict.needed_s:.0f}"
        return [_plain("measuring "), _strong(done), _plain(f" of {needed} s")]
    return headline_of(verdict.primary)


def headline_of(finding: Finding) -> Spans:
    """The headline of one finding."""
    return _words(_HEADLINES, verdict_words.HEADLINES, finding)


def _words(plain: Mapping[str, _Words], of_job: Mapping[str, _Words], finding: Finding) -> Spans:
    """The words of a finding.

    plain: the words of classes that need no job. of_job: the words of classes that may name a job, used first if the
    finding names one. A class in neither has its words in present/gpu.
    """
    a = dict(finding.args)
    if finding.class_id in plain and not (verdict_words.is_about_job(a) and finding.class_id in of_job):
        return plain[finding.class_id](a)
    if finding.class_id in of_job:
        return of_job[finding.class_id](a)
    # imported here to keep start-up fast
    from iotop_ai.present.gpu.verdict_words import BECAUSE, HEADLINES

    return (HEADLINES if plain is _HEADLINES else BECAUSE)[finding.class_id](a)


def _because_storage(a: Args) -> Spans:
    out = [_plain("disk "), _bad(word(a, "device")), _plain(" "), _strong(rate(number(a, "read_bytes_per_s")))]
    out += [COMMA, _plain("r_await "), *latency(a)]
    from iotop_ai.diagnosis.thresholds import LIMITS

    small = LIMITS.small_read_bytes
    if (number(a, "read_size_bytes") or small) < small:
        out += [COMMA, _plain("reads of "), _strong(amount(a, "read_size_bytes"))]
    if word(a, "task") and number(a, "gpus"):
        of = f"{whole(a, 'tasks')}/{whole(a, 'tasks_all')} " if (number(a, "tasks_all") or 1) > 1 else ""
        out += [SEMI, _strong(f"{of}{word(a, 'task')} blocked"), _plain(f" {percent(a, 'blocked')}")]
    return out


def _because_cpu(a: Args) -> Spans:
    subject = f"{whole(a, 'tasks')} {word(a, 'task')} compute" if _many_tasks(a) else f"{word(a, 'task')} computes"
    out = [_bad(subject), _plain(" at "), _strong(f"{percent(a, 'cpu')} CPU")]
    if number(a, "idle_cores") is not None:
        out += [COMMA, _strong(idle_cores(a))]
    return [*out, SEMI, _plain(f"blocked by disks {percent(a, 'blocked')}")]


_MENTION_RATIO = 0.3
"""A process that disks block for at least this share of its time is mentioned, although nothing waits for it."""


def _because_fed(a: Args) -> Spans:
    if number(a, "blocked") is None:
        return [_plain("processes are not seen")]
    if not number(a, "blocked"):
        return [_plain("disks block no process of the job")]
    if (number(a, "blocked") or 0.0) >= _MENTION_RATIO:
        end = _plain(f" of the time; the {'GPUs do' if number(a, 'gpus') else 'trainer does'} not wait for it")
        return [_plain("disks block a process "), _strong(percent(a, "blocked")), end]
    return [_plain("disks block the job's processes at most "), _strong(percent(a, "blocked")), _plain(" of the time")]


def _because_idle(a: Args) -> Spans:
    gpu = "no GPU work" if number(a, "gpus_all") else "no GPU"
    return [_plain("CPU "), _strong(percent(a, "cpu")), COMMA, _plain(gpu), COMMA, _plain("disks below 1 MB/s")]


def _further_figures(a: Args) -> list[str]:
    """The reasons after the first that begin with a number. [] if the first reason, which the headline shows, contains
    a number itself.
    """
    first, *more = word(a, "reasons").split(", ")
    if any(letter.isdigit() for letter in first):
        return []
    return [reason for reason in more if reason[:1].isdigit()]


def _because_failing(a: Args) -> Spans:
    if number(a, "hung_s") is not None:
        out = [_plain("it accepts requests and completes none")]
    elif number(a, "io_errors") is not None:
        out = [_plain("the kernel reports failed requests")]
    elif number(a, "hot"):
        out = [_plain("its temperature is past its limit; nothing else in its health report is critical")]
    else:
        out = [_plain("its own health report is critical")]
        for i, reason in enumerate(_further_figures(a)):
            out += [COMMA if i else _plain(": "), _strong(reason)]
    if number(a, "await_ms") is not None:
        out = [_plain("it answers in "), *latency(a)]
    if word(a, "mount"):
        out += [SEMI, _plain("it holds "), _strong(word(a, "mount"))]
    return out


_BECAUSE: dict[str, Callable[[Args], Spans]] = {
    "storage_read": _because_storage,
    "cpu_prep": _because_cpu,
    "single_thread": _because_cpu,
    "gpu_bound": _because_fed,
    "healthy": _because_fed,
    "idle": _because_idle,
    "failing_disk": _because_failing,
    "unknown": lambda a: _nothing_fits("because", a),
}


def missing_signals(verdict: Verdict) -> Spans:
    """The missing groups of signals by name: "cannot see: NVIDIA driver, SMART"; [] if none is missing."""
    out: Spans = []
    for clause in verdict.missing:
        out += [COMMA if out else _plain("cannot see: "), _plain(_signal(clause))]
    return out


_SIGNALS = {"not root": "other users' I/O", "PSI off": "pressure (PSI is off)", "no disk has SMART": "SMART"}


def _signal(clause: str) -> str:
    """The short name of a missing group of signals. The page of reasons shows the whole clause."""
    return _SIGNALS.get(clause) or clause.partition(":")[0].removeprefix("no ")


def because(verdict: Verdict) -> Spans:
    """The cause with its figures and normal values; for the class unknown, measured values and missing signals."""
    out = _words(_BECAUSE, verdict_words.BECAUSE, verdict.primary)
    if verdict.primary.class_id == "unknown":
        unseen = missing_signals(verdict)
        return [*out, SEMI, *unseen] if out and unseen else out or unseen
    return out


def further(verdict: Verdict) -> list[Finding]:
    """The findings after the first in their order, but a critical fault of a disk or GPU comes before all others."""
    return sorted(verdict.findings[1:], key=lambda finding: not _is_grave(finding))


def _is_grave(finding: Finding) -> bool:
    is_fault = finding.state is State.FAILING or finding.class_id == "gpu_fault"
    return is_fault and finding.severity is Severity.CRITICAL


def further_headline(verdict: Verdict, finding: Finding) -> Spans:
    """The headline of a finding after the first. If it is about another job, it names the job.

    Two jobs of one name are distinguished by the PID.
    """
    a, first = dict(finding.args), dict(verdict.primary.args)
    if number(a, "job_pid") == number(first, "job_pid"):
        return headline_of(finding)
    return headline_naming_job(finding, with_pid=word(a, "job") == word(first, "job"))


def headline_naming_job(finding: Finding, *, with_pid: bool) -> Spans:
    """The headline of a finding, in which its job is named. The name precedes a headline about GPUs without it.

    with_pid: whether the PID follows the name
    """
    a = dict(finding.args)
    job, pid = word(a, "job"), number(a, "job_pid")
    if not job or pid is None:
        return headline_of(finding)
    name = f"{job} {pid:.0f}" if with_pid else job
    named = headline_of(finding._replace(args=tuple({**a, "job": name}.items())))
    if (not number(a, "gpus") and not word(a, "late")) or name in text_of(named):
        return named
    return [_strong(name), _plain(": "), *named]


def second(verdict: Verdict) -> Spans:
    """A very slow disk that no finding names, then the first of ``further``, in words; [] if there is neither."""
    other = further_headline(verdict, further(verdict)[0]) if len(verdict.findings) > 1 else []
    slow = verdict.slow_disk
    if slow is None or any(_names_disk(finding, slow) for finding in verdict.findings):
        return other
    args = {"await_ms": slow.await_ms, "normal_ms": slow.normal_ms, "busy": slow.busy_ratio}
    out = [_plain("disk "), _bad(slow.label), _plain(" answers in "), *latency(args)]
    if other:
        return [*out, SEMI, *other]
    return [*out, COMMA, _strong(f"{percent(args, 'busy')} busy")] if slow.busy_ratio is not None else out


def _names_disk(finding: Finding, slow: SlowDisk) -> bool:
    """Whether the finding names this disk, by its kernel name or its label."""
    return dict(finding.args).get("device") in (slow.device, slow.label)


def ruled_out(verdict: Verdict) -> Spans:
    """Why other causes are ruled out: "the disk, the CPU: trainer never waits for data; GPU-bound: GPU 22 % busy".

    The reason about a disk is left out if ``because`` shows the await of that disk.
    """
    by_reason: dict[str, list[str]] = {}
    a = dict(verdict.primary.args)
    in_because = verdict.primary.class_id == "unknown" and not word(a, "limit") and number(a, "await_ms") is not None
    for reason in verdict.primary.ruled_out:
        if in_because and reason.template == "disks_calm" and dict(reason.args)["device"] == a.get("device"):
            continue
        by_reason.setdefault(why_text(reason), []).append(_CAUSES.get(reason.class_id, reason.class_id))
    out: Spans = []
    for text, causes in by_reason.items():
        out += [*([SEMI] if out else []), Span(f"{', '.join(causes)}: ", "dim"), _plain(text)]
    return out


_CAUSES = {
    "storage_read": "the disk",
    "cpu_prep": "the CPU",
    "gpu_bound": "GPU-bound",
    "io_limit": "a limit",
    "network_fs": "the network",
    "comm_wait": "another rank",
    "gpu_throttle": "heat or power",
    "failing_disk": "a failing disk",
}
"""The classes that can be ruled out, in plain words."""


def advice(verdict: Verdict) -> Spans:
    """The advice with its figures, the best first and highlighted, each with the iotop-ai command that carries it out
    or checks it, if there is one.
    """
    out: Spans = []
    if not verdict.primary.advice:
        return out
    from iotop_ai.present.verdict.cures import advice_text, command_of  # the first frame has no advice

    for item in verdict.primary.advice:
        out += [SEMI, _plain(advice_text(item))] if out else [_strong(advice_text(item))]
        command = command_of(item)
        if command:
            out += [Span(": "), _plain(command)]
    return out


def sureness(confidence: float) -> str:
    """A confidence of 0..1 as a word: high, medium or low."""
    return "high" if confidence >= SURE_HIGH else "medium" if confidence >= SURE_MEDIUM else "low"


def confidence(verdict: Verdict) -> Spans:
    """The confidence in the verdict: "confidence high"; [] for the class unknown."""
    if verdict.primary.class_id == "unknown":
        return []
    return [Span("confidence ", "dim"), _plain(sureness(verdict.primary.confidence))]


def loss(verdict: Verdict) -> Spans:
    """The lost GPU time: "6.2 GPU-h lost/h"; [] when none is lost.

    If one of a job's GPUs is slow, all of the job's GPUs lose the time: ``team`` counts all of them, ``gpus`` only the
    slow ones.
    """
    a = dict(verdict.primary.args)
    lost = (number(a, "team") or number(a, "gpus") or 0.0) * (verdict.primary.lost_ratio or 0.0)
    return [] if not lost else [_strong(units.figure(lost)), Span(" GPU-h lost/h", "dim")]


def finding_object(finding: Finding) -> dict[str, Any]:
    """A finding as a JSON object. Unknown values are null, ratios are 0..1."""
    from iotop_ai.present.verdict.cures import advice_text

    return {
        "class": finding.class_id,
        "state": finding.state.value,
        "confidence": round(finding.confidence, 3),
        "severity": finding.severity.value,
        "evidence": [
            {"metric": e.metric, "value": e.value, "unit": e.unit, "threshold": e.threshold} for e in finding.evidence
        ],
        "ruled_out": [{"class": r.class_id, "why": why_text(r).replace("≤", "<=")} for r in finding.ruled_out],
        "advice": [advice_text(a) for a in finding.advice],
        "lost_ratio": finding.lost_ratio,
        "gpu_hours_lost": finding.gpu_hours_lost,
    }
