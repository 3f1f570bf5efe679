"""Reads alerts.toml, which contains the rules and deliveries.

An alerts.toml names programs and addresses, so it is refused if other users can change it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from iotop_ai.alerts.deliveries.command import CommandDelivery
from iotop_ai.alerts.deliveries.mail import PORTS, MailDelivery, check_address, parse_server
from iotop_ai.alerts.deliveries.outbox import Delivery
from iotop_ai.alerts.deliveries.service import ServiceDelivery, is_installed
from iotop_ai.alerts.deliveries.webhook import FORMATS, WebhookDelivery
from iotop_ai.alerts.rules import CLEAR_S, COOLDOWN_S, Rule, default_rules
from iotop_ai.collectors.io.input_file import open_input
from iotop_ai.collectors.io.secret_file import read_secret
from iotop_ai.collectors.io.trust import why_untrusted
from iotop_ai.model.clean import clean
from iotop_ai.model.condition.grammar import parse_condition
from iotop_ai.model.errors import InputError, UsageError
from iotop_ai.model.finding import Severity
from iotop_ai.model.parse import parse_duration_s
from iotop_ai.model.toml_text import parse_toml

MOST_BYTES = 256 * 1024
"""The maximum size of the file."""
MOST_RULES, MOST_DELIVERIES = 100, 20
TIMEOUT_S, LONGEST_TIMEOUT_S = 10.0, 600.0
"""The default and the maximum of a delivery's ``timeout``, in seconds."""
MESSAGES_PER_HOUR = 12
"""The default of a delivery's ``at_most``, the maximum number of its messages per hour."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")
_RULE_KEYS = ("name", "when", "severity", "enabled", "clear_after", "cooldown", "deliver", "resolved")
_DELIVERY_KEYS: Mapping[str, tuple[str, ...]] = {
    "command": ("command",),
    "webhook": ("webhook", "format"),
    "mail": ("mail", "sender", "smtp", "tls", "user", "password_file"),
    "apprise": ("apprise",),
}
"""The keys of a delivery's section by the kind of the delivery. ``timeout`` and ``at_most`` are keys of every kind."""


class AlertConfig(NamedTuple):
    """The contents of an alerts.toml.

    rules: the rules of the file, then the default rules that the file does not replace. bell: whether the screen rings
    the terminal's bell when an alert fires.
    """

    path: str
    rules: tuple[Rule, ...]
    deliveries: tuple[Delivery, ...]
    bell: bool = True


def read_alerts(path: str) -> AlertConfig:
    """Read an alerts.toml.

    Raises UsageError for an invalid file or one that other users can change, and InputError if it cannot be read.
    """
    display_path = clean(path)
    owner = os.geteuid()
    try:
        with open_input(path) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UsageError(f"{display_path} is not a regular file")
            if why := why_untrusted(path, owner):
                others_can_write = why.endswith(f"can write to {clean(os.path.realpath(path))}")
                remedy = (
                    f"chmod go-w {display_path}"
                    if others_can_write
                    else "keep it in a folder of your own, such as ~/.config/iotop-ai"
                )
                raise UsageError(f"{display_path} is not read, as it names programs and addresses: {why}; {remedy}")
            raw = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"{display_path}: {error.strerror}") from None
    if len(raw) > MOST_BYTES:
        raise UsageError(f"{display_path} is not read: it is larger than {MOST_BYTES // 1024} KiB")
    try:
        return parse_alerts(path, parse_toml(raw.decode("utf-8-sig")))
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{display_path}: not UTF-8 (line {line})") from None
    except UsageError as error:
        raise UsageError(f"{display_path}: {clean(str(error))}") from None


