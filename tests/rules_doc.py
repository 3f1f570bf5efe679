"""Writes docs/rules.md from the rules' docstrings and limits: ``python -m tests.rules_doc [--check]``."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from itertools import pairwise
from pathlib import Path

from iotop_ai.diagnosis.rules import RULES, Rule
from iotop_ai.diagnosis.thresholds import LIMITS, Thresholds
from iotop_ai.model.verdict_class import CLASS_SPECS
from tests.pages import write_or_check

PAGE = Path(__file__).resolve().parent.parent / "docs" / "rules.md"
LINES = ("Claim", "Evidence", "Threshold", "Blind spot")
HEAD = """\
# Rules

Every verdict, its evidence, and the source of each number; figures without a source are ours, chosen on labelled runs.
Written by `python -m tests.rules_doc` from `iotop_ai/diagnosis/`; change the rule, not the page.

A rule reads a window of {window_s:g} s, or three periods of the slowest reading where that is longer. It uses only
samples with new readings, and leaves out gaps. A finding enters when its condition holds in {enter} % of the samples,
at least {least_samples}. It leaves below {leave} %, or when its main signal falls below {level} % of its threshold. It
stays at least {dwell_s:g} s, and {keep_s:g} s after its condition last held. Another cause of the same job's wait
replaces the first after {confirm_s:g} s. A finding about a job leaves at once when the job ends, except `job_died`. An
unknown value never counts as true. The rules leave out the monitor's own processes. Without any finding the verdict is
CALM if nothing is slow, BUSY if a disk, the CPUs or the memory is at its limit and no job runs, and otherwise UNSURE
with a list of what was checked. OK needs evidence.

A device's normal read time is the lower of two values: the value for its kind, and its own history. The history is the
read time below which a tenth of the device's minutes of the last 27 hours lie. It is kept per serial number and request
size; without a serial number it ends when another device takes the name. It never counts as less than {floor} % of the
value for the kind. It applies once it covers {baseline_minutes:g} minutes, and pauses during a finding about storage.

