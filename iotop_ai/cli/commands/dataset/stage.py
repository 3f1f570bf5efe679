"""``iotop-ai stage SRC DST``: copy a dataset to faster storage. It plans, measures, copies and verifies."""

from __future__ import annotations

import argparse
import json
import os
import sys

from iotop_ai.actions.audit import Audit
from iotop_ai.actions.cache.sync import sync_filesystem_of
from iotop_ai.actions.outcome import Outcome, audited
from iotop_ai.actions.stage.copy import WHY_NOT_ROOT, copy_by_ourselves, copy_by_rsync, find_rsync
from iotop_ai.actions.stage.ends import resolve_ends
from iotop_ai.actions.stage.plan import plan
from iotop_ai.actions.stage.same_disk import same_disk
from iotop_ai.actions.stage.speed import measure
from iotop_ai.actions.stage.verify import verify
from iotop_ai.cli.config.common import READ_ONLY
from iotop_ai.cli.options.common import settings_of
from iotop_ai.cli.prompt import Progress, confirm, mark_everywhere
from iotop_ai.cli.stderr import print_notice
from iotop_ai.cli.stdout import print_lines, print_path
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import InputError, IotopError, NotDoneError, UnknownError, UsageError
from iotop_ai.model.machine.staging import Plan, Speed, Verified
from iotop_ai.present.machine import staging as stage
from iotop_ai.present.text.units import amount, plural

FINE, PROBLEM = 0, 1
"""The exit codes."""
WORD = "copy"
"""The word that the user types to confirm."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``stage``."""
    parser.add_argument("source", metavar="SRC", help="the folder or file to copy")
    parser.add_argument("folder", metavar="DST", help="the folder for the copy, which keeps the source's name")
    parser.add_argument("--dry-run", action="store_true", help="plan and measure, but copy nothing")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    parser.add_argument("--quick", action="store_true", help="verify the content of a sample instead of every file")
    parser.add_argument("--no-measure", action="store_true", help="do not measure whether the target is faster")
    parser.add_argument(
        "--anyway", action="store_true", help="copy even if the target is not faster or is on the source's disk"
    )
    parser.add_argument("--update", action="store_true", help="replace files and links in the target that differ")
    parser.add_argument(
        "--by",
        choices=("auto", "rsync", "own"),
        default="auto",
        help="copy with rsync or with our own code (default: rsync if installed; own for root)",
    )
    parser.add_argument(
        "--json", action="store_true", default=argparse.SUPPRESS, help="print a JSON object instead of the new path"
    )


def run(args: argparse.Namespace) -> int:
    """Copy the dataset; print nothing but the new path (with --json, an object) to stdout. Return the exit code.

    0: the dataset is copied and verified, or a dry run found no reason to refuse the copy. 1: the copy is refused (no
    room, not faster, other files in the way), or it differs from the source. 2: the copy failed or was not confirmed.
    """
    if settings_of(args).readonly:
        raise UsageError(f"{READ_ONLY} does not allow staging")
    command = Stage(args)
    try:
        return command.run()
    finally:
        command.close()


