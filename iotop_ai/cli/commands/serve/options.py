"""The flags of ``iotop-ai serve`` and their checks."""

from __future__ import annotations

import argparse
import ipaddress
from typing import TYPE_CHECKING, NamedTuple

from iotop_ai.cli.commands.record.options import RecordOptions, record_options
from iotop_ai.cli.options.alerts import add_alerts_flag
from iotop_ai.cli.options.common import add_source_flags, parse_count
from iotop_ai.collectors.io.secret_file import read_secret
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import InputError, UsageError
from iotop_ai.model.settings import CMDLINE_LEVELS

if TYPE_CHECKING:
    import ssl

LISTEN = "127.0.0.1:9743"


class ServeOptions(NamedTuple):
    """The values of the flags of ``serve``, already checked.

    listen: the address and port of the HTTP server; None without a server
    textfile, socket: a path; "" for none
    token: the bearer token that requests need; "" for none
    hosts: further host names that requests may use
    record: the options of the recording; their ``output`` is empty when nothing is recorded
    """

    listen: tuple[str, int] | None
    textfile: str
    token: str
    tls: ssl.SSLContext | None
    hosts: tuple[str, ...]
    socket: str
    record: RecordOptions


def add_serve_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``serve``."""
    parser.add_argument("--listen", metavar="ADDR:PORT", help=f"address of the HTTP server (default {LISTEN})")
    parser.add_argument(
        "--textfile",
        metavar="FILE",
        help="write the metrics to FILE, named *.prom, for node_exporter; without --listen no server is started",
    )
    parser.add_argument("--token-file", metavar="FILE", help="require the bearer token in this file")
    parser.add_argument("--tls-cert", metavar="FILE", help="certificate for HTTPS, in PEM; needs --tls-key")
    parser.add_argument("--tls-key", metavar="FILE", help="private key of the certificate, in PEM")
    parser.add_argument(
        "--allow-host",
        metavar="NAME",
        action="append",
        default=[],
        help="accept requests for this host name too (repeatable)",
    )
    parser.add_argument(
        "--socket",
        metavar="PATH",
        help="a Unix socket that answers any user with the verdict on that user's own jobs, as JSON",
    )
    parser.add_argument("--record", dest="output", metavar="FILE", help="also record into this file")
    parser.add_argument("--append", action="store_true", help="append to an existing recording")
    parser.add_argument(
        "--rotate",
        metavar="LIMIT",
        help="start a new recording at this size or age: 512M or 24h, or 1G,24h for whichever comes first",
    )
    parser.add_argument(
        "--keep",
        metavar="N",
        type=parse_count,
        help="number of finished recordings to keep beside the current one (default all)",
    )
    parser.add_argument("--cmdline", choices=CMDLINE_LEVELS, help="how much of command lines to record (default names)")
    parser.add_argument("--duration", metavar="T", help="stop after this time: 30, 10m, 2h")
    add_alerts_flag(parser)
    add_source_flags(parser, sub=True)
    parser.set_defaults(csv=None, hook=None, burst=None, min_free=None, words=[], control=False)


def serve_options(args: argparse.Namespace) -> ServeOptions:
    """Check the flags, read the files that they name, and return the options. Raises UsageError or InputError."""
    if args.output == "-":
        raise UsageError('--record needs a file; "iotop-ai record -" writes to stdout')
    if not args.output and (args.append or args.rotate or args.keep is not None or args.cmdline):
        raise UsageError("--append, --rotate, --keep and --cmdline need --record FILE")
    listen = parse_listen(args.listen or LISTEN) if args.listen or not args.textfile else None
    if listen is None and (args.token_file or args.tls_cert or args.tls_key or args.allow_host):
        raise UsageError("--token-file, --tls-cert and --allow-host need --listen")
    if bool(args.tls_cert) != bool(args.tls_key):
        raise UsageError("--tls-cert and --tls-key must be given together")
    return ServeOptions(
        listen,
        args.textfile or "",
        read_secret(args.token_file, "--token-file") if args.token_file else "",
        tls_context(args.tls_cert, args.tls_key) if args.tls_cert else None,
        tuple(args.allow_host),
        args.socket or "",
        record_options(args),
    )


def parse_listen(text: str) -> tuple[str, int]:
    """Return the address and the port that a text names. Raises UsageError.

    "127.0.0.1:9743" and "[::1]:9743" name both. ":9743" stands for every IPv4 address of this machine, "9743" for
    loopback.
    """
    host, colon, port = text.rpartition(":")
    if not (port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) <= 65535):
        raise UsageError(f"--listen {clean(text)}: write an address and a port, such as {LISTEN}")
    host = host.removeprefix("[").removesuffix("]")
    if not colon:
        return "127.0.0.1", int(port)
    if host == "localhost":
        return "127.0.0.1", int(port)
    try:
        return str(ipaddress.ip_address(host or "0.0.0.0")), int(port)
    except ValueError:
        raise UsageError(f"--listen {clean(text)}: {clean(host)} is not a numeric address") from None


def is_loopback(host: str) -> bool:
    """Whether the address can be reached from this machine only."""
    return ipaddress.ip_address(host).is_loopback


def tls_context(certificate: str, key: str) -> ssl.SSLContext:
    """Return a TLS context for a server, with TLS 1.2 or later. Raises InputError."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ValueError) as error:  # an SSLError is an OSError too
        why = getattr(error, "reason", None) or getattr(error, "strerror", None) or "not a certificate and its key"
        raise InputError(f"--tls-cert {clean(certificate)}, --tls-key {clean(key)}: {clean(str(why))}") from None
    return context
