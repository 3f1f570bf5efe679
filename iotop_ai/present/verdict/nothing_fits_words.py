"""The words of the class "unknown", whose state is UNSURE, CALM or BUSY. UNSURE lacks the argument "state"."""

from __future__ import annotations

from iotop_ai.present.job import verdict_words
from iotop_ai.present.text import units
from iotop_ai.present.text.phrases import COMMA, SEMI, Spans, bad, plain, strong
from iotop_ai.present.verdict.advice import Args, amount, latency, number, percent, rate, whole, word

_DATA_WORDS = {"data_disk": "disk", "data_network": "network", "data_cpu": "CPU"}
_LARGE_PART = 0.25
"""A cause of a wait is named beside another one if it takes at least this part of the wait."""


def headline(a: Args) -> Spans:
    """The headline of the class "unknown"."""
    if word(a, "state"):
        return _calm_or_busy(a)
    from iotop_ai.diagnosis.thresholds import LIMITS  # not needed by the first frame

    busy = number(a, "gpu_busy")
    if verdict_words.is_about_job(a) and (number(a, "stall") or 0.0) >= LIMITS.gate:
        return [*verdict_words.waits_for_data(a), *_mixed_cause(a)]
    if number(a, "gpus") and busy is not None:
        if busy >= LIMITS.gpu_fair:
            return [
                plain("GPUs are "),
                strong(f"{percent(a, 'gpu_busy')} busy"),
                SEMI,
                plain("cannot tell if productive"),
            ]
        idle = f"{units.percent(1 - busy)} %"
        return [plain("GPUs idle "), strong(idle), plain(" of the time"), COMMA, *_suspect(a)]
    if verdict_words.is_about_job(a) and (number(a, "unexplained") or 0.0) >= LIMITS.gate:
        return _unexplained(a)
    if word(a, "task"):
        share = percent(a, "blocked")
        return [strong(word(a, "task")), plain(" is blocked "), strong(share), plain(" of the time"), COMMA,
                *_suspect(a)]  # fmt: skip
    return _nothing_slow(a)


def _unexplained(a: Args) -> Spans:
    """The part of the job's time that is unexplained, and how long the trainer or its workers wait for a core, if long;
    otherwise the suspect.
    """
    from iotop_ai.diagnosis.thresholds import LIMITS

    share = strong(percent(a, "unexplained"))
    out = [strong(word(a, "job")), plain(": "), share, plain(" of its time is unexplained")]
    if (number(a, "main_cpu_wait") or 0.0) >= LIMITS.gate:
        return [*out, COMMA, plain("it waits for a core "), strong(percent(a, "main_cpu_wait"))]
    if (number(a, "w_cpu_wait") or 0.0) >= LIMITS.cores_short:
        return [*out, COMMA, plain("its workers wait for a core "), strong(percent(a, "w_cpu_wait"))]
    return [*out, COMMA, *_suspect(a)]


def _mixed_cause(a: Args) -> Spans:
    """The data shares of a wait that has several causes, of which no rule names one: ": disk 38 %, CPU 35 %"; otherwise
    the suspect.
    """
    stall = number(a, "stall") or 0.0
    parts = [(number(a, share) or 0.0, words) for share, words in _DATA_WORDS.items()]
    large = sorted((part for part in parts if part[0] >= _LARGE_PART * stall), reverse=True)
    if len(large) < 2:
        return [COMMA, *_suspect(a)]
    out = [plain(": ")]
    for i, (value, words) in enumerate(large):
        out += [*([COMMA] if i else []), plain(f"{words} "), strong(f"{units.percent(value)} %")]
    return out


def _suspect(a: Args) -> Spans:
    """The cause that is suspected but not proven: a very slow disk, if there is one."""
    if number(a, "slow"):
        return [plain("suspect: disk "), bad(word(a, "device"))]
    return [plain("cause not seen")]


