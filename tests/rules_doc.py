"""Writes docs/rules.md from the rules' docstrings and numbers: ``python -m tests.rules_doc [--check]``."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

from iotop_ai.diagnosis.rules import PRECEDENCE, RULES, Rule
from iotop_ai.diagnosis.thresholds import AS_ALL, HOLDS, LIMITS, Hold, Thresholds
from iotop_ai.model.finding import STATE_OF_CLASS
from tests.pages import written

PAGE = Path(__file__).resolve().parent.parent / "docs" / "rules.md"
LINES = ("Claim", "Evidence", "Threshold", "Blind spot")
HEAD = """\
# Rules

What the verdict can say, from what, and where each number comes from. This page is written by
`python -m tests.rules_doc` from `iotop_ai/diagnosis/`; change the rule, not the page.

A rule looks at a window of seconds: {window_s:g} s, or three periods of the slowest reading where that is longer. Only
samples in which a reading was renewed count, and no gap is read. A finding enters when its condition holds in
{enter} % of the samples, at least {least_samples}; it leaves below {leave} %, or when its main signal falls below
{level} % of its threshold, and stays at least {dwell_s:g} s and {keep_s:g} s after its condition last held. Another
cause of the same job's wait replaces the first only when it has held for {confirm_s:g} s; the first then goes at once.
What is unknown is never true. The monitor's own process and its children are left out. When no rule holds, the verdict
is UNSURE and says what was looked at; OK needs evidence.

What is normal for a device is the lower of two: what its kind takes, and a tenth of its own last 27 hours. The history
counts minutes by the mean time of their reads, per serial number and size of read; it counts from {baseline_minutes:g}
minutes on, and stands still while a finding about storage is on, so that a stall never becomes normal.

Confidence starts at the rule's own base; two agreeing families of signals (task states, device, pressure, GPU) cap it
at 75 %, one at 50 %. A missing GPU caps it at 60 %, GPU processes that cannot be found at 75 % (on the CPU side 50 %),
unreadable I/O at 55 %. From 85 % on it is called high, from 60 % medium.
"""


def parts(rule: Rule) -> tuple[str, dict[str, str]]:
    """The rule's sentence and the text of each of its four lines."""
    sentence, _, rest = (inspect.getdoc(rule) or "").partition("\n\n")
    found = re.split(rf"^({'|'.join(LINES)}): ", rest, flags=re.MULTILINE)[1:]
    return sentence, {label: " ".join(text.split()) for label, text in zip(found[::2], found[1::2], strict=True)}


def page() -> str:
    """The whole page."""
    numbers = {
        "enter": round(LIMITS.enter_share * 100),
        "leave": round(LIMITS.leave_share * 100),
        "level": round(LIMITS.leave_level * 100),
    }
    out = [HEAD.format(**LIMITS._asdict(), **numbers)]
    order = ", ".join(f"`{name}` ({STATE_OF_CLASS[name].value})" for name in PRECEDENCE)
    out.append(f"\nWhen several hold, the first of these names the state: {order}.\n")
    for rule in RULES:
        sentence, lines = parts(rule)
        out.append(f"\n## {rule.__name__}\n\n{sentence}\n\n")
        out += [f"- **{label}**: {lines[label]}\n" for label in LINES]
    out.append("\n## How classes enter and leave\n\n" + (inspect.getdoc(Hold) or "") + "\n\n")
    out.append("| class | confirm_s | leave | keep_s |\n|---|---|---|---|\n")
    rows = {"all others": AS_ALL, **HOLDS}
    out += [f"| {name} | {r.confirm_s:g} | {r.leave:.2f} | {r.keep_s:g} |\n" for name, r in rows.items()]
    out.append("\n## Numbers\n\n" + (inspect.getdoc(Thresholds) or "") + "\n\n")
    out.append("| name | value |\n|---|---|\n")
    out += [f"| `{name}` | {value:g} |\n" for name, value in LIMITS._asdict().items()]
    return "".join(out)


if __name__ == "__main__":
    sys.exit(written("tests.rules_doc", PAGE, page()))
