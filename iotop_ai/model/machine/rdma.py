"""Errors and congestion of RDMA ports (InfiniBand and RoCE).

Source: Documentation/ABI/stable/sysfs-class-infiniband (counters/) and, for hw_counters/, rdma-core's and the mlx5
driver's names, https://docs.kernel.org/networking/device_drivers/ethernet/mellanox/mlx5/counters.html.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.counter import delta, delta_up_to, per_second
from iotop_ai.model.metric import Metric


class RdmaCounters(NamedTuple):
    """The counters of one port, under the kernel's names; None if the driver lacks the counter."""

    symbol_error: int | None = None
    link_downed: int | None = None
    link_error_recovery: int | None = None
    packet_seq_err: int | None = None
    out_of_sequence: int | None = None
    local_ack_timeout_err: int | None = None
    rnr_nak_retry_err: int | None = None
    roce_adp_retrans: int | None = None
    out_of_buffer: int | None = None
    np_cnp_sent: int | None = None
    rp_cnp_handled: int | None = None
    np_ecn_marked_roce_packets: int | None = None


class RdmaRates(NamedTuple):
    """One RDMA port over one interval; errors_per_s sums the known rates except the three congestion rates."""

    symbol_error_per_s: Annotated[float | None, Metric("1/s", "Symbol errors of the link: its cable or optics.")]
    link_downed_per_s: Annotated[float | None, Metric("1/s", "Times that the link went down.")]
    link_error_recovery_per_s: Annotated[float | None, Metric("1/s", "Times that the link recovered from an error.")]
    packet_seq_err_per_s: Annotated[float | None, Metric("1/s", "NAKs received: a packet was lost on the way.")]
    out_of_sequence_per_s: Annotated[float | None, Metric("1/s", "Packets received out of sequence.")]
    local_ack_timeout_err_per_s: Annotated[float | None, Metric("1/s", "Packets that were not acknowledged in time.")]
    rnr_nak_retry_err_per_s: Annotated[float | None, Metric("1/s", "NAKs received: the peer was not ready.")]
    roce_adp_retrans_per_s: Annotated[float | None, Metric("1/s", "Adaptive retransmissions of RoCE.")]
    out_of_buffer_per_s: Annotated[float | None, Metric("1/s", "Packets dropped because no receive buffer was posted.")]
    np_cnp_sent_per_s: Annotated[float | None, Metric("1/s", "Congestion notifications sent to peers.")]
    rp_cnp_handled_per_s: Annotated[float | None, Metric("1/s", "Congestion notifications obeyed.")]
    np_ecn_marked_roce_packets_per_s: Annotated[float | None, Metric("1/s", "Packets that a switch marked (ECN).")]
    errors_per_s: Annotated[float | None, Metric("1/s", "All RDMA errors, without the congestion counts.")]


_LARGEST_COUNTS = {"symbol_error": 65535, "link_downed": 255, "link_error_recovery": 255}
"""The values at which counters of PortCounters stop (drivers/infiniband/core/sysfs.c); then their growth is unknown."""
_CONGESTION_FIELDS = 3
"""The number of fields that count congestion, which are the last of RdmaCounters."""


def rdma_rates(
    before: Mapping[str, RdmaCounters] | None, after: Mapping[str, RdmaCounters], seconds: float | None
) -> dict[str, RdmaRates]:
    """The rates of every port; each is None without an earlier reading, or if its counter fell or was at its limit."""
    out = {}
    for port, now in after.items():
        old = RdmaCounters() if before is None else before.get(port, RdmaCounters())
        rates = [
            per_second(
                delta_up_to(_LARGEST_COUNTS[name], a, b) if name in _LARGEST_COUNTS else delta(a, b),
                seconds,
            )
            for name, a, b in zip(RdmaCounters._fields, old, now, strict=True)
        ]
        errors = [rate for rate in rates[:-_CONGESTION_FIELDS] if rate is not None]
        out[port] = RdmaRates._make((*rates, sum(errors) if errors else None))
    return out
