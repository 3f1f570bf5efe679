"""Runs real stacks and scores the verdicts: ``python -m tests.scenarios.stacks.run [--only WORD] [--seconds 40]``.

Run it as root on a machine that does nothing else, after ``python -m tests.scenarios.stacks.install``. --only selects
the cases whose name contains the word, or whose stack, cause or class is the word. --list lists the cases, --again
judges existing recordings with the current code, and --write writes docs/stacks.md. --unseen does this with the stacks
that no rule was made with, --held-out with those that came after them, and --fed with healthy trainers only; each has
its own page. --as-user runs trainer and recorder as a user without root, from whom the kernel hides system calls.
"""

from __future__ import annotations

import argparse
import datetime
import json
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.rigs.nvml.c_library import build, why_no_library
from tests.rigs.slowdisk import why_no_fuse_disk
from tests.scenarios.causes_network import why_no_link
from tests.scenarios.place import clear_dead
from tests.scenarios.play import REPO
from tests.scenarios.run import moment
from tests.scenarios.stacks.case import Case
from tests.scenarios.stacks.cases import CASES
from tests.scenarios.stacks.fed import FED
from tests.scenarios.stacks.held_out import HELD_OUT
from tests.scenarios.stacks.install import why_no_stack
from tests.scenarios.stacks.play import diagnosis_of, play
from tests.scenarios.stacks.report import (
    AS_USER_PAGE,
    FED_PAGE,
    HELD_OUT_PAGE,
    KNOWN,
    UNSEEN_PAGE,
    Page,
    document,
    line,
    summary,
)
from tests.scenarios.stacks.score import Scored, scored
from tests.scenarios.stacks.unseen import UNSEEN

RESULTS = REPO / "tests/scenarios/stacks/results"
AS_USER = "--as-user"
"""The set that has the cases of the first set, and the same names, so its results are kept apart."""
SETS: dict[str, tuple[Mapping[str, Case], Page, Path]] = {
    "": (CASES, KNOWN, REPO / "docs/stacks.md"),
    "--unseen": (UNSEEN, UNSEEN_PAGE, REPO / "docs/stacks-unseen.md"),
    "--held-out": (HELD_OUT, HELD_OUT_PAGE, REPO / "docs/stacks-held-out.md"),
    "--fed": (FED, FED_PAGE, REPO / "docs/stacks-fed.md"),
    AS_USER: (CASES, AS_USER_PAGE, REPO / "docs/stacks-as-user.md"),
}
"""For each set of cases by its option: the cases, what their page says, and its path."""
AROUND_S = 35
"""The seconds that a run needs besides being watched: to write its data, to import, and to find its step."""
CAUSES = {name: case.cause for cases, _, _ in SETS.values() for name, case in cases.items()}


def why_not(case: Case) -> str:
    """Return why this machine cannot make the case; "" when it can."""
    return why_no_stack(case.stack) or why_no_fuse_disk() or why_no_library() or why_no_link()


def matching_cases(only: Sequence[str] | None, cases: Mapping[str, Case] = CASES) -> dict[str, Case]:
    """Return the cases that the words select (--only). Raises ValueError for a word that selects none."""
    out = {}
    for word in only or [""]:
        found = {n: c for n, c in cases.items() if word in n or word in (c.stack, c.cause.name, c.cause.label)}
        if not found:
            raise ValueError(f"no case has {word!r} in its name; --list lists them")
        out |= found
    return {name: case for name, case in cases.items() if name in out}


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name.replace(' ', '_')}.json"


def results(folder: Path, cases: Mapping[str, Case]) -> tuple[list[Scored], list[str]]:
    """Return every run of these cases in their order, and the reasons why others have no result."""
    records: list[dict[str, Any]] = [
        json.loads(path.read_text()) for path in (_file(folder, name) for name in cases) if path.exists()
    ]
    missing = cases.keys() - {record["name"] for record in records}
    failed = [f"{r['name']}: {r['error']}" for r in records if "error" in r]
    return scored(records, CAUSES), failed + [f"{name}: not run" for name in cases if name in missing]


