"""The figures as text: lines that are printed during the benchmark, and docs/verdict.md."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Sequence
from textwrap import wrap

from iotop_ai.model.verdict_class import CLASS_SPECS, State
from tests.scenarios.figures import Figures, Record, Scored, confusion, figures, scored, tuned_and_held_out
from tests.scenarios.plan import BACKGROUND, PLAIN
from tests.scenarios.stacks.score import rules_of, wilson

WANTED = ("at least 90 %", "at least 97 %", "at most 2 %", "at most 10 s", "at most 1", "at least 90 %")
HEAD = """# How often the verdict is right

Programs make each cause for real (a slow disk, a limit, loaders) and log how long every step waited. A small C library
takes the place of NVML and follows the trainer's steps; a slow FUSE server stands for NFS. {kinds}
Causes with "torch" in their name use PyTorch's DataLoader (IOTOP_AI_TORCH_PYTHON names a Python that has it).

```
{command}
```

{repeats}

Measured on {machine}.
"""
ONE_REPEAT = """Each cause runs by itself,
with parameters drawn at random from the range that the rules were tuned on."""
REPEATS = """Each repeat draws its
parameters at random. Of three repeats one runs beside a busy core, and one has held-out parameters that no rule was
tuned on."""
MEANING = """
- **top-1**: the right class is the one most often named after the class's window. **top-3**: it is among the first
  three findings for at least half of that time.
- **false OKs**: runs with a loss or a fault whose verdict is OK or CALM.
- **false alarms**: seconds of the negatives (nothing wrong, or easily mistaken for a fault) with a false first finding.
- **time to the right verdict**: from the end of the class's window, but at the earliest from 15 s after the trainer's
  start.
- **flaps**: changes of the first finding after the first right one.
- **share lost is right**: of all seconds, the part in which the share of time lost over the last 10 s is within 0.10
  of the trainer's own log (0.15 beside a busy core).