def parse_alerts(path: str, tree: Mapping[str, Any]) -> AlertConfig:
    """Return the rules and deliveries of a parsed file. Raises UsageError."""
    _check_keys(tree, ("enable", "bell", "rule", "deliver"), "the file")
    deliveries = tuple(
        _delivery(name, _table(table, f"deliver.{name}"))
        for name, table in _table(tree.get("deliver", {}), "deliver").items()
    )
    tables = tree.get("rule", [])
    if not isinstance(tables, list) or len(tables) > MOST_RULES or len(deliveries) > MOST_DELIVERIES:
        raise UsageError(f"write [[rule]] for each rule; at most {MOST_RULES} rules and {MOST_DELIVERIES} deliveries")
    delivery_names = frozenset(delivery.name for delivery in deliveries)
    rules = [_rule(_table(table, "rule"), delivery_names) for table in tables]
    enable = _names(tree.get("enable", []), "enable")
    defaults = {rule.name: rule for rule in default_rules()}
    if unknown := [name for name in enable if name not in defaults]:
        raise UsageError(f"enable: {clean(unknown[0])} is not one of {', '.join(defaults)}")
    names = [rule.name for rule in rules]
    rules += [rule._replace(enabled=name in enable) for name, rule in defaults.items() if name not in names]
    if duplicates := [name for name in names if names.count(name) > 1]:
        raise UsageError(f"two rules are named {duplicates[0]}")
    return AlertConfig(path, tuple(rules), deliveries, _boolean(tree.get("bell", True), "bell"))


def _rule(table: Mapping[str, Any], delivery_names: frozenset[str]) -> Rule:
    name = _name(table.get("name"), "a rule's name")
    where = f"rule {name}"
    _check_keys(table, _RULE_KEYS, where)
    if not isinstance(table.get("when"), str):
        raise UsageError(f"{where}: when must be a condition in quotes; docs/conditions.md describes the form")
    try:
        condition = parse_condition(table["when"])
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    severity = table.get("severity", Severity.WARNING.value)
    if severity not in (*Severity,):
        raise UsageError(f"{where}: severity must be one of {', '.join(Severity)}")
    deliver = _names(table.get("deliver", []), f"{where}: deliver")
    if unknown := [name for name in deliver if name not in delivery_names]:
        raise UsageError(f"{where}: [deliver.{clean(unknown[0])}] is missing")
    return Rule(
        name,
        condition,
        Severity(severity),
        _boolean(table.get("enabled", True), f"{where}: enabled"),
        _seconds(table.get("clear_after", CLEAR_S), f"{where}: clear_after"),
        _seconds(table.get("cooldown", COOLDOWN_S), f"{where}: cooldown"),
        deliver,
        _boolean(table.get("resolved", False), f"{where}: resolved"),
    )


def _delivery(name: str, table: Mapping[str, Any]) -> Delivery:
    where = f"deliver.{_name(name, 'the name of a delivery')}"
    kind = next((kind for kind in _DELIVERY_KEYS if kind in table), None)
    if kind is None:
        raise UsageError(f"{where}: write one of {', '.join(_DELIVERY_KEYS)}")
    _check_keys(table, (*_DELIVERY_KEYS[kind], "timeout", "at_most"), where)
    timeout_s = _seconds(table.get("timeout", TIMEOUT_S), f"{where}: timeout")
    at_most = table.get("at_most", MESSAGES_PER_HOUR)
    if not 0 < timeout_s <= LONGEST_TIMEOUT_S:
        raise UsageError(f"{where}: timeout must be more than 0 and at most {LONGEST_TIMEOUT_S:g} s")
    if isinstance(at_most, bool) or not isinstance(at_most, int) or not 1 <= at_most <= 1000:
        raise UsageError(f"{where}: at_most must be 1 to 1000 messages an hour")
    if kind == "command":
        return CommandDelivery(name, _command(table["command"], where), timeout_s, at_most)
    if kind == "webhook":
        form = table.get("format", "json")
        if form not in FORMATS:
            raise UsageError(f"{where}: format must be one of {', '.join(FORMATS)}")
        return WebhookDelivery(name, _text(table["webhook"], f"{where}: webhook"), form, timeout_s, at_most)
    if kind == "apprise":
        if not is_installed():
            raise UsageError(f"{where}: apprise is not installed: pip install 'iotop-ai[notify]'")
        return ServiceDelivery(name, _text(table["apprise"], f"{where}: apprise"), timeout_s, at_most)
    return _mail(name, table, where)._replace(timeout_s=timeout_s, at_most=at_most)


