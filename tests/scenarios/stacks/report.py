"""The figures as text: a line per run, tables by stack and by cause, and the pages docs/stacks*.md."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.scenarios.stacks.score import (
    ACCEPTABLE,
    RIGHT,
    UNKNOWN,
    WRONG,
    Scored,
    account_errors,
    count,
    data_share,
    errors,
    median,
    quantile,
    rules_of,
    wilson,
)


class Page(NamedTuple):
    """A page about one set of cases. rules: the end of the sentence that names the rules. losses: a sentence.

    options: the name of the file that holds the cases. notes: what the page says below its runs.
    """

    title: str
    rules: str
    losses: str
    options: str
    notes: str = ""


SPREAD = "The intended losses are between 0 and 90 %, a third of them between 3 and 30 %."
KNOWN = Page(
    "How often the verdict is right on real training stacks",
    """The rules ({rules}) were made with runs of these stacks at hand:
this is not a held-out test. [Unseen stacks](stacks-unseen.md) is one.""",
    SPREAD,
    "cases.py",
)
FED_PAGE = Page(
    "How often the verdict accuses healthy training",
    "The rules have {rules}.",
    """In all of these
runs a step is to take longer than its batch; where the machine's two cores did not suffice for that, the run lost time
and counts as one that lacks CPU.""",
    "fed.py",
    """The first 12 ran with version 25 of the rules; version 26 changes nothing for workers that stay.
What Transformers' Trainer does between a batch and its step counts as a wait here, and as host for the verdict.""",
)
UNSEEN_PAGE = Page(
    "How often the verdict is right on training stacks that no rule was made with",
    """The rules ({rules}) were made before these stacks were installed
here for the first time: this is a held-out test.""",
    SPREAD,
    "unseen.py",
    """DALI, SPDL, LitData and Streaming ran with version 20 of the rules, a few days before the others. LMDB ran
beside tests that took 16 and 17 % of the CPU, and those below "video healthy" last. The wrong verdict on "Parquet
disk" has been mended since: Arrow's threads had queued reads for seconds, which were taken for those of another
program.""",
)
AS_USER_PAGE = Page(
    "How often the verdict is right for a user without root",
    """The rules ({rules}) were made with runs of these stacks at hand, but as root. Here trainer and monitor
ran as a user without root, and the monitor got neither system calls nor memory of the trainer's tasks, as with
`kernel.yama.ptrace_scope=1`, the default of Ubuntu.""",
    SPREAD,
    "cases.py",
)
HELD_OUT_PAGE = Page(
    "How often the verdict is right on training stacks that came after its rules",
    """The rules ({rules}) were frozen before these trainers were written and these
stacks were installed here: this is a held-out test, with other stacks than [the first one](stacks-unseen.md).""",
    SPREAD,
    "held_out.py",
    """In the first run of Lance's cases on the slow disk, Lance had compressed their data from 640 to 20 MB, which was
read from the page cache; `cpu_prep` was right then. These two ran again, with noise in each row. Deep Lake's two cases
were made as "decode" and "healthy", but their epochs last a second, and new workers for each cost what is lost: version
26 of the rules names that in both recordings (`worker_respawn`), and judges all other runs as version 25. What
s3torchconnector loses in its second case is network and computing in equal parts.""",
)
HEAD = """# {title}

Each run is a trainer as its stack's documentation shows it, from the package registry. A library in the place of NVML
shows the GPU busy while the trainer is in its step, and the trainer's own clock gives the truth: the time in `next()`
against the time of the step. During a step the main thread sleeps, spins, waits in a futex for another thread, polls,
or waits in an ioctl. {losses}

```
python -m tests.scenarios.stacks.install
{command}
```

Measured on {machine}.
Other programs took {others} of its CPU in the median run. Each trainer was watched once, for {seconds}.
{rules}

- **right**: the verdict of `iotop-ai diagnose --json --job PID` names the cause; below {little} of time lost it says
  that all is well. **acceptable**: a class with the same cure, the true cause below {little}, "all is well" below
  {small}, or, for a job that lacks CPU, "noisy neighbour" if other programs take a quarter of the machine's CPU or
  more. A job that was to be healthy and lost {little} counts as one that lacks CPU. Where reading and decoding are
  mixed, torch's loaders time both, and the longer half is the cause; tf.data's do not, and its cause is the disk.
- **false alarm**: a wrong cause of loss is named where less than {little} is lost. **false OK**: all is well where
  {small} or more is lost.
- **stall**: how far `data_stall_ratio` is from the truth, each second over 10 s.
- **account**: the breakdown of the job's time over the whole run; right when its largest lost share is the true one.

Errors are median and 90th percentile.
"""


BESIDE = " \\*"
"""The mark after the name of a run beside which another training job ran."""


def percent(value: float | None) -> str:
    """Return a share as text, such as "62 %"; "-" for None."""
    return "-" if value is None else f"{100 * value:.0f} %"


