"""A mail by an SMTP server, or by the local sendmail."""

from __future__ import annotations

import json
import smtplib
import subprocess
import threading
from email.message import EmailMessage
from typing import NamedTuple

from iotop_ai.alerts.deliveries.message import alert_object, title
from iotop_ai.alerts.deliveries.outbox import NotDelivered
from iotop_ai.alerts.rules import Alert
from iotop_ai.collectors.io.programs import find_program
from iotop_ai.collectors.io.spawn import run
from iotop_ai.model.clean import clean

_PORT = 25


class MailDelivery(NamedTuple):
    """smtp: "host:port", "" for the local sendmail."""

    name: str
    to: str
    sender: str
    smtp: str
    timeout_s: float
    at_most: int

    def describe(self) -> str:
        """The recipient."""
        return f"mail to {clean(self.to)} by {clean(self.smtp) or 'sendmail'}"

    def send(self, alert: Alert, stop: threading.Event) -> None:
        """Hand it to the server. Raises NotDelivered."""
        mail = message(alert, self.sender, self.to)
        if not self.smtp:
            self._by_sendmail(mail)
            return
        host, _, port = self.smtp.rpartition(":") if ":" in self.smtp else (self.smtp, "", str(_PORT))
        try:
            with smtplib.SMTP(host, int(port), timeout=self.timeout_s) as server:
                server.send_message(mail)
        except (OSError, smtplib.SMTPException, ValueError) as error:
            raise NotDelivered(
                clean(getattr(error, "strerror", None) or type(error).__name__, 200), again=True
            ) from None

    def _by_sendmail(self, mail: EmailMessage) -> None:
        program = find_program("sendmail")
        if not program:
            raise NotDelivered("sendmail is not installed; name an SMTP server: smtp = 'host:25'")
        try:
            done = run(
                [program, "-oi", "-t"],
                input=bytes(mail),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=self.timeout_s,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NotDelivered(
                f"sendmail: {getattr(error, 'strerror', None) or 'took too long and was ended'}"
            ) from None
        if done.returncode:
            raise NotDelivered(f"sendmail ended with status {done.returncode}", again=True)


def message(alert: Alert, sender: str, to: str) -> EmailMessage:
    """The mail; names in it cannot add a header, as they hold no line break."""
    mail = EmailMessage()
    mail["Subject"] = clean(title(alert), 200)
    mail["From"], mail["To"] = sender, to
    mail.set_content(f"{title(alert)}\n\n{json.dumps(alert_object(alert), indent=1)}\n")
    return mail