def play_all(cases: Mapping[str, Case], a: argparse.Namespace) -> None:
    """Play the cases, or judge their recordings again. Each result is written to a separate file.

    A recording that cannot be judged again keeps its earlier result.
    """
    with tempfile.TemporaryDirectory(prefix="nvml-") as place:
        library = build(Path(place))
        for count, (name, case) in enumerate(cases.items(), 1):
            target = _file(a.results, name)
            ends = datetime.datetime.now() + datetime.timedelta(seconds=a.seconds + AROUND_S)
            if a.until is not None and ends > a.until:
                print(f"stopped before {name}", flush=True)
                return
            try:
                record = (
                    diagnosed_again(a.results, name)
                    if a.again
                    else play(name, case, a.seconds, library, a.results, as_user=a.set == AS_USER)
                )
            except (OSError, RuntimeError, subprocess.SubprocessError) as error:
                print(f"FAILED {name}: {error}", flush=True)
                if a.again:
                    continue
                record = {"name": name, "error": str(error)}
            target.write_text(json.dumps(record) + "\n")
            for run in scored([record], CAUSES):
                print(f"[{count}/{len(cases)}] {line(run)}", flush=True)


def diagnosed_again(folder: Path, name: str) -> dict[str, Any]:
    """Return the record of a run whose recording is judged again by the current code."""
    record: dict[str, Any] = json.loads(_file(folder, name).read_text())
    if "error" in record:
        raise RuntimeError(record["error"])
    stem = name.replace(" ", "_")
    rows = [json.loads(row) for row in (folder / f"{stem}.truth.jsonl").read_text().splitlines()]
    pid = max(row["ranks"][0]["pid"] for row in rows if row["ranks"][0] is not None)
    return {**record, **diagnosis_of(folder / f"{stem}.iotop.jsonl", pid, rows)}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="WORD", help="may be repeated")
    parser.add_argument("--seconds", type=int, default=40, help="how long each trainer is watched")
    parser.add_argument("--until", type=moment, metavar="HH:MM", help="begin no run that would end later")
    parser.add_argument("--results", type=Path, help=f"default {RESULTS.relative_to(REPO)}, with {AS_USER} beside it")
    parser.add_argument("--again", action="store_true", help="judge the recordings in the results, make none")
    parser.add_argument("--list", action="store_true")
    sets = parser.add_mutually_exclusive_group()
    for option, text in (
        ("--unseen", "the stacks that no rule was made with"),
        ("--held-out", "the stacks that came after those"),
        ("--fed", "healthy trainers only"),
        (AS_USER, "the first set again, without root"),
    ):
        sets.add_argument(option, action="store_const", dest="set", const=option, default="", help=text)
    parser.add_argument("--write", action="store_true", help="write the page in docs/ from all results")
    a = parser.parse_args(argv)
    every, page, path = SETS[a.set]
    a.results = a.results or (RESULTS.with_name("results-as-user") if a.set == AS_USER else RESULTS)
    try:
        cases = matching_cases(a.only, every)
    except ValueError as error:
        parser.error(str(error))
    if a.list:
        for name, case in cases.items():
            print(f"{name:26} {case.cause.name:24} {case.cause.label:16} {why_not(case)}".rstrip())
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    clear_dead()
    a.results.mkdir(parents=True, exist_ok=True)
    playable = {name: case for name, case in cases.items() if not why_not(case)}
    if a.again:
        playable = {name: case for name, case in cases.items() if _file(a.results, name).exists()}
    for name in cases.keys() - playable.keys():
        print(f"skip  {name}: {why_not(cases[name]) or 'no result'}", flush=True)
    try:
        play_all(playable, a)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    runs, failed = results(a.results, every)
    print("\n".join([*summary(runs), *failed]))
    if a.write:
        words = ["python", "-m", "tests.scenarios.stacks.run", *([a.set] if a.set else [])]
        command = shlex.join([*words, "--seconds", str(a.seconds)])
        path.write_text(document(runs, failed, command, page))
    return 0 if runs and all(run.result in ("right", "acceptable") for run in runs) else 1


if __name__ == "__main__":
    sys.exit(main())
