"""``iotop-ai alerts``: list the rules, or send a test message."""

from __future__ import annotations

import argparse
import os
import threading

from iotop_ai.alerts.config import AlertConfig
from iotop_ai.alerts.deliveries.outbox import NotDelivered, try_to_send
from iotop_ai.alerts.drop_in import drop_in
from iotop_ai.alerts.rules import TEST, Alert, default_rules
from iotop_ai.cli.options.alerts import add_alerts_flag, alerts_path, load_alerts
from iotop_ai.cli.stderr import print_notice
from iotop_ai.cli.stdout import print_lines
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import UnknownError, UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``alerts``."""
    parser.add_argument(
        "what",
        nargs="?",
        default="list",
        choices=("list", "test"),
        help="list: print the rules (default); test: send one message to each delivery",
    )
    parser.add_argument("names", nargs="*", metavar="DELIVERY", help="test: only these deliveries")
    add_alerts_flag(parser)


def run(args: argparse.Namespace) -> int:
    """List the rules or send a test message; return 0, or 1 if a test message was not delivered.

    Raises IotopError if the file of the rules cannot be used, or has no delivery for the test.
    """
    if args.what == "list" and args.names:
        raise UsageError(f"alerts list accepts no names; remove {clean(args.names[0])!r}")
    warnings: list[str] = []
    config = load_alerts(args.alerts, warnings.append)
    if warnings and args.what != "list":
        raise UnknownError(warnings[0])
    for text in warnings:
        print_notice(text)
    why_off = "the rules are off"
    if args.alerts == "none":
        why_off = f"--alerts none: {why_off}"
    elif config is None and not warnings:
        why_off = f"{alerts_path()} is missing: {why_off}"
    if args.what == "list":
        _list(config, why_off)
        return 0
    if config is None:
        raise UsageError(f"{clean(why_off)}, so there is no delivery to test; docs/alerts.md has examples")
    if not config.deliveries:
        raise UsageError(f"{clean(config.path)} has no [deliver.NAME]; docs/alerts.md has examples")
    names = [delivery.name for delivery in config.deliveries]
    if unknown := [name for name in args.names if name not in names]:
        raise UsageError(f"{clean(unknown[0])} is not one of {', '.join(names)}")
    return _test(config, args.names)


def _list(config: AlertConfig | None, why_off: str) -> None:
    """Print the rules and deliveries of the config. Without a config, print ``why_off`` and the default rules."""
    rules = default_rules() if config is None else config.rules
    deliveries = () if config is None else config.deliveries
    print(clean(why_off if config is None else config.path, 300))
    rows = [("STATE", "RULE", "SEVERITY", "DELIVERED TO", "WHEN")]
    all_deliveries = ", ".join(delivery.name for delivery in deliveries) or "the event log"
    rows += [
        (
            "on" if rule.enabled else "off",
            rule.name,
            rule.severity.value,
            ", ".join(rule.deliver) or all_deliveries,
            rule.when.text,
        )
        for rule in rules
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    for row in rows:
        print("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]))
    for delivery in deliveries:
        print(f"{delivery.name}: {delivery.describe()}, at most {delivery.at_most} an hour")
    if lines := drop_in(deliveries):
        print(
            "the system services are not permitted to use these deliveries; to permit it, run"
            " sudo systemctl edit iotop-ai (or iotop-ai-serve) and add:"
        )
        print("\n".join(f"  {line}" for line in lines))


def _test(config: AlertConfig, names: list[str]) -> int:
    """Send a test message to the named deliveries, or to all if ``names`` is empty; return the exit code."""
    alert = Alert(
        rule="test",
        state=TEST,
        severity="info",
        when="iotop-ai alerts test",
        text="a test message of iotop-ai alerts test",
        subject="",
        value=None,
        unit="",
        host=clean(os.uname().nodename),
        verdict="",
        wall_ns=Clock().wall_ns(),
    )
    failed = 0
    for delivery in config.deliveries:
        if not names or delivery.name in names:
            try:
                try_to_send(delivery, alert, threading.Event())
                print_lines([f"{delivery.name}: sent ({delivery.describe()})"])
            except NotDelivered as error:
                failed = 1
                print_lines([f"{delivery.name}: not sent: {error}"])
    return failed
