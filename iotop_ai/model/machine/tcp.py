"""The machine's TCP segments: sent, retransmitted and received in error.

Source: the Tcp lines of /proc/net/snmp, RFC 4022 (tcpOutSegs, tcpRetransSegs, tcpInErrs),
https://docs.kernel.org/networking/snmp_counter.html.
"""

from __future__ import annotations

from typing import Annotated

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.counter import delta, per_second, quotient
from iotop_ai.model.metric import Metric


class TcpCounters(NamedTuple):
    """The counters of one network namespace; out_segments excludes retransmitted segments."""

    out_segments: int | None
    retransmitted: int | None
    in_errors: int | None


class TcpRates(NamedTuple):
    """The rates of TCP over one interval."""

    segments_per_s: Annotated[float | None, Metric("1/s", "TCP segments sent per second (OutSegs).")]
    retransmitted_per_s: Annotated[float | None, Metric("1/s", "TCP segments retransmitted per second (RetransSegs).")]
    retransmit_ratio: Annotated[float | None, Metric("ratio", "Retransmitted segments divided by segments sent.")]
    in_errors_per_s: Annotated[float | None, Metric("1/s", "TCP segments received in error per second (InErrs).")]


def tcp_rates(before: TcpCounters | None, after: TcpCounters, seconds: float | None) -> TcpRates:
    """The rates of one interval; the ratio is unknown if no segment was sent."""
    old = before or TcpCounters(None, None, None)
    sent, retransmitted, errors = (delta(a, b) for a, b in zip(old, after, strict=True))
    return TcpRates(
        per_second(sent, seconds),
        per_second(retransmitted, seconds),
        quotient(retransmitted, sent),
        per_second(errors, seconds),
    )
