"""Checks the variables of NCCL and Gloo against the network of this machine.

Source: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from iotop_ai.model.preflight.environment.check import Check, State
from iotop_ai.model.preflight.environment.host import HostFacts

OK, WARN, FAIL, UNKNOWN = State
_CALLS = ("ALL", "COLL", "CALL", "P2P")
"""The subsystems of NCCL whose log has a line for each call."""


def judge_nccl(host: HostFacts) -> Iterator[Check]:
    """Yield checks of settings that prevent ranks from finding each other, or that slow their communication."""
    values = host.variables
    if host.links is not None:
        yield from _interface("NCCL_SOCKET_IFNAME", values.get("NCCL_SOCKET_IFNAME", ""), host.links, exact=False)
        yield from _interface("GLOO_SOCKET_IFNAME", values.get("GLOO_SOCKET_IFNAME", ""), host.links, exact=True)
    if values.get("NCCL_IB_DISABLE", "") not in ("", "0") and host.rdma:
        yield _slow("NCCL_IB_DISABLE", values["NCCL_IB_DISABLE"], "NCCL uses TCP in place of InfiniBand")
    subsystems = [word for word in values.get("NCCL_DEBUG_SUBSYS", "").upper().split(",") if word]
    if values.get("NCCL_DEBUG", "").upper() == "INFO" and any(word in _CALLS for word in subsystems):
        yield _slow("NCCL_DEBUG_SUBSYS", ",".join(subsystems), "a line is printed on each call")


def _slow(name: str, value: str, effect: str) -> Check:
    return Check("python", name, WARN, f"{value}: {effect}", f"unset {name}")


def _interface(name: str, value: str, links: Sequence[tuple[str, str]], *, exact: bool) -> Iterator[Check]:
    """Yield a check if no interface matches the variable's value, or if all that match are down.

    value: a comma-separated list of name prefixes; after a leading "=", of whole names; after a leading "^", of
    interfaces to exclude, and such a list is not checked. exact: whether the list always holds whole names.
    """
    if not value or value.startswith("^"):
        return
    wanted = [part for part in value.lstrip("=").split(",") if part]
    whole_names = exact or value.startswith("=")
    matching = [
        link for link in links if any(link[0] == part if whole_names else link[0].startswith(part) for part in wanted)
    ]
    existing = ", ".join(link for link, _ in links) or "none"
    if not matching:
        text = f"{value}: this machine has no such interface (it has {existing}): ranks cannot connect"
        yield Check("python", name, FAIL, text, f"unset {name}")
    elif all(state == "down" for _, state in matching):
        verb = "is" if len(matching) == 1 else "are"
        down = ", ".join(link for link, _ in matching)
        text = f"{value}: {down} {verb} down (existing: {existing}): ranks cannot connect"
        yield Check("python", name, FAIL, text, f"unset {name}, or: ip link set {shlex.quote(matching[0][0])} up")