"""


PROVES_NOT = """\
**What this does not prove**: causes, trainer and rules have one author. A right verdict here shows that a rule works as
meant, not that it is right on your stack ([real stacks](stacks.md), [without root](stacks-as-user.md),
[unseen](stacks-unseen.md) and [newer stacks](stacks-held-out.md), [healthy trainers](stacks-fed.md)). Each cause is
alone and lasts as long as it is watched, a library makes up the GPU, and all runs are on one small machine.
"""


def percent(value: float | None) -> str:
    """Return a share as text, such as "97.5 %"; "-" for None."""
    return "-" if value is None else f"{100 * value:.1f} %"


def number(value: float | None, unit: str = "") -> str:
    """Return a number with one decimal and its unit; "-" for None."""
    return "-" if value is None else f"{value:.1f}{unit}"


def cells(f: Figures) -> tuple[str, ...]:
    """Return the figures in the order of ``WANTED``."""
    return (
        percent(f.top1),
        percent(f.top3),
        percent(f.false_alarms),
        number(f.late_s, " s"),
        number(f.flaps_per_minute),
        f"{percent(f.near)} of {f.windows}" if f.windows else "-",
    )


NEGATIVE = " \\*"
"""The mark after the name of a negative."""
NAMES = (
    "top-1",
    "top-3",
    "false alarms on negatives",
    "median time to the right verdict",
    "flaps a minute",
    "share lost is right",
)


def interval(runs: Sequence[Scored]) -> str:
    """Return the 95 % interval (Wilson) of the share of runs whose right class was named."""
    low, high = wilson(sum(run.right for run in runs), len(runs))
    return f"{100 * low:.0f}-{100 * high:.0f} %"


def false_oks(runs: Sequence[Scored]) -> str:
    """Return how many of the runs with a loss or a fault got an OK or CALM verdict, such as "0 of 52"."""
    lossy = [run for run in runs if not run.record["negative"]]
    fine = [run for run in lossy if run.score.got in CLASS_SPECS and CLASS_SPECS[run.score.got].state in _FINE]
    return f"{len(fine)} of {len(lossy)}"


_FINE = (State.OK, State.CALM)


def run_line(run: Scored) -> str:
    """Return three lines about a run: its parameters, its score, and the last text of the screen."""
    s, r = run.score, run.record
    late = "never" if s.late_s is None else f"+{s.late_s:.0f} s"
    errors = sorted(abs(e) for e in s.errors)
    error = (
        "no log" if not errors else f"median {errors[len(errors) // 2]:.3f} p90 {errors[int(len(errors) * 0.9)]:.3f}"
    )
    last = r["rows"][-1]
    costs = [row["cost"] for row in r["rows"] if row["cost"]]
    cost = sum(costs) / len(costs) if costs else 0.0
    return (
        f"{'ok   ' if run.right else 'WRONG'} {r['name']} #{r['number']} ({r['kind']}) {r['setting']}\n"
        f"      label {run.label}, got {s.got} {late} right {s.right:.0%} top3 {s.top3} flaps {s.flaps}"
        f" alarms {s.alarms}/{s.decided if r['negative'] else '-'} stall {last['stall']} truth {last['truth']}"
        f" error {error} cost {cost:.2%}\n"
        f"      {last['confidence']} {last['classes'][:4]} {last['state']} | {last['because']} | {last['do']}"
        f" | parts {last['parts']} blocked {last['blocked_tasks']} exit {r['exit']}"
    )


def summary(records: Sequence[Record]) -> str:
    """Return the figures of all runs, for a terminal."""
    tuned, held = tuned_and_held_out(scored(records))
    out = [f"{'':34} {'tuned':>16} {'held out':>16}   wanted"]
    for name, one, other, wanted in zip(NAMES, cells(figures(tuned)), cells(figures(held)), WANTED, strict=True):
        out.append(f"{name:34} {one:>16} {other:>16}   {wanted}")
    out.append(f"{'runs':34} {len(tuned):>16} {len(held):>16}")
    failed = [r for r in records if "error" in r]
    out += [f"not made: {r['name']} #{r['number']}: {r['error']}" for r in failed]
    return "\n".join(out)


def per_class(runs: Sequence[Scored]) -> list[str]:
    """Return a row per class: its causes (negatives are marked), the other classes that its runs named, its figures."""
    table = confusion(runs)
    head = ("class", "causes", "right", "else named", *NAMES[3:])
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for label, named in table.items():
        label_runs = [r for r in runs if r.label == label]
        causes = sorted({f"{r.record['name']}{NEGATIVE if r.record['negative'] else ''}" for r in label_runs})
        wrong = ", ".join(f"{name} {count}" for name, count in sorted(named.items()) if name != label) or "-"
        right = f"{named[label]}/{len(label_runs)}"
        row = (label, ", ".join(causes), right, wrong, *cells(figures(label_runs))[3:])
        lines.append("| " + " | ".join(row) + " |")
    return lines


def how_often(runs: Sequence[Scored]) -> str:
    """Return how often the causes were made, such as "132 runs: 42 causes 3 times, 6 causes once (NAMES)."

    Causes that were made less often are listed by name.
    """
    names: dict[int, list[str]] = {}
    for name, count in sorted(Counter(r.record["name"] for r in runs).items()):
        names.setdefault(count, []).append(name)
    most = max(names, default=0)
    parts = []
    for count, some in sorted(names.items(), reverse=True):
        times = "once" if count == 1 else f"{count} times"
        which = "" if count == most else f" ({', '.join(some)})"
        parts.append(f"{len(some)} cause{'s' if len(some) > 1 else ''} {times}{which}")
    return f"{len(runs)} runs: {', '.join(parts)}. The rules have {rules_of(run.record for run in runs)}."


def document(records: Sequence[Record], command: str) -> str:
    """Return the text of docs/verdict.md."""
    runs = scored(records)
    tuned, held = tuned_and_held_out(runs)
    cores = os.cpu_count()
    machine = f"a virtual machine with {cores} cores, Linux {platform.release()}, Python {platform.python_version()}"
    repeats = "\n".join(wrap(how_often(runs), 120))
    kinds = REPEATS if any(r.record["kind"] != PLAIN for r in runs) else ONE_REPEAT
    lines = [HEAD.format(command=command, machine=machine, repeats=repeats, kinds=kinds), "## All together", ""]
    beside = [r for r in tuned if r.record["kind"] == BACKGROUND]
    parts = {"tuned": tuned, "beside a busy core": beside, "held out": held}
    parts = {name: part for name, part in parts.items() if part}
    lines += ["| | " + " | ".join((*parts, "wanted")) + " |", "|---" * (len(parts) + 2) + "|"]
    lines.append("| runs | " + " | ".join(str(len(part)) for part in parts.values()) + " | |")
    columns = [cells(figures(part)) for part in parts.values()]
    for i, name in enumerate(NAMES):
        lines.append(f"| {name} | " + " | ".join(c[i] for c in columns) + f" | {WANTED[i]} |")
        if name == "top-1":
            lines.append("| its 95 % interval | " + " | ".join(map(interval, parts.values())) + " | |")
    lines.append("| false OKs | " + " | ".join(map(false_oks, parts.values())) + " | 0 |")
    negatives = {r.record["name"] for r in runs if r.record["negative"]}
    captured = sorted({str(r.record["name"]) for r in runs if r.record["captured"]})
    lines += [MEANING, PROVES_NOT, "## By class", ""]
    lines += [f"{len(confusion(runs))} classes; {NEGATIVE.strip()} marks {len(negatives)} negatives.", ""]
    lines += per_class(runs)
    if captured:
        lines += ["", f"Made from a captured tree and not for real: {', '.join(captured)}."]
    lines += ["", "## Runs with another class", "", *wrong_runs(runs)]
    failed = [r for r in records if "error" in r]
    if failed:
        lines += ["", "Could not be made:", ""]
        lines += [f"- {r['name']} #{r['number']}: {r['error']}" for r in failed]
    return "\n".join(lines) + "\n"


def wrong_runs(runs: Sequence[Scored]) -> list[str]:
    """Return a row for each run that named another class."""
    wrong = [run for run in runs if not run.right]
    if not wrong:
        return ["None."]
    lines = ["| cause | repeat | parameters | class | named | after its window |", "|---|---|---|---|---|---|"]
    for run in sorted(wrong, key=lambda r: (r.record["name"], r.record["number"])):
        r, s = run.record, run.score
        late = "never" if s.late_s is None else f"{s.late_s:.0f} s"
        lines.append(f"| {r['name']} | {r['kind']} | {r['setting']} | {run.label} | {s.got or 'nothing'} | {late} |")
    return lines
