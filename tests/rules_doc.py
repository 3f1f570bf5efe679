"""Writes docs/rules.md from the rules' docstrings and numbers: ``python -m tests.rules_doc [--check]``."""

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
from tests.pages import written

PAGE = Path(__file__).resolve().parent.parent / "docs" / "rules.md"
LINES = ("Claim", "Evidence", "Threshold", "Blind spot")
HEAD = """\
# Rules

Every verdict, its evidence, and the source of each number; figures without a source are ours, chosen on labelled runs.
Written by `python -m tests.rules_doc` from `iotop_ai/diagnosis/`; change the rule, not the page.

A rule reads a window of {window_s:g} s, or three periods of the slowest reading where that is longer: only samples
with new readings, and no gap. A finding enters when its condition holds in {enter} % of the samples, at least
{least_samples}. It leaves below {leave} %, or when its main signal falls below {level} % of its threshold, and stays
at least {dwell_s:g} s, and {keep_s:g} s after its condition last held. Another cause of the same job's wait replaces
the first after {confirm_s:g} s. With its job a finding leaves at once, but for `job_died`. An unknown value
never counts as true. The monitor's own processes are left out. Without any finding the verdict is UNSURE and
lists what was checked; OK needs evidence.

A device's normal read time is the lower of two: the value for its kind, and a tenth of its own last 27 hours, counted
per serial number and request size. That history applies from {baseline_minutes:g} minutes on, and pauses during a
finding about storage.

Confidence starts at the rule's own base. One family of signals (task states, device, pressure, GPU) caps it at 50 %,
two at 75 %; a missing GPU at 60 %, an unknown mapping of processes to GPUs at 75 % (CPU rules: 50 %), unreadable I/O
at 55 %. From 85 % it is called high, from 60 % medium.

In the rules, *time lost* is >= {gate} % of {window_s:g} s or {long_gate} % of {long_window_s:g} s; *samples* of tasks
are taken 20 times a second, at random moments; *normal* is the device's normal read time; *D* is the share of time in
uninterruptible sleep; *shown beside the verdict* means that it does not name the state.

## Where a job's time goes

Each moment that a job is watched belongs to exactly one share: compute, collective, transfer, data (disk, network,
CPU, other), host, checkpoint, startup, compile, stopped, hung, unexplained. The verdict explains the largest lost one;
where `unexplained` is larger, it is UNSURE. A sample takes the main thread of the trainer, its other threads that moved
in the last 5 s, and all processes below it. Once a tick the samples are given to the shares:

- With a GPU, the lost time is what the GPU idles in that tick. It goes first to samples that show a wait by themselves
  (the main thread at its result queue, in state D, or at a socket, while its makers work), then to the main thread in a
  futex while makers work (a loader of threads), then to its own running: `host`, or `data: CPU` where it has no loaders
  and reads >= 1 MB/s. What is left is unexplained.
- Without a GPU, a moment is lost only where a sample shows a wait; threads of the trainer on a CPU are compute. There a
  main thread in poll or read waits for data only at a descriptor that a loader holds, where that may be read.
- A wait is split over the makers that work at that moment: state D and waits for io_uring or aio are disk (a mount of a
  network filesystem: network), else on a CPU is CPU, else asleep at a TCP socket, or with bytes received in the last
  0.4 s, is network. A wait in D for a lock, reclaim or a driver is not disk.
- What a thread of the trainer computes while main is in a futex is a checkpoint where the trainer writes >= 1 MB/s over
  10 s and reads less than a tenth of that; else data with a loader of threads, `host` beside loader processes.
- A wait for a device while >= 1 MB/s are written and less than a tenth of that is read is a checkpoint.
- Of several ranks the one that loses most decides, since the others wait for it.
- Busy GPUs are collective instead of compute where all of a job's, two or more, are >= 90 % busy and draw < 25 % of
  their power limit (40 % with idle tensor cores) while its loaders rest. A GPU that idles for other reasons than data
  while its PCIe link is >= 80 % full is transfer.

A GPU that idles within one tick is split by its mean utilisation.
"""

CLASSES = """
## How classes enter and leave

confirm_s: how long a condition must have held before its finding enters, beyond the window. leave: the part of its
threshold below which it leaves. keep_s: how long it stays after its condition last held. All have confirm_s 0, leave
{leave_level:g} and keep_s {keep_s:g}, but for:

"""
NUMBERS = """
## Numbers

`iotop_ai/diagnosis/thresholds.py` has every number with its meaning. Those with a source other than labelled runs:

"""


def parts(rule: Rule) -> tuple[str, dict[str, str]]:
    """The rule's sentence and the text of each of its four lines."""
    sentence, _, rest = (inspect.getdoc(rule) or "").partition("\n\n")
    found = re.split(rf"^({'|'.join(LINES)}): ", rest, flags=re.MULTILINE)[1:]
    return sentence, {label: " ".join(text.split()) for label, text in zip(found[::2], found[1::2], strict=True)}


def field_docs(record: type) -> dict[str, str]:
    """The docstring below each field of a record."""
    (body,) = (node.body for node in ast.parse(inspect.getsource(record)).body if isinstance(node, ast.ClassDef))
    out = {}
    for field, doc in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(doc, ast.Expr):
            out[field.target.id] = " ".join(ast.literal_eval(doc.value).split())
    return out


def rule_section(rule: Rule) -> str:
    """A heading, the claim and the other three lines."""
    sentence, lines = parts(rule)
    named, _, claim = lines["Claim"].partition(": ")
    rest = "".join(f"- **{label}**: {lines[label]}\n" for label in LINES[1:])
    return f"\n## {rule.__name__}\n\n`{named}`: {sentence.removesuffix('.')}: {claim}\n\n{rest}"


def sourced_numbers() -> str:
    """A line each number that has a source, with those that share its meaning."""
    meaning, out = field_docs(Thresholds), list[tuple[str, str]]()
    for name, value in LIMITS._asdict().items():
        doc, text = meaning[name], f"`{name}` {value:g}"
        if doc == "As above.":
            first, doc = out.pop()
            text = f"{first}, {text}"
        out.append((text, doc))
    return "".join(f"- {text}: {doc}\n" for text, doc in out if "Source: " in doc)


def own_values() -> str:
    """Of each class the values that differ from those of most."""
    out = []
    for name, spec in CLASS_SPECS.items():
        own = {"confirm_s": spec.confirm_s or None, "leave": spec.leave, "keep_s": spec.keep_s}
        if given := ", ".join(f"{key} {value:.3g}" for key, value in own.items() if value is not None):
            out.append(f"`{name}` {given}")
    return "; ".join(out) + ".\n"


def page() -> str:
    """The whole page."""
    percents = ("enter_share", "leave_share", "leave_level", "gate", "long_gate")
    shares = {
        name.removesuffix("_share").removeprefix("leave_"): round(getattr(LIMITS, name) * 100) for name in percents
    }
    out = [HEAD.format(**LIMITS._asdict() | shares)]
    order = ", ".join(f"`{name}` ({spec.state.value})" for name, spec in CLASS_SPECS.items())
    out.append(f"\nWhen several hold, the first of these names the state: {order}.\n")
    out += [rule_section(rule) for rule in RULES]
    out.append(CLASSES.format(**LIMITS._asdict()) + own_values())
    out.append(NUMBERS + sourced_numbers())
    return "".join(out)


if __name__ == "__main__":
    sys.exit(written("tests.rules_doc", PAGE, page()))
