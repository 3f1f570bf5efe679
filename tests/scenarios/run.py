"""Makes real causes of slow training and scores the verdicts.

``python -m tests.scenarios.run [--repeat 3] [--resume] [--write]``

Run it as root on a machine that does nothing else. --class selects single causes, --list shows the causes and how long
they take, --until HH:MM ends before that time, --resume continues an interrupted run, and --write puts the figures into
docs/verdict.md.
"""

from __future__ import annotations

import argparse
import datetime
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.rigs.nvml.c_library import build, why_no_library
from tests.scenarios.cause import Cause
from tests.scenarios.figures import figures, scored
from tests.scenarios.place import clear_dead
from tests.scenarios.plan import AROUND_S, Run, estimate_s, plan
from tests.scenarios.play import REPO, play
from tests.scenarios.registry import all_causes, why_not
from tests.scenarios.report import document, run_line, summary
from tests.scenarios.results import OtherPlanError, Results

RESULTS = REPO / "tests/scenarios/results"
DOCUMENT = REPO / "docs/verdict.md"


def moment(text: str) -> datetime.datetime:
    """Return today's time HH:MM, or tomorrow's when today's has passed."""
    hour, _, minute = text.partition(":")
    now = datetime.datetime.now()
    try:
        then = now.replace(hour=int(hour), minute=int(minute), second=0, microsecond=0)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time of day (HH:MM)") from None
    return then if then > now else then + datetime.timedelta(days=1)


def listed(causes: Mapping[str, Cause], names: Sequence[str], runs: Sequence[Run]) -> str:
    """Return the causes as text, with the reasons why some cannot be made here, and the time that the runs take."""
    lines = []
    for name in sorted(names):
        cause = causes[name]
        mark = "negative" if cause.negative else "captured" if cause.captured else ""
        lines.append(f"{name:28} {cause.label:18} {mark:9} {why_not(cause)}".rstrip())
    made = [causes[name] for name in names if not why_not(causes[name])]
    classes, negatives = {cause.label for cause in made}, [cause for cause in made if cause.negative]
    lines.append(f"{len(made)} causes, {len(classes)} classes and {len(negatives)} negatives can be made here")
    lines.append(f"{len(runs)} runs to do, about {estimate_s(runs) / 60:.0f} minutes")
    return "\n".join(lines)


def play_all(
    runs: Sequence[Run], causes: Mapping[str, Cause], results: Results, until: datetime.datetime | None
) -> bool:
    """Play these runs, and store their results. Return False if the rest would end after ``until``."""
    with tempfile.TemporaryDirectory(prefix="nvml-") as place:
        library = None if why_no_library() else build(Path(place))
        for count, run in enumerate(runs, 1):
            end = datetime.datetime.now() + datetime.timedelta(seconds=run.seconds + AROUND_S)
            if until is not None and end > until:
                print(f"stopped before {run.name}: it would end at {end:%H:%M:%S}", flush=True)
                return False
            cause = run.cause(causes)
            try:
                record = play(run, cause, library, results.file(run, "iotop.jsonl.new"))
            except (OSError, RuntimeError, subprocess.SubprocessError) as error:
                results.fail(run, str(error))
                print(f"FAILED {run.name} #{run.number}: {error}", flush=True)
                continue
            os.replace(results.file(run, "iotop.jsonl.new"), results.file(run, "iotop.jsonl"))
            results.add(run, record)
            for one in scored([record]):
                print(f"[{count}/{len(runs)}] {run_line(one)}", flush=True)
    return True


def arguments(causes: Mapping[str, Cause]) -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--class", dest="only", action="append", metavar="NAME", help="a class, or a cause by its name")
    parser.add_argument("--repeat", type=int, default=1, help="runs a cause: alone, beside load, with other figures")
    parser.add_argument("--seconds", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--background", action="store_true", help="every run beside a busy core")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--until", type=moment, metavar="HH:MM", help="begin no run that would end later")
    parser.add_argument("--results", type=Path, help=f"default {RESULTS.relative_to(REPO)}; with --class a new folder")
    parser.add_argument("--first", action="store_true", help="only the first cause of each class, and all negatives")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--write", action="store_true", help="write docs/verdict.md, also from earlier results")
    return parser


def first_of_each(causes: Mapping[str, Cause], names: Sequence[str]) -> list[str]:
    """Return the first cause of each class that can be made here, and every negative: the shortest whole benchmark."""
    out, seen = [], set()
    for name in names:
        cause = causes[name]
        if cause.negative or cause.label not in seen:
            out.append(name)
        if not cause.negative and not why_not(cause):
            seen.add(cause.label)
    return out


def matching_names(causes: Mapping[str, Cause], only: Sequence[str] | None) -> list[str]:
    """Return the requested names. Raises ValueError for an unknown name."""
    if not only:
        return list(causes)
    out: dict[str, None] = {}
    for word in only:
        found = [name for name, cause in causes.items() if word in (name, cause.label)]
        if not found:
            raise ValueError(f"no cause or class is called {word!r}; --list shows them")
        out |= dict.fromkeys(found)
    return list(out)


def main(argv: Sequence[str] | None = None) -> int:
    causes = all_causes()
    parser = arguments(causes)
    a = parser.parse_args(argv)
    try:
        names = matching_names(causes, a.only)
    except ValueError as error:
        parser.error(str(error))
    if a.first:
        names = first_of_each(causes, names)
    made = [name for name in names if not why_not(causes[name])]
    runs = plan(causes, made, a.repeat, a.seed, a.seconds, background=a.background)
    folder = a.results or (Path(tempfile.mkdtemp(prefix="scenario-results-")) if a.only else RESULTS)
    if a.list:
        done = Results.done_in(folder) if a.resume else frozenset()
        print(listed(causes, names, [run for run in runs if run.file not in done]))
        return 0
    settings = {"seed": a.seed, "seconds": a.seconds, "repeat": a.repeat, "background": a.background}
    try:
        results = Results(folder, settings, resume=a.resume)
    except OtherPlanError as error:
        parser.error(str(error))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    for name in names:
        if name not in made:
            print(f"skip  {name}: {why_not(causes[name])}", flush=True)
    left = [run for run in runs if not results.done(run)]
    print(f"{len(left)} of {len(runs)} runs to do, about {estimate_s(left) / 60:.0f} minutes, in {folder}", flush=True)
    cleared = clear_dead()
    if cleared:
        print(f"cleared away what {cleared} killed runs left", flush=True)
    complete = False
    try:
        complete = play_all(left, causes, results, a.until)
    except KeyboardInterrupt:
        print("interrupted; --resume continues", flush=True)
    records = results.all()
    if not any("rows" in record for record in records):
        return 2
    print(summary(records))
    if a.write:
        which = ["--first"] if a.first else []
        words = ["python", "-m", "tests.scenarios.run", *which, "--repeat", str(a.repeat), "--seed", str(a.seed)]
        DOCUMENT.write_text(document(records, shlex.join(words)))
    return 0 if complete and figures(scored(records)).top1 == 1.0 else 1


if __name__ == "__main__":
    sys.exit(main())
