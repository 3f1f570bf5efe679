"""Reads all cards of AMD and Intel, one after the other (a sweep), with the processes that use them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from iotop_ai.collectors.gpu.amd import AmdCards, load_smi
from iotop_ai.collectors.gpu.drm_clients import NO_USE, DeviceUse, DrmClients, kfd_processes
from iotop_ai.collectors.gpu.intel import IntelCards
from iotop_ai.collectors.gpu.pid_mapping import in_first_namespace
from iotop_ai.collectors.gpu.topology import DRM, with_topology
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.machine.host import in_initial_user_namespace
from iotop_ai.model.gpu.detail import GpuDetail
from iotop_ai.model.gpu.state import ENGINE_TIMES, GpuProcess, GpuState
from iotop_ai.model.reading import Reading, Status

SEARCH_EVERY_SWEEPS = 5
"""The cards are searched for once in this number of sweeps."""
OTHERS_HIDDEN = "other users' processes on it cannot be seen"


class DrmSweep:
    """Reads all cards in each sweep, and finds the cards and reads their limits in every fifth sweep.

    Only one thread may use this class.
    """

    def __init__(self, root: Root, clock: Clock) -> None:
        self._root = root
        self._clock = clock
        self._amd = AmdCards(root, clock)
        self._intel = IntelCards(root, clock)
        self._driver_of: dict[str, AmdCards | IntelCards] = {}
        self._smi_loaded = False
        self._sweeps = 0
        self._cards: tuple[str, ...] = ()
        self._amd_count = 0
        self._clients = DrmClients(root, clock)
        self._has_host_pids = in_first_namespace(root)
        # The root user of a container or of another user namespace cannot see the processes outside.
        on_host = self._has_host_pids and (not root.live or in_initial_user_namespace(root))
        self._sees_all_users = on_host and (not root.live or os.geteuid() == 0)
        self._remedy = "run as root" if on_host else "run as root on the host"
        self.details: dict[str, Reading[GpuDetail]] = {}
        self.details_at_ns: int | None = None

    def read(self, first_number: int = 0) -> dict[str, Reading[GpuState]]:
        """Return the Reading of each card; {} without a card.

        first_number: the number of the first card, which follows the numbers of other drivers' GPUs.
        """
        if self._sweeps % SEARCH_EVERY_SWEEPS == 0:
            self._find_cards()
        self._sweeps += 1
        out = {}
        used = self._clients.read() if self._cards else {}
        rocm = kfd_processes(self._root) if self._cards else {}
        for card in self._cards:
            start_ns = self._clock.monotonic_ns()
            state = self._driver_of[card].state(card)
            # Each driver counts from 0, so two GPUs of a machine would otherwise have the same number.
            state = state._replace(
                number=first_number + state.number + (self._amd_count if self._driver_of[card] is self._intel else 0)
            )
            state = with_use(
                state,
                used.get(state.bus_id) or (NO_USE if self._sees_all_users and self._is_unused_intel(card) else None),
                rocm.get(state.bus_id),
                self._clients.at_ns,
                all_users=self._sees_all_users,
                host_pids=self._has_host_pids,
            )
            end_ns = self._clock.monotonic_ns()
            reason, remedy = ("", "") if self._sees_all_users else (OTHERS_HIDDEN, self._remedy)
            out[card] = Reading(state, Status.OK, reason, remedy, end_ns, end_ns - start_ns)
        return out

    def _is_unused_intel(self, card: str) -> bool:
        """Whether a card is from Intel and no process has it open. On AMD GPUs, fdinfo does not count ROCm's work."""
        return self._driver_of[card] is self._intel and not self._clients.has_open(self._intel.devices(card))

    def _find_cards(self) -> None:
        try:
            self._root.entries(DRM)
        except OSError:  # too many files are open, or we may not list the cards, so the known cards are kept
            return
        names = self._amd.cards()
        if names and not self._smi_loaded and self._root.live:
            self._smi_loaded = True
            self._amd = AmdCards(self._root, self._clock, load_smi())
            names = self._amd.cards()
        self._driver_of = {**dict.fromkeys(names, self._amd), **dict.fromkeys(self._intel.cards(), self._intel)}
        self._cards = tuple(self._driver_of)
        self._amd_count = len(names)
        self.details = {}
        for card, driver in self._driver_of.items():
            start_ns = self._clock.monotonic_ns()
            detail = with_topology(self._root, driver.detail(card), driver.bus_id(card))
            end_ns = self._clock.monotonic_ns()
            self.details[card] = Reading(detail, Status.OK, "", "", end_ns, end_ns - start_ns)
        self.details_at_ns = self._clock.monotonic_ns()


def with_use(
    state: GpuState,
    use: DeviceUse | None,
    rocm: Mapping[int, int] | None,
    at_ns: int | None,
    *,
    all_users: bool,
    host_pids: bool = True,
) -> GpuState:
    """Return the state with the processes that use the GPU.

    rocm: the bytes of GPU memory of ROCm's processes by the host's PIDs. all_users: whether the processes of all users
    were seen. If not, the engine times are left out, because the times of only some processes would be too low.
    host_pids: whether the PIDs of ``use`` are the host's; in a container, the local process for a PID of ``rocm`` is
    unknown.
    """
    by_pid = {process.pid: process for process in (use.processes if use is not None else ())}
    unmapped = []
    for pid, held_bytes in (rocm or {}).items():
        process = by_pid.get(pid, GpuProcess(pid, 0, "compute"))
        # The compute time of ROCm is unknown; a share of 0 % would be wrong.
        if host_pids:
            memory_bytes = max(held_bytes, process.memory_bytes or 0)
            by_pid[pid] = process._replace(kind="compute", memory_bytes=memory_bytes, sm_percent=None)
        else:
            unmapped.append(GpuProcess(pid, held_bytes, "compute", found=False))
    processes = (*(by_pid[pid] for pid in sorted(by_pid)), *sorted(unmapped))
    # If processes of other users cannot be seen, an empty list does not prove that the GPU is unused.
    state = state._replace(processes=processes if processes or all_users else None)
    if not all_users or use is None or not use.busy_ns:
        return state
    times: dict[str, Any] = {name: use.busy_ns.get(name) for name in ENGINE_TIMES}
    return state._replace(engines_at_ns=at_ns, **times)
