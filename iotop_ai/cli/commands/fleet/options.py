"""The flags of ``iotop-ai fleet`` and their checks."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, NamedTuple

from iotop_ai.collectors.io.secret_file import read_secret
from iotop_ai.fleet.client import Address, Prometheus
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import InputError, UsageError
from iotop_ai.model.parse import parse_duration_s
from iotop_ai.model.settings import THEMES
from iotop_ai.present.fleet.words import SORTS
from iotop_ai.present.text.units import duration

if TYPE_CHECKING:
    import ssl

SHORTEST_WINDOW_S, LONGEST_WINDOW_S = 10.0, 30 * 86400.0
INTERVAL_S, SHORTEST_S, LONGEST_S = 10.0, 1.0, 3600.0
"""The default time between two refreshes and its limits, in seconds."""
SHORTEST_TIMEOUT_S, LONGEST_TIMEOUT_S = 1.0, 600.0


class FleetOptions(NamedTuple):
    """The values of the flags of ``fleet``, already checked.

    server: the Prometheus server, not connected yet
    window_s: the time that shares and rates cover, in seconds
    interval_s: the time between two refreshes, in seconds
    sort: a key of SORTS
    pattern: the words of ``--find``; "" to show every machine
    once: whether to print the machines once instead of showing a screen
    json: whether to print them as JSON
    """

    server: Prometheus
    window_s: float
    interval_s: float
    sort: str
    pattern: str
    once: bool
    json: bool


def add_fleet_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``fleet``."""
    unset = argparse.SUPPRESS
    parser.add_argument(
        "--prometheus", metavar="URL", required=True, help="address of the server: http://prometheus:9090"
    )
    parser.add_argument("--window", metavar="T", default="5m", help="time that shares and rates cover (default 5m)")
    parser.add_argument("--once", action="store_true", default=unset, help="print the machines as text, and end")
    parser.add_argument(
        "--json", action="store_true", default=unset, help="print the machines as one JSON object, and end"
    )
    # On the main screen, --sort and --delay take other values, so these two are stored under other names (dest).
    parser.add_argument(
        "--sort", dest="order", choices=tuple(SORTS), default="lost", help="order of the rows (default lost)"
    )
    parser.add_argument(
        "--find", metavar="WORDS", default="", help="only machines that match these words, like the key / on the screen"
    )
    parser.add_argument(
        "-d",
        "--delay",
        dest="every",
        metavar="SEC",
        default=None,
        help=f"seconds between refreshes (default {INTERVAL_S:g})",
    )
    parser.add_argument("--timeout", metavar="T", default="10s", help="longest wait for one answer (default 10s)")
    parser.add_argument("--token-file", metavar="FILE", help="send the bearer token in this file")
    parser.add_argument("--user-file", metavar="FILE", help="log in with the name:password in this file")
    parser.add_argument("--ca-file", metavar="FILE", help="CA certificate to trust for https, in PEM")
    parser.add_argument("--theme", metavar="NAME", choices=THEMES, default=unset, help="one of " + ", ".join(THEMES))


def fleet_options(args: argparse.Namespace) -> FleetOptions:
    """Check the flags, read the files that they name, and return the options. Raises UsageError or InputError."""
    address = Address(args.prometheus)
    if args.token_file and args.user_file:
        raise UsageError("--token-file and --user-file exclude each other")
    if args.ca_file and not address.secure:
        raise UsageError("--ca-file is for an address that begins with https://")
    token = read_secret(args.token_file, "--token-file") if args.token_file else ""
    user = read_secret(args.user_file, "--user-file", "name:password") if args.user_file else ""
    if args.user_file and ":" not in user:
        raise InputError(f"--user-file {clean(args.user_file)}: write name:password on one line")
    server = Prometheus(
        address,
        token=token,
        user=user,
        tls=_tls_context(args.ca_file) if address.secure else None,
        timeout_s=_duration("--timeout", args.timeout, SHORTEST_TIMEOUT_S, LONGEST_TIMEOUT_S),
    )
    delay = _duration("--delay", args.every, SHORTEST_S, LONGEST_S) if args.every is not None else INTERVAL_S
    return FleetOptions(
        server,
        _duration("--window", args.window, SHORTEST_WINDOW_S, LONGEST_WINDOW_S),
        delay,
        args.order,
        clean(args.find),
        args.once or args.json,
        args.json,
    )


def _duration(flag: str, text: object, shortest_s: float, longest_s: float) -> float:
    try:
        seconds = parse_duration_s(str(text))
    except UsageError as error:
        raise UsageError(f"{flag}: {error}") from None
    if not shortest_s <= seconds <= longest_s:
        raise UsageError(f"{flag}: {clean(str(text))} is outside {duration(shortest_s)} to {duration(longest_s)}")
    return seconds


def _tls_context(ca_file: str | None) -> ssl.SSLContext:
    """Return a TLS context that trusts the authorities in ``ca_file``, or the system's authorities for None.

    Raises InputError if the file cannot be read or holds no certificate, or if the file that the variable SSLKEYLOGFILE
    names cannot be opened.
    """
    import ssl

    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ValueError) as error:  # an SSLError is an OSError too
        why = getattr(error, "reason", None) or getattr(error, "strerror", None) or "not a certificate"
        # Python names only the file of SSLKEYLOGFILE in its error.
        key_log = getattr(error, "filename", None)
        place = f"--ca-file {ca_file}" if key_log is None else f"SSLKEYLOGFILE {key_log}"
        raise InputError(f"{clean(place)}: {clean(str(why))}") from None
