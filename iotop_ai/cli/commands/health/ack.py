"""``iotop-ai ack``: acknowledge a finding that never clears by itself, until it gets worse."""

from __future__ import annotations

import argparse

from iotop_ai.cli.commands.common_verdict import print_status
from iotop_ai.cli.commands.snapshot import take_frame
from iotop_ai.cli.options.common import add_source_flags, settings_of
from iotop_ai.cli.stdout import print_lines
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.with_timeout import HOME_TIMEOUT_S, call_with_timeout
from iotop_ai.collectors.state.acknowledged import Acknowledged
from iotop_ai.collectors.state.folder import state_folder
from iotop_ai.diagnosis.verdict.acknowledge import DEATH, identity, is_worse, value_of
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import InputError, UnknownError, UsageError
from iotop_ai.model.finding import Finding
from iotop_ai.model.frame import Frame
from iotop_ai.present.verdict.headline import headline_of, text_of
from iotop_ai.sources.live.source import LiveSource


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``ack``."""
    parser.add_argument(
        "id", metavar="ID", nargs="?", help="an ID from the list, a disk's name or serial number, or a GPU's UUID"
    )
    parser.add_argument("--undo", action="store_true", help="withdraw the acknowledgement")
    add_source_flags(parser, sub=True)


def run(args: argparse.Namespace) -> int:
    """Acknowledge a finding, withdraw an acknowledgement, or list the acknowledged and the open findings; return 0."""
    store = Acknowledged(state_folder())
    try:
        acknowledged = call_with_timeout(HOME_TIMEOUT_S, store.path, store.read)
        if args.undo:
            return _undo(store, acknowledged, args)
        findings = _findings_now(args)
        if args.id is None:
            print_lines(_list_lines(findings, acknowledged))
            return 0
        name = matching_id(args.id, findings)
        value, wall_s = value_of(findings[name]), Clock().wall_ns() // 10**9
        call_with_timeout(HOME_TIMEOUT_S, store.path, lambda: store.add(name, value, wall_s))
    except ValueError as error:
        raise InputError(f"{store.path}: {error}; remove the file to start afresh") from None
    except OSError as error:
        raise UnknownError(f"{store.path}: {error.strerror}") from None
    print_lines([f"acknowledged {name} until it gets worse (undo: iotop-ai ack --undo {name})"])
    return 0


def _findings_now(args: argparse.Namespace) -> dict[str, Finding]:
    print_status("reading the health of disks and GPUs ...")
    return lasting_findings(take_frame(LiveSource(settings_of(args)._replace(devices=(), path=""))))


def lasting_findings(frame: Frame) -> dict[str, Finding]:
    """Return the active findings that never clear by themselves, acknowledged or not, by their identity."""
    active = (held.finding for held in frame.carry.held.values())
    return {name: finding for finding in active if (name := identity(finding, frame.snapshot))}


def matching_id(word: str, findings: dict[str, Finding]) -> str:
    """Return the identity of the finding that the word names. Raises UsageError when it names none."""
    plain = word.removeprefix("/dev/")
    for name, finding in findings.items():
        if plain in (name, name.partition(":")[2], finding.subject):
            return name
    ids = ", ".join(findings) or "none now (SMART may need root)"
    raise UsageError(f"{clean(word)!r} is not a finding to acknowledge; findings: {ids}")


def _undo(store: Acknowledged, acknowledged: dict[str, str], args: argparse.Namespace) -> int:
    word = args.id
    if word is None:
        raise UsageError("--undo needs an ID; iotop-ai ack lists them")
    plain = word.removeprefix("/dev/")
    name = next((name for name in acknowledged if plain in (name, name.partition(":")[2])), "")
    if not name and acknowledged:  # only a current finding has the disk's name
        findings = _findings_now(args)
        name = next((name for name in acknowledged if name in findings and findings[name].subject == plain), "")
    if not store.remove(name):
        raise UsageError(f"{clean(word)!r} is not acknowledged; acknowledged: {', '.join(acknowledged) or 'none'}")
    print_lines([f"{name}: acknowledgement removed"])
    return 0


def _list_lines(findings: dict[str, Finding], acknowledged: dict[str, str]) -> list[str]:
    out = []
    for name, finding in findings.items():
        value = acknowledged.get(name)
        status = "open" if value is None else "worse" if is_worse(finding, value) else "acknowledged"
        out.append(f"{status:<13} {name}  {text_of(headline_of(finding))}")
    # The acknowledged death of a job is listed only while its finding is active: once cleared, it never comes back.
    past = [name for name in acknowledged if name not in findings and not name.startswith(f"{DEATH}:")]
    out += [f"{'acknowledged':<13} {name}  not active" for name in past]
    return out or ["no failing disk or GPU"]