def _mail(name: str, table: Mapping[str, Any], where: str) -> MailDelivery:
    """Return a delivery by email, with the default timeout and ``at_most``.

    Raises UsageError for invalid values, and for a login that would be sent unencrypted.
    """
    smtp, user, password_file = (
        _text(table[key], f"{where}: {key}") if key in table else "" for key in ("smtp", "user", "password_file")
    )
    tls = table.get("tls", "starttls" if user else "no")
    if tls not in (*PORTS,):
        raise UsageError(f"{where}: tls must be one of {', '.join(PORTS)}")
    if (user or "tls" in table) and not smtp:
        raise UsageError(f"{where}: give the server: smtp = 'host:587'")
    if bool(user) != bool(password_file):
        raise UsageError(f"{where}: a login needs both user and password_file")
    if user and tls == "no":
        raise UsageError(
            f"{where}: a password is sent only over an encrypted connection; write tls = 'starttls' or 'tls'"
        )
    if password_file:
        if not password_file.startswith("/"):  # services and children of iotop-ai run in the folder "/"
            raise UsageError(f"{where}: give the absolute path of the password_file")
        try:
            read_secret(password_file, "password_file", "the password")
        except InputError as error:
            raise UsageError(f"{where}: {error}") from None
    if smtp and parse_server(smtp) is None:
        raise UsageError(f"{where}: smtp: {clean(smtp, 80)!r} is not a server; write 'host:587'")
    to = _text(table["mail"], f"{where}: mail")
    sender = _text(table.get("sender", "iotop-ai"), f"{where}: sender")
    for key, address in (("mail", to), ("sender", sender)):
        try:
            check_address(address)
        except UsageError as error:
            raise UsageError(f"{where}: {key}: {error}") from None
    return MailDelivery(name, to, sender, smtp, TIMEOUT_S, MESSAGES_PER_HOUR, tls, user, password_file)


def _command(value: Any, where: str) -> tuple[str, ...]:
    """Return the words of a command that runs without a shell.

    Raises UsageError for a program that other users can replace.
    """
    if (
        not isinstance(value, list)
        or not value
        or not all(isinstance(word, str) and "\0" not in word for word in value)
    ):
        raise UsageError(f"{where}: command must be a list of words, such as ['/usr/local/bin/hook', '--now']")
    if not value[0].startswith("/"):
        raise UsageError(f"{where}: give the absolute path of the command")
    if why := why_untrusted(value[0], os.geteuid()):
        raise UsageError(f"{where}: the command is not trusted: {why}")
    return tuple(value)


def _check_keys(table: Mapping[str, Any], keys: Sequence[str], where: str) -> None:
    if unknown := [key for key in table if key not in keys]:
        raise UsageError(f"{where}: unknown key {clean(unknown[0])!r}; known are {', '.join(keys)}")


def _table(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{where} must be a table")
    return value


def _name(value: Any, what: str) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise UsageError(f"{what} must be 1 to 40 letters, digits, _ or -")
    return value


def _names(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise UsageError(f"{where} must be a list of names")
    return tuple(value)


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value or not value.isprintable():
        raise UsageError(f"{where} must be one line of text")
    return value


def _boolean(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{where} must be true or false")
    return value


def _seconds(value: Any, where: str) -> float:
    try:
        seconds = parse_duration_s(value) if isinstance(value, str) else float(value)
    except (TypeError, ValueError, OverflowError, UsageError):
        raise UsageError(f"{where} must be a duration, such as '90s' or '10m'") from None
    if isinstance(value, bool) or not 0 <= seconds <= 7 * 86_400:
        raise UsageError(f"{where} must be between 0 and 7 days")
    return seconds
