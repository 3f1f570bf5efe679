"""Starts or aborts a disk's self-test. The disk runs the test in the background and continues to serve I/O.

smartctl is run by a helper process, which can be killed if the disk does not answer.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from iotop_ai.actions.audit import Audit, user_name
from iotop_ai.actions.outcome import Outcome, audited
from iotop_ai.collectors.base import Unavailable
from iotop_ai.collectors.health.commands import TEST_COMMANDS, is_device, is_type, sudoers_line
from iotop_ai.collectors.health.helper_client import SmartProcess
from iotop_ai.collectors.health.json_access import integer, text
from iotop_ai.collectors.health.logs import too_old_for_nvme_tests
from iotop_ai.collectors.health.parse import messages_of, parse_json, parse_state, refusal
from iotop_ai.collectors.health.smartctl_path import find_smartctl
from iotop_ai.collectors.health.targets import read_identity
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.model.clean import clean
from iotop_ai.model.health.identity import DiskIdentity, answered_identity, replaced_disk_text
from iotop_ai.model.reading import Status

TIMEOUT_S = 20.0
_MOST_CALLS = 3
"""The maximum number of smartctl calls to read a disk: for JSON with and without sudo, then for text."""
SUCCESS_TEXTS = {"short": "short self-test begun", "long": "long self-test begun", "abort": "self-test aborted"}


class Target(NamedTuple):
    """The intended disk: its name, its device node, its type for ``smartctl -d``, and its identity."""

    name: str
    device: str
    device_type: str
    identity: DiskIdentity = DiskIdentity()


def self_test(
    command: str, target: Target, smartctl: str, clock: Clock, audit: Audit, live: bool = True, root: Root | None = None
) -> Outcome:
    """Send one of TEST_COMMANDS to a disk, unless another disk has its name now. Never raises.

    The check of the disk may take up to _MOST_CALLS times TIMEOUT_S, and the command up to twice TIMEOUT_S.

    smartctl: the path that the user named; "" for the system's smartctl. live: False for a captured machine (a copy of
    another machine's files), as in ``find_smartctl``. root: the machine whose sysfs is also checked for the disk's
    identity; None to check only what the disk itself reports.
    """
    action = f"self-test {command}"
    target_text = f"{target.name} ({target.device}, -d {target.device_type})"

    def act() -> Outcome:
        helper = SmartProcess(clock)
        try:
            return _check_and_send(helper, command, target, find_smartctl(smartctl, live), root)
        except Unavailable as error:
            return Outcome(False, clean(error.reason), clean(error.remedy))
        finally:
            helper.stop()

    return audited(audit, action, target_text, act)


def _check_and_send(helper: SmartProcess, command: str, target: Target, smartctl: str, root: Root | None) -> Outcome:
    """Send the command, unless the disk is known to be another one. Raises Unavailable if the disk does not answer.

    If the disk is replaced while the command runs, the outcome is a failure, since either disk may have received it.
    """

    def is_other_in_sysfs() -> bool:
        return root is not None and target.identity.is_other(read_identity(root, target.name))

    identity_known = any((target.identity.smart_model, target.identity.smart_serial, target.identity.smart_wwn))
    replaced = identity_known and target.identity.is_other(_reported_identity(helper, target, smartctl))
    if replaced or is_other_in_sysfs():  # sysfs is checked after the slow read, during which a disk may be replaced
        return Outcome(False, f"not done: {replaced_disk_text(target.name)}")
    outcome = _send(helper, command, target, smartctl)
    if is_other_in_sysfs():
        return Outcome(False, f"unknown whether it was done: {replaced_disk_text(target.name)}")
    return outcome


def _reported_identity(helper: SmartProcess, target: Target, smartctl: str) -> DiskIdentity:
    """Return the identity that the disk reports now. Raises Unavailable if the disk does not answer."""
    _require_valid(target)
    request = {"do": "read", "smartctl": smartctl, "timeout_s": TIMEOUT_S, "sudo": may_try_sudo()}
    response = helper.ask({**request, "device": target.device, "type": target.device_type}, _MOST_CALLS * TIMEOUT_S + 5)
    if response.get("timed_out"):
        raise Unavailable(Status.FAILED, f"smartctl did not answer within {TIMEOUT_S:g} s and was killed")
    answer, values = parse_json(str(response.get("out", ""))), response.get("pysmart_values")
    if answer is None and not values:
        stderr = clean(str(response.get("stderr", "")).strip(), 160) or "smartctl's answer is unreadable"
        raise Unavailable(Status.FAILED, stderr, "self-tests need smartctl 7.0 or newer")
    error = None if answer is None else refusal(answer, str(response.get("stderr", "")))
    if error is not None:
        raise error
    state = parse_state(answer, values if isinstance(values, dict) else None, target.device, target.device_type)
    return answered_identity(state)


def _require_valid(target: Target) -> None:
    if not (is_device(target.device) and is_type(target.device_type)):
        raise Unavailable(Status.UNSUPPORTED, "no such self-test or device")


def _send(helper: SmartProcess, command: str, target: Target, smartctl: str) -> Outcome:
    if command not in TEST_COMMANDS:
        raise Unavailable(Status.UNSUPPORTED, "no such self-test or device")
    _require_valid(target)
    request = {"do": command, "smartctl": smartctl, "timeout_s": TIMEOUT_S, "sudo": may_try_sudo()}
    response = helper.ask({**request, "device": target.device, "type": target.device_type}, 2 * TIMEOUT_S + 5)
    outcome = outcome_of(command, response)
    if outcome.remedy or not _denied(response):
        return outcome
    uid = os.getuid()
    line = sudoers_line(user_name(uid), uid, smartctl, [(target.device_type, target.device)], TEST_COMMANDS)
    return outcome._replace(remedy=line)


def may_try_sudo() -> bool:
    """Whether the helper process may try sudo. Root does not need it."""
    return os.geteuid() != 0


def _denied(response: Mapping[str, Any]) -> bool:
    """Whether smartctl lacked the rights to open the disk."""
    answer = parse_json(str(response.get("out", "")))
    error = None if answer is None else refusal(answer, str(response.get("stderr", "")))
    return error is not None and error.status is Status.DENIED


def outcome_of(command: str, response: Mapping[str, Any]) -> Outcome:
    """Return the outcome that smartctl's response shows.

    Any exit status other than 0 is a failure. smartctl's messages then give the reason, such as a test that is
    already running, or a disk that does not support the test.
    """
    if response.get("timed_out"):
        return Outcome(False, f"smartctl did not answer within {TIMEOUT_S:g} s and was killed")
    answer = parse_json(str(response.get("out", "")))
    if answer is None:
        stderr = clean(str(response.get("stderr", "")).strip(), 160) or "smartctl's answer is unreadable"
        return Outcome(False, stderr, "self-tests need smartctl 7.0 or newer")
    if response.get("status") == 0:
        if started_no_test(answer):
            # This version of smartctl exits with 0 although it starts no test.
            return Outcome(False, "this smartctl cannot start an NVMe self-test: it needs version 7.4")
        return Outcome(True, SUCCESS_TEXTS[command])
    error = refusal(answer, str(response.get("stderr", "")))
    if error is not None and error.status is Status.DENIED:
        return Outcome(False, "a self-test needs root")
    messages = "; ".join(messages_of(answer)) or ("" if error is None else error.reason)
    return Outcome(False, messages or f"the disk refused (smartctl ended with status {response.get('status')})")


def started_no_test(answer: Mapping[str, Any]) -> bool:
    """Whether smartctl reports success for an NVMe disk although its version is too old for NVMe self-tests."""
    return integer(answer, "smartctl", "exit_status") == 0 and (
        text(answer, "device", "protocol") == "NVMe" and too_old_for_nvme_tests(answer)
    )
