"""``iotop-ai ack``: take note of a finding that never clears by itself; it is silent until it gets worse."""

from __future__ import annotations

import argparse

from iotop_ai.cli.options import add_source_flags, settings_of
from iotop_ai.cli.snapshot import take_frame
from iotop_ai.cli.verdict import lines_out, say
from iotop_ai.collectors.acknowledged import Acknowledged
from iotop_ai.collectors.clock import Clock
from iotop_ai.collectors.state_folder import state_folder
from iotop_ai.diagnosis.acknowledge import identity, value_of, worse
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import InputError, UnknownError, UsageError
from iotop_ai.model.finding import Finding
from iotop_ai.model.frame import Frame
from iotop_ai.present.finding import headline_of, text_of
from iotop_ai.sources.live import LiveSource


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of ``ack``."""
    parser.add_argument(
        "id", metavar="ID", nargs="?", help="what the list says, a disk's name or serial number, or a GPU's UUID"
    )
    parser.add_argument("--undo", action="store_true", help="speak of it again")
    add_source_flags(parser, sub=True)


def run(args: argparse.Namespace) -> int:
    """Without ID list what is and what could be acknowledged."""
    kept = Acknowledged(state_folder())
    try:
        known = kept.read()
        if args.undo:
            return _undo(kept, known, args.id)
        say("reading what disks and GPUs say of themselves ...")
        frame = take_frame(LiveSource(settings_of(args)._replace(devices=(), path="")))
        found = lasting(frame)
        if args.id is None:
            lines_out(_listed(found, known))
            return 0
        name = named(args.id, found)
        kept.add(name, value_of(found[name]), Clock().wall_ns() // 10**9)
    except ValueError as error:
        raise InputError(f"{kept.path}: {error}; remove it to begin anew") from None
    except OSError as error:
        raise UnknownError(f"{kept.path}: {error.strerror}") from None
    lines_out([f"{name} is acknowledged; it is silent until it gets worse (iotop-ai ack --undo {name})"])
    return 0


def lasting(frame: Frame) -> dict[str, Finding]:
    """What is on now and never clears by itself, by identity, acknowledged or not."""
    found = (held.finding for held in frame.carry.held.values())
    return {name: one for one in found if (name := identity(one, frame.snapshot))}


def named(typed: str, found: dict[str, Finding]) -> str:
    """The identity that is meant. Raises UsageError for none, naming what there is."""
    plain = typed.removeprefix("/dev/")
    for name, one in found.items():
        if plain in (name, name.partition(":")[2], one.subject):
            return name
    there = ", ".join(found) or "nothing now (SMART may need root)"
    raise UsageError(f"{clean(typed)!r} is no finding that lasts; there is {there}")


def _undo(kept: Acknowledged, known: dict[str, str], typed: str | None) -> int:
    if typed is None:
        raise UsageError("--undo needs an ID; iotop-ai ack lists them")
    name = next((name for name in known if typed in (name, name.partition(":")[2])), typed)
    if not kept.remove(name):
        raise UsageError(f"{clean(typed)!r} is not acknowledged; {', '.join(known) or 'nothing'} is")
    lines_out([f"{name} is spoken of again"])
    return 0


def _listed(found: dict[str, Finding], known: dict[str, str]) -> list[str]:
    out = []
    for name, one in found.items():
        value = known.get(name)
        word = "open" if value is None else "worse" if worse(one, value) else "acknowledged"
        out.append(f"{word:<13} {name}  {text_of(headline_of(one))}")
    out += [f"{'acknowledged':<13} {name}  not seen now" for name in known if name not in found]
    return out or ["nothing that lasts: no failing disk or GPU is seen"]
