"""Verdicts about GPUs in words: throttle, PCIe, memory, fault, unused GPU, wait in a collective, imbalance.

As in present/verdict/headline.py, clauses are separated by Spans that hold only the separator.
"""

from __future__ import annotations

from collections.abc import Callable

from iotop_ai.present.gpu.xid import xid_meaning
from iotop_ai.present.text import units
from iotop_ai.present.text.phrases import COMMA, SEMI, Spans
from iotop_ai.present.text.phrases import bad as _bad
from iotop_ai.present.text.phrases import plain as _plain
from iotop_ai.present.text.phrases import strong as _strong
from iotop_ai.present.verdict.advice import Args, amount, number, percent, rate, whole, word

_RECOVERY = {1: "a reset", 2: "a reboot", 3: "its peers to be drained", 4: "draining and a reset"}
_RECOVERY |= {6: _RECOVERY[1], 7: _RECOVERY[2]}
"""The words for the codes of ``GpuDetail.recovery``."""


def _verb(a: Args, singular: str, plural: str) -> str:
    return singular if number(a, "gpus") == 1 else plural


def _throttle(a: Args) -> Spans:
    if word(a, "why") == "hot":
        return [_bad(word(a, "who") or "GPUs"), _plain(f" {_verb(a, 'is', 'are')} hot: "),
                _strong(f"{whole(a, 'celsius')} C")]  # fmt: skip
    why = {
        "power_cap": "held at a lowered power limit",
        "power_brake": "throttled by the power-brake signal",
        "": "slowed down by heat or power",
    }.get(word(a, "why"), "slowed down by heat")
    out = [_bad(word(a, "who") or "GPUs"), _plain(f" {_verb(a, 'is', 'are')} {why} "), _strong(percent(a, "share"))]
    return [*out, _plain(" of the time")]


def _because_throttle(a: Args) -> Spans:
    if word(a, "why") == "hot" and number(a, "slowdown") is not None:
        return [_plain(f"{word(a, 'worst')} slows down at "), _strong(f"{whole(a, 'slowdown')} C")]
    out = [_plain(f"{word(a, 'worst')} runs at "), _strong(f"{whole(a, 'mhz')} of {whole(a, 'mhz_max')} MHz")]
    if number(a, "celsius") is not None:
        limit = f" (slows at {whole(a, 'slowdown')})" if number(a, "slowdown") is not None else ""
        out += [COMMA, _strong(f"{whole(a, 'celsius')} C"), _plain(limit)]
    if number(a, "watts") is not None:
        of_limit = f" of {whole(a, 'limit')} W"
        own = f" (by default {whole(a, 'default')})" if word(a, "why") == "power_cap" else ""
        out += [COMMA, _strong(f"{whole(a, 'watts')}{of_limit}"), _plain(own)]
    return [*out, SEMI, _plain(f"{percent(a, 'gpu_busy')} busy")]


def _pcie(a: Args) -> Spans:
    gpus, why = word(a, "who") or "GPUs", word(a, "why")
    if why == "full":
        return [_plain("the PCIe link of "), _bad(gpus), _plain(" is full: "), _strong(rate(number(a, "rate")))]
    link = f"x{whole(a, 'width')} of x{whole(a, 'width_max')}"
    if why == "slow":
        link = f"generation {whole(a, 'generation')} of {whole(a, 'generation_max')}"
    if why == "replays":
        return [_plain("PCIe of "), _bad(gpus), _plain(" replays "), _strong(f"{whole(a, 'replays')} packets/s")]
    return [_plain("PCIe of "), _bad(gpus), _plain(" runs at "), _strong(link), _plain(" under load")]


def _because_pcie(a: Args) -> Spans:
    worst = word(a, "worst")
    out: Spans = []
    if number(a, "rate") is not None:
        verb = "receives" if number(a, "received") else "sends"
        out = [_plain(f"{worst} {verb} "), _strong(rate(number(a, "rate")))]
        if number(a, "possible") is not None:
            out.append(_plain(f" of about {rate(number(a, 'possible'))}"))
        out.append(COMMA)
    link = f"gen {whole(a, 'generation')} x{whole(a, 'width')}"
    best_link = f"gen {whole(a, 'generation_max')} x{whole(a, 'width_max')}"
    out += [_plain("link "), _strong(link), _plain(f" of {best_link}")]
    if (number(a, "replays") or 0.0) >= 1 and word(a, "why") != "replays":
        out += [COMMA, _strong(f"{whole(a, 'replays')} packets/s"), _plain(" replayed")]
    if number(a, "rate") is None:
        out += [SEMI, _plain("its traffic is unknown")]
    elif not number(a, "felt"):
        out += [SEMI, _plain("nothing waits for it now")]
    return out


