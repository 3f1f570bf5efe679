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

Every verdict, its evidence, and the source of each number. This page is written by `python -m tests.rules_doc` from
`iotop_ai/diagnosis/`; change the rule, not the page.

A rule reads a window of {window_s:g} s, or three periods of the slowest reading where that is longer: only samples
with new readings, and no gap. A finding enters when its condition holds in {enter} % of the samples, at least
{least_samples}; it leaves below {leave} %, or when its main signal falls below {level} % of its threshold, and stays
at least {dwell_s:g} s and {keep_s:g} s after its condition last held. Another cause of the same job's wait replaces
the first after it has held for {confirm_s:g} s. An unknown value never counts as true. The monitor's own processes are
left out. Without any finding the verdict is UNSURE and lists what was checked; OK needs evidence.

A device's normal read time is the lower of two: the value for its kind, and a tenth of its own last 27 hours. That
history counts minutes by mean read time, per serial number and request size; it applies from {baseline_minutes:g}
minutes on, and pauses during a finding about storage, so that a stall does not become normal.

Confidence starts at the rule's own base. One family of signals (task states, device, pressure, GPU) caps it at 50 %,
two at 75 %; a missing GPU at 60 %, an unknown mapping of processes to GPUs at 75 % (CPU rules: 50 %), unreadable I/O
at 55 %. From 85 % it is called high, from 60 % medium.

## Where a job's time goes

Each moment that a job is watched belongs to exactly one share: compute, collective, transfer, data (disk, network,
CPU, other), host, checkpoint, startup, compile, stopped, hung, unexplained. The verdict explains the largest lost one;
where `unexplained` is larger, it is UNSURE. 20 times a second one look takes the main thread of the trainer, its other
threads that moved in the last 5 s, and all processes below it. Once a tick the looks are given to the shares:

- With a GPU, the lost time is what the GPU idles in that tick. It goes first to looks that show a wait by themselves
  (the main thread at its result queue, in state D, or at a socket, while its makers work), then to looks with the main
  thread in a futex while makers work (a loader of threads), then to the main thread's own running: `host`, or
  `data: CPU` where it has no loaders and reads >= 1 MB/s. What is left is unexplained.
- Without a GPU, a moment is lost only where a look shows a wait; threads of the trainer on a CPU are compute.
- A look at a wait is split over the makers that work at that moment: state D and waits for io_uring or aio are disk (a
  mount of a network filesystem: network), else on a CPU is CPU, else asleep at a TCP socket, or with bytes received in
  the last 0.4 s, is network. A wait in D for a lock, reclaim or a driver is not disk.
- A wait for a device while >= 1 MB/s are written and less than a tenth of that is read is a checkpoint.
- Of several ranks the one that loses most decides, since the others wait for it.

Not told apart yet: `collective` and `transfer` stay 0, and that time is compute (the rules `comm_wait` and `pcie` find
both by the GPUs' own counters); a GPU that idles within one tick is split by its mean utilisation.
"""

CLASSES = """
## How classes enter and leave

confirm_s: how long a condition must have held before its finding enters, beyond the window and as far as that was
observed. leave: the part of its threshold below which it leaves. keep_s: how long it stays after its condition last
held.

| class | confirm_s | leave | keep_s |
|---|---|---|---|
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


def page() -> str:
    """The whole page."""
    numbers = {
        "enter": round(LIMITS.enter_share * 100),
        "leave": round(LIMITS.leave_share * 100),
        "level": round(LIMITS.leave_level * 100),
    }
    out = [HEAD.format(**LIMITS._asdict(), **numbers)]
    order = ", ".join(f"`{name}` ({spec.state.value})" for name, spec in CLASS_SPECS.items())
    out.append(f"\nWhen several hold, the first of these names the state: {order}.\n")
    for rule in RULES:
        sentence, lines = parts(rule)
        out.append(f"\n## {rule.__name__}\n\n{sentence}\n\n")
        out += [f"- **{label}**: {lines[label]}\n" for label in LINES]
    out.append(CLASSES)
    rows = {name: (spec.confirm_s, spec.leave, spec.keep_s) for name, spec in CLASS_SPECS.items()}
    usual = (0.0, None, None)
    for name, row in {"all others": usual, **{name: row for name, row in rows.items() if row != usual}}.items():
        confirm_s, leave, keep_s = row
        leave = LIMITS.leave_level if leave is None else leave
        out.append(f"| {name} | {confirm_s:g} | {leave:.2f} | {LIMITS.keep_s if keep_s is None else keep_s:g} |\n")
    out.append("\n## Numbers\n\n" + (inspect.getdoc(Thresholds) or "") + "\n\n")
    out.append("| name | value | meaning |\n|---|---|---|\n")
    meaning = field_docs(Thresholds)
    out += [f"| `{name}` | {value:g} | {meaning[name]} |\n" for name, value in LIMITS._asdict().items()]
    return "".join(out)


if __name__ == "__main__":
    sys.exit(written("tests.rules_doc", PAGE, page()))
