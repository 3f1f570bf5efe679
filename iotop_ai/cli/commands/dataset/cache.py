"""``iotop-ai cache``: show how much of a dataset is in the page cache, evict it, or drop the host's caches."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

from iotop_ai.actions.audit import Audit
from iotop_ai.actions.cache.drop import drop_caches, wait_s
from iotop_ai.actions.cache.evict import evict
from iotop_ai.actions.kernel_switch import DROP_CACHES, permission_to
from iotop_ai.cli.config.common import READ_ONLY
from iotop_ai.cli.options.common import settings_of
from iotop_ai.cli.prompt import Progress, confirm, mark_everywhere
from iotop_ai.cli.stderr import print_notice
from iotop_ai.cli.stdout import print_lines
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.machine.page_cache import (
    PageCache,
    measure_cached,
    read_levels,
    read_memory_room,
    room_for_data,
)
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import InputError, NotDoneError, UsageError
from iotop_ai.model.machine.page_cache import CACHES
from iotop_ai.model.settings import Settings
from iotop_ai.present.machine import caches
from iotop_ai.present.text.units import amount, plural
from iotop_ai.sources.live.source import LiveSource

FINE, PROBLEM, NO_ANSWER = 0, 1, 2
"""The exit codes."""
GPU_WAIT_S = 2.0
"""The longest wait for the GPUs, whose processes show which jobs run, in seconds."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``cache``."""
    actions = parser.add_subparsers(dest="cache", metavar="status|evict|drop", required=True)
    status = actions.add_parser("status", help="how much of PATH is in memory, and whether it fits", allow_abbrev=False)
    status.add_argument("path", metavar="PATH", help="a folder or a file")
    evict_parser = actions.add_parser("evict", help="evict PATH from the page cache, without root", allow_abbrev=False)
    evict_parser.add_argument("path", metavar="PATH", help="a folder or a file")
    drop = actions.add_parser(
        "drop", help="drop the host's caches, for timing a cold start; needs root", allow_abbrev=False
    )
    drop.add_argument(
        "--level",
        type=int,
        choices=sorted(CACHES),
        default=1,
        help="1 page cache (default), 2 dentries and inodes, 3 both",
    )
    drop.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    for action_parser in (status, evict_parser, drop):
        action_parser.add_argument(
            "--json", action="store_true", default=argparse.SUPPRESS, help="print a JSON object instead of text"
        )


def run(args: argparse.Namespace) -> int:
    """Show, evict or drop; return the exit code.

    0: the work is done, or the dataset fits into memory. 1: part of the dataset stayed in memory, was unreadable or is
    on another filesystem, or the dataset does not fit. 2: the work was not done, or the answer is unknown.
    """
    settings = settings_of(args)
    if args.cache == "status":
        return _status(args)
    if settings.readonly:
        raise UsageError(f"{READ_ONLY} does not allow cache {args.cache}")
    return _evict(args) if args.cache == "evict" else _drop(args, settings)


def _status(args: argparse.Namespace) -> int:
    root = Root("/")
    with Progress() as show:
        try:
            cached = measure_cached(
                args.path, PageCache(), lambda c: show(f"{plural(c.files, 'file')}, {amount(c.size_bytes)} ...")
            )
        except OSError as error:
            raise InputError(f"{clean(args.path)}: {error.strerror}") from None
    room = room_for_data(read_levels(root), read_memory_room(root))
    fits = caches.fits_in_memory(cached, room)
    if args.json:
        _json({**cached._asdict(), "resident_ratio": cached.resident_ratio, "room_bytes": room, "fits": fits})
    else:
        print_lines(caches.cached_text(cached, room))
    if fits is False:
        return PROBLEM
    return NO_ANSWER if fits is None or (cached.files and cached.unknown_files == cached.files) else FINE


def _evict(args: argparse.Namespace) -> int:
    with Progress() as show:
        outcome, evicted = evict(
            args.path,
            Audit(Clock()),
            PageCache(),
            lambda e: show(f"{plural(e.files, 'file')}, {amount(e.size_bytes)} ..."),
        )
    if evicted is None:
        raise NotDoneError(outcome.text)
    if args.json:
        _json(evicted._asdict())
    else:
        gaps = caches.gaps_text(evicted.unreadable, evicted.first_unreadable, evicted.elsewhere, evicted.unknown_files)
        print_lines([caches.evicted_text(evicted), *gaps])
    if evicted.files:
        mark_everywhere(caches.evicted_text(evicted))
    if (evicted.files or evicted.unreadable) and evicted.unknown_files == evicted.files:
        return NO_ANSWER
    if evicted.after_bytes or evicted.unreadable or evicted.elsewhere:
        return PROBLEM
    return NO_ANSWER if evicted.unknown_files else FINE


def _drop(args: argparse.Namespace, settings: Settings) -> int:
    root, clock = Root("/"), Clock()
    permission = permission_to(DROP_CACHES, root, str(args.level))
    if not permission.how:
        other = "'iotop-ai cache evict PATH' evicts one dataset without root"
        raise NotDoneError(f"{permission.reason}; remedy: {permission.remedy}; {other}")
    wait = wait_s(root, clock)
    if wait > 0:
        raise NotDoneError(f"the last drop was less than a minute ago; wait {wait:.0f} s")
    if not args.yes or (sys.stderr is not None and sys.stderr.isatty()):
        levels = read_levels(root)
        lines = [
            f"This drops {caches.level_text(args.level, levels)}, "
            + ("by sudo" if permission.how == "sudo" else "as root")
            + f". {caches.sync_text(levels.dirty_bytes)}",
            f"Cost: {caches.COST}.",
            _running_jobs(settings),
        ]
        print_notice("\n".join(lines))
    if not confirm(caches.WORD, args.yes):
        raise NotDoneError("not confirmed")
    with Progress(clock) as show:
        dropped = drop_caches(args.level, root, clock, Audit(clock), lambda step: show(caches.STEPS[step], now=True))
    effect = dropped.effect
    if effect is None or not dropped.outcome.done:
        remedy = f"; remedy: {dropped.outcome.remedy}" if dropped.outcome.remedy else ""
        raise NotDoneError(dropped.outcome.text + remedy)
    if args.json:
        _json(
            {
                "level": effect.level,
                "before": effect.before._asdict(),
                "after": effect.after._asdict(),
                "sync_s": round(effect.sync_s, 3),
                "drop_s": round(effect.drop_s, 3),
            }
        )
    else:
        rows = [f"{name:<13}{old:>9} -> {new:>7}" for name, old, new in caches.effect_rows(effect)]
        print_lines([f"{CACHES[effect.level]} dropped {caches.took_text(effect)}", *rows])
    mark_everywhere(caches.effect_text(effect))
    return FINE


def _running_jobs(settings: Settings) -> str:
    """Return one line about the jobs that run on this host now."""
    source = LiveSource(settings._replace(smart=False))
    try:
        source.wait_gpu(GPU_WAIT_S)
        return caches.running_text(source.snapshot(), os.geteuid())
    finally:
        source.close()


def _json(value: dict[str, Any]) -> None:
    print_lines([json.dumps(value)])