def _memory(a: Args) -> Spans:
    out = [_plain("memory of "), _bad(word(a, "who") or "GPUs"), _plain(" is "), _strong(f"{percent(a, 'ratio')} full")]
    if number(a, "soon"):
        out += [COMMA, _plain("and runs out in "), _strong(units.duration(number(a, "end_s") or 0.0))]
    elif number(a, "sharers"):
        out += [COMMA, _plain("another program holds part of it")]
    return out


def _because_memory(a: Args) -> Spans:
    out = [_plain(f"{word(a, 'worst')} holds "), _strong(f"{amount(a, 'used')} of {amount(a, 'total')}")]
    if number(a, "soon"):
        out += [COMMA, _plain("and it grows steadily")]
    if number(a, "sharers"):
        pid = number(a, "other_pid")
        holder = "a hidden process" if pid is None else f"pid {pid:.0f}"
        held = f" {amount(a, 'other_bytes')}" if number(a, "other_bytes") is not None else ""
        return [*out, SEMI, _strong(holder), _plain(f" is not part of the job and holds{held or ' some'}")]
    if not number(a, "soon"):
        out += [SEMI, _plain("steady: an allocator may keep what it does not need")]
    return out


def _fault(a: Args) -> Spans:
    gpu, what = word(a, "gpu") or "a GPU", word(a, "what")
    errors = "error" if number(a, "errors") == 1 else "errors"
    faults = {
        "lost": "no longer answers",
        "rows_failed": "could not remap a memory row",
        "sram_exceeded": "has too many errors in its SRAM",
        "reset": f"had {whole(a, 'errors')} {errors} ({word(a, 'reason')})",
        "ecc": f"had {whole(a, 'errors')} uncorrected memory {errors}",
        "recovery": f"waits for {_RECOVERY.get(int(number(a, 'recovery') or 0), 'recovery')}",
    }
    if what == "xid":
        return [_bad(gpu), _plain(" reported "), _strong(f"Xid {whole(a, 'xid')}"), *_ago(a, ",")]
    return [_bad(gpu), _plain(" "), _strong(faults.get(what, "has a fault")), *_ago(a)]


def _ago(a: Args, comma: str = "") -> Spans:
    ago = number(a, "ago_s")
    return [] if ago is None else [_plain(f"{comma} {units.duration(ago)} ago")]


def _because_fault(a: Args) -> Spans:
    what = word(a, "what")
    causes = {
        "lost": word(a, "reason") or "the driver no longer lists it",
        "rows_failed": "remapping a memory row failed",
        "sram_exceeded": "more errors in its SRAM than NVIDIA allows",
        "reset": "the kernel logged it: programs on the GPU lost their work",
        "ecc": "all results since the driver was loaded are doubtful",
        "recovery": "the driver asks for it",
    }
    text = xid_meaning(int(number(a, "xid") or 0)) if what == "xid" else causes.get(what, "the driver reports it")
    out = [_strong(text)]
    if word(a, "job"):
        out += [SEMI, _plain(f"{word(a, 'job')} runs on it")]
    return out


def _unused_gpu(a: Args) -> Spans:
    """The sentence about a GPU that a process holds idle, or that is free while a job trains on the CPU."""
    if word(a, "what") == "held":
        idle = units.duration(number(a, "idle_s") or 0.0)
        return [_bad(word(a, "gpu")), _plain(" idle for "), _strong(idle), COMMA, _strong(f"{amount(a, 'used')} held"),
                _plain(f" by {_holder(a)}")]  # fmt: skip
    return [_strong(word(a, "job") or "the job"), _plain(" trains on the CPU"), COMMA, _bad(word(a, "free") or "a GPU"),
            _plain(" unused")]  # fmt: skip


def _holder(a: Args) -> str:
    if number(a, "pid") is None:
        return "a hidden process"
    return f"{word(a, 'task')} (pid {whole(a, 'pid')}, {word(a, 'user')})"