def line(run: Scored) -> str:
    """Return two lines about a run, for the terminal: its figures, and the last text of the screen."""
    r = run.record
    stall = r["data_stall_ratio"]
    account = r["account"]
    parts = "" if not account else " | " + " ".join(f"{k} {v:.2f}" for k, v in account.items() if v >= 0.005)
    account_result = f" account {run.account}" if run.account else ""
    wait = percent(r["truth"]["shares"]["wait"])
    return (
        f"{run.result:10}{account_result} {r['name']}: lost {percent(run.lost)}, wait {wait}, "
        f"named {r['verdict']} ({r['confidence']}), stall {percent(stall)}, others {percent(r['others'])}{parts}\n"
        f"           {r['text']}"
    )


HEADINGS = (
    "right, acceptable, wrong, unknown", "right or acceptable", "false alarms, OKs", "stall error",
    "account right or acceptable", "its data share's error",
)  # fmt: skip


def interval(hits: int, runs: int) -> str:
    """Return a share with its 95 % interval, such as "50 % (9-91 %)"; "-" without runs."""
    low, high = wilson(hits, runs)
    return f"{percent(hits / runs)} ({100 * low:.0f}-{percent(high)})" if runs else "-"


def both(values: Sequence[float]) -> str:
    """Return the median and the 90th percentile as text, such as "1 %, 9 %"."""
    return f"{percent(median(values))}, {percent(quantile(values, 0.9))}"


def _row(name: str, runs: Sequence[Scored]) -> str:
    results = [run.result for run in runs]
    accounts = [run.account for run in runs if run.account]
    stalls, shares = errors(runs), account_errors(runs)
    cells = [
        name,
        ", ".join(str(results.count(kind)) for kind in (RIGHT, ACCEPTABLE, WRONG, UNKNOWN)),
        interval(results.count(RIGHT) + results.count(ACCEPTABLE), len(runs)),
        f"{count(runs, lambda run: run.is_false_alarm)}, {count(runs, lambda run: run.is_false_ok)}",
        both(stalls),
        interval(accounts.count(RIGHT) + accounts.count(ACCEPTABLE), len(accounts)),
        both(shares),
    ]
    return "| " + " | ".join(cells) + " |"


def rows_by(runs: Sequence[Scored], key: Callable[[Scored], str]) -> list[str]:
    """Return a row of figures for each value that ``key`` returns."""
    groups: dict[str, list[Scored]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    return [_row(name, some) for name, some in groups.items()]


def summary(runs: Sequence[Scored]) -> list[str]:
    """Return a row for each stack, for each cause, and for all runs."""
    headings = ("stack or cause", *HEADINGS)
    lines = ["| " + " | ".join(headings) + " |", "|---" * len(headings) + "|"]
    by_stack = rows_by(runs, lambda run: str(run.record["stack"]))
    return [*lines, *by_stack, *rows_by(runs, lambda run: run.cause.name), _row("all", runs)]


def every_run(runs: Sequence[Scored]) -> list[str]:
    """Return a row for each run."""
    lines = ["| run | cause | lost | named | data share reported, true | account |", "|---" * 6 + "|"]
    for run in runs:
        r = run.record
        account = r["account"] or {}
        parts = ", ".join(
            f"{name.removeprefix('data_')} {percent(share)}"
            for name, share in sorted(account.items(), key=lambda item: -item[1])
            if share >= 0.03 and name != "compute"
        )
        share = data_share(account) if account else r["data_stall_ratio"]
        name = r["name"] + (BESIDE if r["other_jobs"] else "")
        result = "" if run.result == RIGHT else f" **{run.result}**"
        shares = f"{percent(share)}, {percent(r['truth']['shares']['wait'])}"
        cells = [name, run.cause.name, percent(run.lost), r["verdict"] + result, shares, parts or "-"]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def document(runs: Sequence[Scored], failed: Sequence[str], command: str, page: Page = KNOWN) -> str:
    """Return the text of a page."""
    machine = f"a virtual machine with {os.cpu_count()} cores, Linux {platform.release()}, Python"
    watched = [run.record["truth"]["seconds"] for run in runs]
    head = HEAD.format(
        title=page.title,
        rules=page.rules.format(rules=rules_of(run.record for run in runs)),
        losses=page.losses,
        command=command,
        machine=f"{machine} {platform.python_version()}",
        seconds=f"{min(watched, default=0):.0f} to {max(watched, default=0):.0f} s",
        others=percent(median([run.record["others"] for run in runs])),
        little="5 %",
        small="10 %",
    )
    lines = [head, "## By stack and by cause", "", *summary(runs), "", "## Every run", ""]
    lines += [
        f"Options: `tests/scenarios/stacks/{page.options}`. The rest of the account is compute and shares below 3 %.",
        "",
        *every_run(runs),
    ]
    if any(run.record["other_jobs"] for run in runs):
        lines += ["", f"{BESIDE.strip()} Another training job ran on the machine meanwhile."]
    if page.notes:
        lines += ["", page.notes]
    if failed:
        lines += ["", "Without a run:", "", *(f"- {text}" for text in failed)]
    return "\n".join(lines) + "\n"