Confidence starts at the rule's own base. Each of these caps it: one family of signals (task states, device, pressure,
GPU) at 50 %, two at 75 %; a missing GPU at 60 % (most rules about a job's loading: 75 %); an unknown mapping of
processes to GPUs at 75 % (CPU rules: 50 %); unreadable I/O at 55 %. It is called high at 85 %
or more, and medium at 60 % or more.

In the rules, *time lost* is >= {gate} % of {window_s:g} s or {long_gate} % of {long_window_s:g} s, and a share
in between, in proportion, of a job that was observed for less; *samples* of tasks are taken 20 times a second, at
random moments; *normal* is the device's normal read time; *D* is the share of time in uninterruptible sleep; *shown
beside the verdict* means that the finding does not name the state.

## Where a job's time goes

Each moment that a job is watched belongs to exactly one share: compute, collective, transfer, data (disk, network,
CPU, other), host, checkpoint, startup, compile, stopped, hung, unexplained. The verdict explains the largest lost
share. Where `unexplained` is larger, the verdict is UNSURE. A sample takes the main thread of the trainer, its other
threads that moved in the last 5 s, and all processes below it. The *loaders* are the processes and threads that make
the data. At each tick its samples are assigned to the shares:

- With a GPU, the lost time is the time that the GPU idles in that tick. It goes first to samples that show a wait by
  themselves: the main thread is in state D, at a socket, or at its result queue while its loaders work. It goes next to
  samples with the main thread in a futex while loader threads work. It goes last to samples in which the main thread
  runs: they are `host`; `data: CPU` where the job has no loaders and reads >= 1 MB/s, or is blocked by a device or a
  socket in >= 5 % of the samples; a checkpoint where the job writes >= 20 MB/s and reads less than a tenth of that. If
  such a job without loaders reads less than 5 MB/s for each core that its main thread uses and is not blocked as above,
  only the corresponding part is `data: CPU`. The rest is unexplained.
- Without a GPU, a moment is lost where a sample shows a wait, or where the main thread of a job without loader
  processes runs and reads as above, while the trainer uses at most 1.3 cores. Other threads of the trainer on a CPU are
  compute. A main thread in poll or read waits for data only at a descriptor that a loader holds, where the descriptors
  are readable.
- A wait is split over the loaders that work at that moment. A loader in state D, or in a wait for io_uring or aio, is
  disk (on a mount of a network filesystem: network). Otherwise a loader on a CPU is CPU; failing that, a loader that
  sleeps at a TCP socket, or received bytes in the last 0.4 s, is network. A wait in D for a lock, reclaim or a driver
  is not disk.
- With a GPU, a thread of the trainer may compute while the main thread is in a futex. This is a checkpoint where the
  trainer writes >= 1 MB/s over 10 s and reads less than a tenth of that. Otherwise it is `host` beside PyTorch's loader
  workers, and data with other loaders.
- A wait for a device is a checkpoint while the job writes >= 1 MB/s and reads less than a tenth of that.
- Of several ranks, the rank that loses most decides, since the others wait for it. If the ranks wait for data in
  >= 10 % of the time in the mean, and none saves a checkpoint, the samples in which only another rank waits for data
  are data too: ranks that step together wait for the last batch, and each may be the last. Ranks that are independent
  of each other then seem to lose more than they do.
- Ranks surely step together if all have numbers, from a launcher, MPI or a group on several machines, or because the
  first of them started the others; Ray's do not count. Of such ranks, one is late if over 60 s it waits for its own
  data in >= {late_wait} % of the time, and each other rank for at most a third of that; several are late if each waits
  for at least half as long as the one that waits longest, and they are at most half of all. The verdict names the late
  ranks, with their own wait and the figures of their loaders, if over 10 s they wait for >= 70 % of the time in which
  the job waits. None is named if not all ranks are watched at once (32 tasks, shared by the jobs).
- Busy GPUs are collective instead of compute where the job has two or more, all are >= 90 % busy and draw < 25 % of
  their power limit (40 % with idle tensor cores), and its loaders rest. A GPU is transfer where its PCIe link is
  >= 80 % full and it idles for other reasons than data.

Where a GPU idles for a part of a tick, its mean utilisation splits the tick.
"""

CLASSES = """
## How classes enter and leave

confirm_s: the time that a condition must hold, beyond the window, before its finding enters. leave: the finding leaves
below this part of its threshold. keep_s: the time that the finding stays after its condition last held. All classes
have confirm_s 0, leave {leave_level:g} and keep_s {keep_s:g}, except:

"""
NUMBERS = """
## Numbers

`iotop_ai/diagnosis/thresholds.py` has every number with its meaning. Those with a source other than labelled runs:

"""


def parts(rule: Rule) -> tuple[str, dict[str, str]]:
    """The sentence of a rule, and the text of each of its four lines."""
    sentence, _, rest = (inspect.getdoc(rule) or "").partition("\n\n")
    found = re.split(rf"^({'|'.join(LINES)}): ", rest, flags=re.MULTILINE)[1:]
    return sentence, {label: " ".join(text.split()) for label, text in zip(found[::2], found[1::2], strict=True)}


def field_docs(record: type) -> dict[str, str]:
    """The docstring of each field of a record."""
    (body,) = (node.body for node in ast.parse(inspect.getsource(record)).body if isinstance(node, ast.ClassDef))
    out = {}
    for field, doc in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(doc, ast.Expr):
            out[field.target.id] = " ".join(ast.literal_eval(doc.value).split())
    return out


def rule_section(rule: Rule) -> str:
    """The heading of a rule, its claim and its other three lines."""
    sentence, lines = parts(rule)
    named, _, claim = lines["Claim"].partition(": ")
    rest = "".join(f"- **{label}**: {lines[label]}\n" for label in LINES[1:])
    return f"\n## {rule.__name__}\n\n`{named}`: {sentence.removesuffix('.')}: {claim}\n\n{rest}"


def sourced_numbers() -> str:
    """A line for each limit that has a source, with the limits whose text refers to it."""
    meaning, out = field_docs(Thresholds), dict[str, list[str]]()
    for name, value in LIMITS._asdict().items():
        referred = meaning[name].removeprefix("See ").removesuffix(".")
        out.setdefault(referred if referred in meaning else name, []).append(f"`{name}` {value:g}")
    sourced = {name: texts for name, texts in out.items() if "Source: " in meaning[name]}
    return "".join(f"- {', '.join(texts)}: {meaning[name]}\n" for name, texts in sourced.items())


def own_values() -> str:
    """For each class, the values that differ from those of most classes."""
    out = []
    for name, spec in CLASS_SPECS.items():
        own = {"confirm_s": spec.confirm_s or None, "leave": spec.leave, "keep_s": spec.keep_s}
        if text := ", ".join(f"{key} {value:.3g}" for key, value in own.items() if value is not None):
            out.append(f"`{name}` {text}")
    return "; ".join(out) + ".\n"


def page() -> str:
    """The whole page as Markdown."""
    percents = ("enter_share", "leave_share", "leave_level", "gate", "long_gate", "late_wait", "learned_floor")
    shares = {
        name.removesuffix("_share").removeprefix("leave_").removeprefix("learned_"): round(getattr(LIMITS, name) * 100)
        for name in percents
    }
    out = [HEAD.format(**LIMITS._asdict() | shares)]
    states = {name: spec.state.value for name, spec in CLASS_SPECS.items()} | {"unknown": "UNSURE, CALM or BUSY"}
    order = ", ".join(f"`{name}` ({state})" for name, state in states.items())
    out.append(f"\nWhen several hold, the first of these names the state: {order}.\n")
    out += [rule_section(rule) for rule in RULES]
    out.append(CLASSES.format(**LIMITS._asdict()) + own_values())
    out.append(NUMBERS + sourced_numbers())
    return "".join(out)


if __name__ == "__main__":
    sys.exit(write_or_check("tests.rules_doc", PAGE, page()))
