"""Delivers an alert by email, through an SMTP server or the local sendmail."""

from __future__ import annotations

import json
import re
import smtplib
import ssl
import subprocess
import threading
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime, make_msgid
from typing import NamedTuple

from iotop_ai.alerts.deliveries.message import alert_object, title
from iotop_ai.alerts.deliveries.outbox import TIMEOUTS_PER_DELIVERY, NotDelivered
from iotop_ai.alerts.rules import Alert
from iotop_ai.collectors.io.programs import find_program
from iotop_ai.collectors.io.secret_file import read_secret
from iotop_ai.collectors.io.spawn import run
from iotop_ai.collectors.io.with_timeout import call_with_timeout
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import InputError, UsageError

_HOST = re.compile(r"[A-Za-z0-9.-]{1,253}")
_SERVER = re.compile(r"(\[(?P<ipv6>[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*)\]|(?P<host>[^:\[\]]+))(:(?P<port>[0-9]{1,5}))?")
PORTS = {"no": 25, "starttls": 587, "tls": 465}
"""The values of ``tls``, each with the usual port (RFC 5321, 6409 and 8314)."""


class MailDelivery(NamedTuple):
    """Sends each alert as an email.

    smtp: the server, as ``parse_server`` accepts it; "" for the local sendmail. at_most: the maximum number of emails
    per hour. tls: a key of PORTS. user: the login name; "" if the server needs no login. password_file: the file with
    the password; it is read for each email, so a new password needs no restart.
    """

    name: str
    to: str
    sender: str
    smtp: str
    timeout_s: float
    at_most: int
    tls: str = "no"
    user: str = ""
    password_file: str = ""

    @property
    def per_object(self) -> bool:
        """Whether an alert about several objects is sent as one message for each object."""
        return False

    def describe(self) -> str:
        """Return the recipient, the server and the login name, in a few words."""
        if not self.smtp:
            return f"mail to {clean(self.to)} by sendmail"
        how = "" if self.tls == "no" else f", {self.tls}"
        return f"mail to {clean(self.to)} by {clean(self.smtp)}{how}{f', as {clean(self.user)}' if self.user else ''}"

    def send(self, alert: Alert, stop: threading.Event) -> None:
        """Pass the email to the server or to sendmail. Raises NotDelivered."""
        try:
            mail = message(alert, self.sender, self.to)
            if self.smtp:
                longest_s = TIMEOUTS_PER_DELIVERY * self.timeout_s
                call_with_timeout(longest_s, f"mail {self.name}", lambda: self._send_to_server(mail))
            else:
                self._send_with_sendmail(mail)
        except (InputError, UsageError) as error:
            raise NotDelivered(str(error)) from None
        except smtplib.SMTPAuthenticationError:
            raise NotDelivered(f"the server refuses the login of {clean(self.user)}") from None
        except smtplib.SMTPRecipientsRefused as error:
            raise NotDelivered(_refusal(error.recipients), retry=True) from None
        except smtplib.SMTPNotSupportedError as error:
            raise NotDelivered(clean(str(error), 200)) from None
        except (OSError, smtplib.SMTPException, ValueError) as error:
            why = getattr(error, "verify_message", None) or getattr(error, "strerror", None) or type(error).__name__
            raise NotDelivered(clean(why, 200), retry=not isinstance(error, ssl.SSLError)) from None

    def _send_to_server(self, mail: EmailMessage) -> None:
        host, port = parse_server(self.smtp) or (self.smtp, 0)
        port = port or PORTS[self.tls]
        context = ssl.create_default_context()
        refused: Mapping[str, object] | None = None
        try:
            with (
                smtplib.SMTP_SSL(host, port, timeout=self.timeout_s, context=context)
                if self.tls == "tls"
                else smtplib.SMTP(host, port, timeout=self.timeout_s)
            ) as server:
                if self.tls == "starttls":
                    server.starttls(context=context)
                if self.user:
                    server.login(self.user, read_secret(self.password_file, "password_file", "the password"))
                refused = server.send_message(mail)
        except smtplib.SMTPResponseException:
            # Once send_message has returned, the server has the email, and only its answer to QUIT is wrong (not 221).
            if refused is None:
                raise
        if refused:  # a second attempt would send another copy to the other recipients
            raise NotDelivered(_refusal(refused))

    def _send_with_sendmail(self, mail: EmailMessage) -> None:
        program = find_program("sendmail")
        if not program:
            raise NotDelivered("sendmail is not installed; give an SMTP server: smtp = 'host:25'")
        try:
            finished = run(
                [program, "-oi", "-t"],
                input_bytes=bytes(mail),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=self.timeout_s,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NotDelivered(
                f"sendmail: {getattr(error, 'strerror', None) or 'took too long and was killed'}"
            ) from None
        if finished.returncode:
            raise NotDelivered(f"sendmail ended with status {finished.returncode}", retry=True)


def _refusal(refused: Iterable[str]) -> str:
    return clean(f"the server refuses {', '.join(refused)}", 200)


def parse_server(text: str) -> tuple[str, int] | None:
    """Return (host, port) of "host", "host:port" or "[IPv6 address]:port"; None for another text.

    The port is 0 if the text has none.
    """
    found = _SERVER.fullmatch(text)
    if found is None or not text.isprintable() or " " in text:
        return None
    if found["port"] and not 0 < int(found["port"]) <= 65535:
        return None
    return found["ipv6"] or found["host"], int(found["port"] or 0)


def check_address(text: str) -> None:
    """Raise UsageError unless the text consists of one or more addresses or names of local users."""
    mail = EmailMessage()
    try:
        mail["To"] = text
        users = [address.username for address in mail["To"].addresses]
    except Exception:  # for an incomplete address the parser raises IndexError, AttributeError and others
        users = []
    if not users or not all(users):
        raise UsageError(f"{clean(text, 80)!r} is not an address; write 'you@example.org'")


def message(alert: Alert, sender: str, to: str) -> EmailMessage:
    """Return the email about an alert. Raises UsageError for a bad address.

    Names in the email have no line breaks, so they cannot add a header.
    """
    mail = EmailMessage()
    mail["Subject"] = clean(title(alert), 200)
    for name, text in (("From", sender), ("To", to)):
        check_address(text)
        mail[name] = text
    mail["Date"] = format_datetime(datetime.fromtimestamp(alert.wall_ns // 10**9, UTC))
    # Without a domain, make_msgid would ask a name server for the name of this machine.
    mail["Message-ID"] = make_msgid(domain=alert.host if _HOST.fullmatch(alert.host) else "localhost")
    objects = "\n".join(json.dumps(alert_object(part), indent=1) for part in alert.each or (alert,))
    mail.set_content(f"{title(alert)}\n\n{objects}\n")
    return mail