def _because_unused_gpu(a: Args) -> Spans:
    if word(a, "what") == "held":
        return [_plain("the process hangs, was forgotten or pauses: only its owner knows")]
    out = [_plain("none of its processes is on a GPU"), COMMA, _plain("it uses "), _strong(percent(a, "cpu"))]
    return [*out, _plain(" of a core")]


def _comm(a: Args) -> Spans:
    count = number(a, "gpus")
    gpus = "GPUs" if count is None else f"{count:.0f} GPUs"
    watts = f"{whole(a, 'watts')} of {whole(a, 'limit')} W"
    return [_strong(gpus), _plain(f" spin at {percent(a, 'busy')} but draw "), _strong(watts)]


def _because_comm(a: Args) -> Spans:
    out: Spans = []
    if number(a, "tensor") is not None:
        out += [_plain("tensor "), _strong(percent(a, "tensor")), COMMA]
    if number(a, "nvlink") is not None:
        out += [_plain(f"NVLink {rate(number(a, 'nvlink'))}"), COMMA]
    if word(a, "link"):
        carries = None if number(a, "link_bytes_per_s") is None else rate(number(a, "link_bytes_per_s"))
        full = None if number(a, "link_busy") is None else f"{percent(a, 'link_busy')} full"
        out += [_plain(f"{word(a, 'link')} "), _strong(", ".join(filter(None, (carries, full)))), COMMA]
    if number(a, "nvlinks_down"):
        links = "NVLink" if number(a, "nvlinks_down") == 1 else "NVLinks"
        out += [_bad(f"{whole(a, 'nvlinks_down')} {links} down"), COMMA]
    if number(a, "crowded"):
        cause = "they wait for the network between them"
    elif number(a, "stopped"):
        cause = "no batch is taken: they wait in a collective for another rank"
    elif number(a, "before") is not None:
        cause = f"they drew {percent(a, 'before')} of the limit before: another rank is late"
    elif number(a, "sure"):
        cause = "they wait in a collective for another rank"
    else:
        cause = "a collective, or kernels too small for them"
    return [*out, _plain(cause)]


def _imbalance(a: Args) -> Spans:
    late = _bad(word(a, "late") or "one GPU")
    others = _strong("the other GPU" if number(a, "others") == 1 else f"{whole(a, 'others')} others")
    if word(a, "how") == "less":
        return [late, _plain(" has less to do than "), others]
    return [others, _plain(f" wait{'s' if number(a, 'others') == 1 else ''} for "), late]


def _because_imbalance(a: Args) -> Spans:
    has_watts = number(a, "watts") is not None and number(a, "peer_watts") is not None
    single = number(a, "others") == 1
    late = f"{percent(a, 'busy')} busy" + (f" at {whole(a, 'watts')} W" if has_watts else "")
    peers = f"{percent(a, 'peers')}" + (f" at {whole(a, 'peer_watts')} W" if has_watts else "")
    out = [
        _plain(f"{word(a, 'late')} is "),
        _strong(late),
        COMMA,
        _plain("the other " if single else "the others "),
        _strong(peers),
    ]
    why = word(a, "why")
    if why == "blocked":
        out += [SEMI, _strong(f"its workers are blocked {percent(a, 'share')} of the time")]
    elif why == "computes":
        out += [SEMI, _strong(f"its workers compute {percent(a, 'share')} of the time")]
    elif why == "longer":
        out += [SEMI, _plain(f"it computes longer than {'the other does' if single else 'they do'}")]
    elif why == "clock":
        whose = "the other's" if single else "the others'"
        out += [SEMI, _strong(f"its clock is {whole(a, 'mhz')} MHz"), _plain(f", {whose} {whole(a, 'peer_mhz')}")]
    return out


HEADLINES: dict[str, Callable[[Args], Spans]] = {
    "gpu_throttle": _throttle,
    "pcie": _pcie,
    "gpu_memory": _memory,
    "gpu_fault": _fault,
    "no_gpu": _unused_gpu,
    "comm_wait": _comm,
    "imbalance": _imbalance,
}
"""By class, the function that makes the verdict's sentence."""
BECAUSE: dict[str, Callable[[Args], Spans]] = {
    "gpu_throttle": _because_throttle,
    "pcie": _because_pcie,
    "gpu_memory": _because_memory,
    "gpu_fault": _because_fault,
    "no_gpu": _because_unused_gpu,
    "comm_wait": _because_comm,
    "imbalance": _because_imbalance,
}
"""By class, the function that makes the text after "because"."""
