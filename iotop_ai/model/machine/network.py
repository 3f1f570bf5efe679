"""Network interfaces and InfiniBand ports: byte, error and drop counters from /sys/class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.counter import delta_up_to, per_second, quotient, total
from iotop_ai.model.metric import Exported, Metric


class LinkCounters(NamedTuple):
    """The counters of one network interface or one InfiniBand port ("mlx5_0/1").

    Byte counters are in bytes; those of InfiniBand, which count words of 4 bytes, are converted.

    *_errors, *_dropped: None for a direction that the link does not count
    bits_per_s: the speed of the link; None if unknown or down
    state: the state in the kernel's words, such as up, down or active
    kind: nic or ib
    place: the device that carries the bytes ("0000:18:00.0"); "" if another link counts them too (for a bond, bridge or
        VLAN); None in a recording without this field
    """

    rx_bytes: Annotated[int, Exported("B", "Bytes received.", "receive")]
    tx_bytes: Annotated[int, Exported("B", "Bytes sent.", "transmit")]
    rx_errors: Annotated[int | None, Exported("count", "Errors while receiving.", "receive_errors")]
    tx_errors: Annotated[int | None, Exported("count", "Errors while sending.", "transmit_errors")]
    rx_dropped: Annotated[int | None, Exported("count", "Received packets dropped.", "receive_drops")]
    tx_dropped: Annotated[int | None, Exported("count", "Packets dropped before sending.", "transmit_drops")]
    bits_per_s: int | None
    state: str
    kind: str = "nic"
    place: str | None = None


class LinkRates(NamedTuple):
    """The rates of one link; busy_ratio is the rate of the busier direction divided by the link's speed."""

    rx_bytes_per_s: Annotated[float | None, Metric("B/s", "Bytes received per second.")]
    tx_bytes_per_s: Annotated[float | None, Metric("B/s", "Bytes sent per second.")]
    errors_per_s: Annotated[float | None, Metric("1/s", "Errors per second, in the directions that the link counts.")]
    drops_per_s: Annotated[
        float | None, Metric("1/s", "Packets dropped per second, in the directions that the link counts.")
    ]
    busy_ratio: Annotated[float | None, Metric("ratio", "The busier direction's share of the link's speed.")]


_MOST_IB_BYTES = (2**32 - 1) * 4
"""The largest byte count of a port without PortCountersExtended: 32 bits of words (drivers/infiniband/core/sysfs.c)."""
_MOST_IB_ERRORS = 2**16 - 1
"""The largest number of errors or drops of an InfiniBand port: PortCounters has 16 bits for each of them."""
UNKNOWN_LINK = LinkRates(None, None, None, None, None)


def network_rates(
    before: Mapping[str, LinkCounters] | None, after: Mapping[str, LinkCounters], seconds: float | None
) -> dict[str, LinkRates]:
    """The rates of every link. All are unknown for a new link; a single rate is unknown if its counter fell."""
    out = {}
    for name, now in after.items():
        old = None if before is None else before.get(name)
        if old is None:
            out[name] = UNKNOWN_LINK
            continue
        # -1: no counter stops at this value
        most_bytes, most_errors = (_MOST_IB_BYTES, _MOST_IB_ERRORS) if now.kind == "ib" else (-1, -1)
        rx = per_second(delta_up_to(most_bytes, old.rx_bytes, now.rx_bytes), seconds)
        tx = per_second(delta_up_to(most_bytes, old.tx_bytes, now.tx_bytes), seconds)
        errors = _growth(most_errors, (old.rx_errors, now.rx_errors), (old.tx_errors, now.tx_errors))
        drops = _growth(most_errors, (old.rx_dropped, now.rx_dropped), (old.tx_dropped, now.tx_dropped))
        busier = None if rx is None or tx is None else max(rx, tx) * 8
        out[name] = LinkRates(
            rx, tx, per_second(errors, seconds), per_second(drops, seconds), quotient(busier, now.bits_per_s)
        )
    return out


def _growth(most: int, *directions: tuple[int | None, int | None]) -> int | None:
    """The growth of a count over the directions that the link counts; None if unknown, or if it counts none.

    InfiniBand counts errors only while receiving, and drops only before sending; EFA counts only received drops.

    most: the value at which the counters stop
    directions: the counts (before, after) of each direction
    """
    counted = [delta_up_to(most, before, after) for before, after in directions if after is not None]
    return total(*counted) if counted else None


def received_bytes_per_s(links: Mapping[str, LinkCounters], rates: Mapping[str, LinkRates]) -> float | None:
    """The bytes per second that the machine receives, each byte once; None if the rates of all links are unknown."""
    return _sum_once(links, {name: rate.rx_bytes_per_s for name, rate in rates.items()})


def sent_bytes_per_s(links: Mapping[str, LinkCounters], rates: Mapping[str, LinkRates]) -> float | None:
    """The bytes per second that the machine sends, each byte once; None if the rates of all links are unknown."""
    return _sum_once(links, {name: rate.tx_bytes_per_s for name, rate in rates.items()})


def _sum_once(links: Mapping[str, LinkCounters], bytes_by_link: Mapping[str, float | None]) -> float | None:
    """The sum over devices; None if the bytes of all links are unknown.

    An RDMA port and the network interface of the same device may count the same bytes (IPoIB, RoCE of an uplink) or
    different bytes. So only the larger of the two counts is used, which is a lower bound of the true number.
    """
    places: dict[str, dict[str, float]] = {}
    for name, amount in bytes_by_link.items():
        link = links.get(name)
        place = name if link is None or link.place is None else link.place
        if place and amount is not None:
            kinds, kind = places.setdefault(place, {}), "nic" if link is None else link.kind
            kinds[kind] = kinds.get(kind, 0.0) + amount
    return sum(max(kinds.values()) for kinds in places.values()) if places else None