def _nothing_slow(a: Args) -> Spans:
    """The headline while nothing slow is seen, or only a slow disk for which no process is seen waiting; for UNSURE
    also full CPUs.
    """
    gpu = "GPU unknown" if not number(a, "gpu_known") else "GPU unused" if number(a, "gpus_all") else "no GPU"
    if number(a, "slow"):
        return [strong(word(a, "device")), plain(" is slow"), COMMA, plain("no process is seen waiting for it")]
    disks = "disks fine" if word(a, "device") else "disks idle"
    if number(a, "disks_known") == 0:
        disks = "disks unknown"
    elif number(a, "disks_unknown"):
        disks += f", {whole(a, 'disks_unknown')} unknown"
    from iotop_ai.diagnosis.thresholds import LIMITS

    if not word(a, "state") and (number(a, "cpu") or 0.0) >= LIMITS.busy_cpu:
        return [plain("the CPUs are "), strong(f"{percent(a, 'cpu')} busy"), SEMI, plain(gpu), COMMA, plain(disks)]
    return [plain("nothing slow is seen"), SEMI, plain(gpu), COMMA, plain(disks)]


def _calm_or_busy(a: Args) -> Spans:
    """The headline of CALM and BUSY. For BUSY, it names the disk, CPUs or memory that is at its limit."""
    limit = word(a, "limit")
    if limit == "disk":
        return [plain("disk "), bad(word(a, "device")), plain(" is at its limit: "),
                strong(f"{percent(a, 'disk_busy')} busy"), COMMA, plain("no training job seen")]  # fmt: skip
    if limit == "cpu":
        count = number(a, "cores")
        cores = "the CPUs are" if count is None else "the core is" if count == 1 else f"{count:.0f} cores are"
        return [bad(cores), plain(" "), strong(f"{percent(a, 'cpu')} busy"), COMMA, plain("no training job seen")]
    if limit == "memory":
        return [bad("memory"), plain(" is "), strong(f"{percent(a, 'memory_used')} used"), COMMA,
                plain("no training job seen")]  # fmt: skip
    if verdict_words.is_about_job(a):
        return _nothing_slow(a)
    return [plain("no training job seen"), SEMI, plain("nothing is at its limit")]


def _because_limit(a: Args) -> Spans:
    """The load on the disk, or the program that uses most of the CPUs or the memory."""
    if word(a, "limit") == "disk":
        out = [plain("it answers in "), *latency(a), COMMA, plain("reads "),
               strong(rate(number(a, "read_bytes_per_s"))), COMMA, plain("writes "),
               strong(rate(number(a, "write_bytes_per_s")))]  # fmt: skip
        if word(a, "task"):
            out += [SEMI, strong(f"{word(a, 'task')} blocked"), plain(f" {percent(a, 'blocked')}")]
        return out
    if not word(a, "top"):
        return [plain("no single program stands out")]
    count = f" x{whole(a, 'top_count')}" if (number(a, "top_count") or 1) > 1 else f" (pid {whole(a, 'top_pid')})"
    subject = strong(f"{word(a, 'top')}{count}")
    if word(a, "limit") == "memory":
        return [plain("the largest: "), subject, plain(" holds "), strong(amount(a, "rss"))]
    return [plain("most by "), subject, COMMA, strong(f"{units.figure(number(a, 'top_cpu'))} cores")]


def because(a: Args) -> Spans:
    """The measured figures, separated by semicolons; for BUSY, those of the disk, CPUs or memory at its limit."""
    if word(a, "limit"):
        return _because_limit(a)
    parts: list[Spans] = []
    if verdict_words.is_about_job(a) and number(a, "workers"):
        shares = f"workers run {percent(a, 'w_cpu')}, blocked {percent(a, 'w_blocked')}, idle {percent(a, 'w_idle')}"
        parts.append([plain(shares)])
    if number(a, "gpus") and number(a, "power") is not None:
        parts.append([plain("GPU power "), strong(f"{percent(a, 'power')} of its limit")])
    if word(a, "task") and number(a, "gpus"):
        parts.append([strong(word(a, "task")), plain(f" blocked {percent(a, 'blocked')}")])
    if word(a, "device") and number(a, "await_ms") is not None:
        parts.append([plain(f"{word(a, 'device')} answers in "), *latency(a)])
    if number(a, "cpu") is not None:
        parts.append([plain("CPU "), strong(percent(a, "cpu"))])
    return [span for i, part in enumerate(parts) for span in ([SEMI, *part] if i else part)]