class Stage:
    """One run of ``iotop-ai stage``."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._clock = Clock()
        self._root = Root("/")
        own = args.by == "own" or (args.by == "auto" and os.geteuid() == 0)
        self._rsync = "" if own else find_rsync()
        if args.by == "rsync" and os.geteuid() == 0:
            raise UsageError(f"--by rsync is not for root: {WHY_NOT_ROOT}")
        if args.by == "rsync" and not self._rsync:
            raise UnknownError("rsync is not installed; --by own copies without it")
        self._ends = resolve_ends(args.source, args.folder)
        self._plan = Plan("", "")
        self._sample: list[tuple[str, int]] = []
        self._speed: Speed | None = None

    def close(self) -> None:
        """Close the source and the target."""
        self._ends.close()

    def run(self) -> int:
        """Plan, measure, copy and verify; return the exit code."""
        self._plan_and_measure()
        why = stage.refusal(self._plan, self._speed, update=self._args.update, anyway=self._args.anyway)
        if why:
            self._report(None, why)
            print_notice(f"not copied: {why}")
            return PROBLEM
        if self._args.dry_run:
            self._report(None, "")
            return FINE
        # If the source is an empty folder, no file or link is left to copy, but the target folder may be missing.
        is_complete = not (self._plan.left_files or self._plan.left_links) and os.path.lexists(self._ends.target)
        if not confirm(WORD, self._args.yes or is_complete):
            raise NotDoneError("not confirmed")
        errors: list[IotopError] = []

        def act() -> Outcome:
            try:
                self._copy()
            except IotopError as error:
                errors.append(error)
                return Outcome(False, f"not done: {error}")
            links = f", {plural(self._plan.left_links, 'link')}" if self._plan.left_links else ""
            files = plural(self._plan.left_files, "file")
            return Outcome(True, f"copied: {files}, {self._plan.left_bytes} B{links}")

        where = f"{clean(self._ends.source)} -> {clean(self._ends.target)}"
        outcome = audited(Audit(self._clock), "stage", where, act)
        if not outcome.done:
            raise errors[0] if errors else NotDoneError(outcome.text)
        verified = self._verify()
        print_notice(stage.verified_text(verified))
        self._report(verified, "")
        if verified.wrong:
            return PROBLEM
        mark_everywhere(f"staged {amount(self._plan.size_bytes)}: {where}")
        return FINE

    def _plan_and_measure(self) -> None:
        with Progress(self._clock) as show:
            try:
                self._plan, self._sample = plan(
                    self._ends,
                    self._root,
                    lambda files, size: show(f"scanning: {plural(files, 'file')}, {amount(size)} ..."),
                )
            except OSError as error:
                raise InputError(f"{clean(str(error.filename or self._ends.source))}: {error.strerror}") from None
            self._print(stage.plan_text(self._plan))
            if self._args.no_measure or not self._plan.left_bytes or self._plan.fits is False:
                return
            self._plan = self._plan._replace(same_disk=same_disk(self._ends, self._root, self._clock))
            if self._plan.same_disk and not self._args.anyway:
                return
            show("measuring both ends, a few seconds ...", now=True)
            ends, room = self._ends, self._plan.room_bytes
            self._speed = measure(ends.pinned, self._sample, ends.folder, room, self._clock)
        self._print(stage.speed_text(self._speed, self._plan))

    def _copy(self) -> None:
        total_bytes = self._plan.left_bytes
        start_ns = self._clock.monotonic_ns()
        with Progress(self._clock) as show:

            def show_copied(copied: int) -> None:
                show(stage.progress_text("copying", copied, total_bytes, (self._clock.monotonic_ns() - start_ns) / 1e9))

            try:
                if self._rsync:
                    copy_by_rsync(self._rsync, self._ends, show_copied)
                else:
                    copy_by_ourselves(self._ends, show_copied)
                show("flushing to the disk ...", now=True)
                sync_filesystem_of(self._ends.folder)
            except KeyboardInterrupt:
                print_notice("interrupted: the same command resumes the copy")
                raise
            except OSError as error:
                raise UnknownError(f"{clean(str(error.filename or self._ends.target))}: {error.strerror}") from None

    def _verify(self) -> Verified:
        start_ns = self._clock.monotonic_ns()
        total_bytes = self._plan.size_bytes if not self._args.quick else sum(size for _, size in self._sample)
        with Progress(self._clock) as show:

            def show_checked(checked: int) -> None:
                seconds = (self._clock.monotonic_ns() - start_ns) / 1e9
                show(stage.progress_text("verifying", checked, total_bytes, seconds))

            try:
                return verify(self._ends, self._sample if self._args.quick else None, show_checked)
            except OSError as error:  # the message omits the error's path, which is relative to one of the two ends
                again = "run the same command again to verify it"
                raise UnknownError(f"{clean(self._ends.target)}: not verified: {error.strerror}; {again}") from None

    def _print(self, lines: list[str]) -> None:
        """Print the lines to stderr, in place of the progress line."""
        erase = "\r\x1b[K" if sys.stderr is not None and sys.stderr.isatty() else ""
        print_notice(erase + "\n".join(lines))

    def _report(self, verified: Verified | None, refused: str) -> None:
        """Print the new path to stdout if the copy is correct; with --json, always print the JSON object instead."""
        if self._args.json:
            speed = None if self._speed is None else self._speed._asdict()
            verified_fields = None if verified is None else verified._asdict()
            out = {"plan": self._plan._asdict(), "fits": self._plan.fits, "speed": speed, "verified": verified_fields}
            path = None if verified is None else self._ends.target
            print_lines([json.dumps({**out, "refused": refused or None, "path": path})])
        elif verified is not None and not verified.wrong:
            print_path(self._ends.target)
