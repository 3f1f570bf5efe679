"""``iotop-ai stage SRC DST``: copy a dataset to where it is read faster; planned, measured, verified."""

from __future__ import annotations

import argparse
import json
import os
import sys

from iotop_ai.actions.audit import Audit
from iotop_ai.actions.outcome import Outcome, audited
from iotop_ai.actions.stage_copy import copy_by_ourselves, copy_by_rsync, find_rsync, sync_filesystem
from iotop_ai.actions.stage_plan import places, plan
from iotop_ai.actions.stage_speed import measure
from iotop_ai.actions.stage_verify import verify
from iotop_ai.cli.ask import Progress, confirm, mark_everywhere
from iotop_ai.cli.options import settings_of
from iotop_ai.collectors.clock import Clock
from iotop_ai.collectors.root import Root
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import InputError, IotopError, UnknownError, UsageError
from iotop_ai.model.stage import Plan, Speed, Verified
from iotop_ai.present import stage
from iotop_ai.present.units import amount

FINE, PROBLEM = 0, 1
WORD = "copy"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of ``stage``."""
    parser.add_argument("source", metavar="SRC", help="the folder or file to copy")
    parser.add_argument("folder", metavar="DST", help="the folder that gets the copy, under the source's name")
    parser.add_argument("--dry-run", action="store_true", help="plan and measure, copy nothing")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--quick", action="store_true", help="verify the content of a sample, not of every file")
    parser.add_argument("--no-measure", action="store_true", help="do not measure whether the target is faster")
    parser.add_argument("--anyway", action="store_true", help="copy also where the target is not faster")
    parser.add_argument("--update", action="store_true", help="replace files of the target that differ")
    parser.add_argument("--by", choices=("auto", "rsync", "own"), default="auto", help="what copies (default: rsync)")
    parser.add_argument("--json", action="store_true", help="a JSON object instead of the new path")


def run(args: argparse.Namespace) -> int:
    """0 copied and verified; 1 it does not fit, is not faster or differs; 2 not done. Prints the new path alone."""
    if settings_of(args).readonly:
        raise UsageError("read-only (--readonly or the settings) allows no staging")
    return Stage(args).run()


class Stage:
    """One run of the command."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._clock = Clock()
        self._root = Root("/")
        self._rsync = find_rsync() if args.by != "own" else ""
        if args.by == "rsync" and not self._rsync:
            raise UnknownError("rsync is not installed; --by own copies without it")
        self._source, self._target = places(args.source, args.folder)
        self._plan = Plan("", "")
        self._sample: list[tuple[str, int]] = []
        self._speed: Speed | None = None

    def run(self) -> int:
        """The exit code."""
        self._look()
        why = stage.refusal(self._plan, self._speed, update=self._args.update, anyway=self._args.anyway)
        if why:
            self._report(None, why)
            print(f"not copied: {why}", file=sys.stderr)
            return PROBLEM
        if self._args.dry_run:
            self._report(None, "")
            return FINE
        if not confirm(WORD, self._args.yes or not self._plan.left_files):
            raise UnknownError("not done: not confirmed")
        failed: list[IotopError] = []

        def act() -> Outcome:
            try:
                self._copy()
            except IotopError as error:
                failed.append(error)
                return Outcome(False, f"not done: {error}")
            return Outcome(True, f"copied: {self._plan.left_files} files, {self._plan.left_bytes} B")

        where = f"{clean(self._source)} -> {clean(self._target)}"
        outcome = audited(Audit(self._clock), "stage", where, act)
        if not outcome.done:
            raise failed[0] if failed else UnknownError(outcome.text)
        done = self._verify()
        print(stage.verified_text(done), file=sys.stderr)
        self._report(done, "")
        if done.wrong:
            return PROBLEM
        mark_everywhere(f"staged {amount(self._plan.size_bytes)}: {where}")
        return FINE

    def _look(self) -> None:
        with Progress(self._clock) as tell:
            try:
                self._plan, self._sample = plan(
                    self._source,
                    self._target,
                    self._root,
                    lambda files, size: tell(f"looking: {files} files, {amount(size)} ..."),
                )
            except OSError as error:
                raise InputError(f"{clean(str(error.filename or self._source))}: {error.strerror}") from None
            self._say(stage.plan_text(self._plan))
            if self._args.no_measure or not self._plan.left_bytes or self._plan.fits is False:
                return
            tell("measuring both, a few seconds ...", now=True)
            folder = os.path.dirname(self._target)
            self._speed = measure(self._source, self._sample, folder, self._plan.room_bytes, self._clock)
        self._say(stage.speed_text(self._speed, self._plan))

    def _copy(self) -> None:
        whole = self._plan.left_bytes
        begun = self._clock.monotonic_ns()
        with Progress(self._clock) as tell:

            def told(done: int) -> None:
                tell(stage.progress_text("copying", done, whole, (self._clock.monotonic_ns() - begun) / 1e9))

            try:
                if self._rsync:
                    copy_by_rsync(self._rsync, self._source, self._target, told)
                else:
                    copy_by_ourselves(self._source, self._target, told)
                tell("writing it out to the disk ...", now=True)
                sync_filesystem(os.path.dirname(self._target))
            except KeyboardInterrupt:
                print("interrupted: the same command goes on where it was", file=sys.stderr)
                raise
            except OSError as error:
                raise UnknownError(f"{clean(str(error.filename or self._target))}: {error.strerror}") from None

    def _verify(self) -> Verified:
        begun = self._clock.monotonic_ns()
        whole = self._plan.size_bytes if not self._args.quick else sum(size for _, size in self._sample)
        with Progress(self._clock) as tell:
            return verify(
                self._source,
                self._target,
                self._sample if self._args.quick else None,
                lambda done: tell(
                    stage.progress_text("verifying", done, whole, (self._clock.monotonic_ns() - begun) / 1e9)
                ),
            )

    def _say(self, lines: list[str]) -> None:
        print("\r\x1b[K" * sys.stderr.isatty() + "\n".join(lines), file=sys.stderr)

    def _report(self, done: Verified | None, refused: str) -> None:
        """Standard output: the new path when there is one, or the object."""
        if self._args.json:
            speed = None if self._speed is None else self._speed._asdict()
            verified = None if done is None else done._asdict()
            said = {"plan": self._plan._asdict(), "fits": self._plan.fits, "speed": speed, "verified": verified}
            print(json.dumps({**said, "refused": refused or None, "path": clean(self._target) if done else None}))
        elif done is not None and not done.wrong:
            print(clean(self._target))
