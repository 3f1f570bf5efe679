"""Makes a systemd drop-in that permits what the deliveries need and the shipped units deny."""

from __future__ import annotations

from collections.abc import Sequence

from iotop_ai.alerts.deliveries.command import CommandDelivery
from iotop_ai.alerts.deliveries.mail import MailDelivery
from iotop_ai.alerts.deliveries.outbox import Delivery

NETWORK = (
    "# other hosts: a webhook, a mail server, a service, a command such as rsync",
    "RestrictAddressFamilies=AF_INET AF_INET6",
    "IPAddressAllow=any",
)
SIGNALS = ("# a command that signals another user's process", "CapabilityBoundingSet=CAP_KILL")


def drop_in(deliveries: Sequence[Delivery]) -> list[str]:
    """Return the lines of the drop-in; [] if no delivery needs one."""
    has_command = any(isinstance(delivery, CommandDelivery) for delivery in deliveries)
    needs_network = has_command or any(
        not isinstance(delivery, MailDelivery) or delivery.smtp for delivery in deliveries
    )
    lines = [*(NETWORK if needs_network else ()), *(SIGNALS if has_command else ())]
    return ["[Service]", *lines] if lines else []
