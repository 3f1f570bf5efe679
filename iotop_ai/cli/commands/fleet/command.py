"""``iotop-ai fleet``: every machine that a Prometheus server knows, worst first."""

from __future__ import annotations

import argparse

from iotop_ai.cli.commands.fleet.options import FleetOptions, add_fleet_flags, fleet_options
from iotop_ai.cli.start.logging import quiet_log
from iotop_ai.cli.stderr import print_notice
from iotop_ai.cli.stdout import print_lines
from iotop_ai.fleet.refresh import FirstAnswer, ask_fleet
from iotop_ai.model.clean import clean
from iotop_ai.present.fleet.words import matches, sort_machines


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``fleet``."""
    add_fleet_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Show the machines until the user leaves the screen, or print them once; return the exit code.

    After printing, the code is 1 if a machine or, without --find, an alert reports trouble, 2 if there is no machine or
    an answer is missing, else 0.
    """
    options = fleet_options(args)
    if options.once:
        quiet_log()
        return _print_once(options)
    # The request is sent now, so that the server answers while the modules of the screen are imported.
    first = FirstAnswer(options.server.new_client(), options.window_s)
    from iotop_ai.cli.commands.fleet.screen import show_fleet
    from iotop_ai.cli.options.common import settings_elsewhere

    settings = settings_elsewhere(args)
    quiet_log()
    return show_fleet(options, settings, first)


def _print_once(options: FleetOptions) -> int:
    try:
        fleet = ask_fleet(options.server, options.window_s)
    finally:
        options.server.close()
    machines = [machine for machine in sort_machines(fleet.machines, options.sort) if matches(machine, options.pattern)]
    if options.json:
        from iotop_ai.export.json.fleet import render_fleet_json

        print_lines([render_fleet_json(fleet, machines)])
    else:
        from iotop_ai.export.text.fleet import fleet_lines

        print_lines(fleet_lines(fleet, machines))
    if fleet.unanswered:
        print_notice(f"unknown: no answer to: {', '.join(fleet.unanswered)}")
    if not machines:
        words = f" has {clean(options.pattern)!r}" if options.pattern and fleet.machines else " is known to that server"
        print_notice(f"unknown: no machine{words}")
    if any(machine.troubled for machine in machines) or (
        any(alert.reports_trouble for alert in fleet.alerts) and not options.pattern
    ):
        return 1
    return 2 if not machines or fleet.unanswered else 0
