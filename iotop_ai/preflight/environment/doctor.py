"""All of ``iotop-ai doctor``: reads the facts and has them judged."""

from __future__ import annotations

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.model.clean import clean
from iotop_ai.model.preflight.environment.check import Check
from iotop_ai.model.preflight.environment.host import HostFacts
from iotop_ai.model.preflight.environment.python import PythonFacts
from iotop_ai.model.preflight.environment.report import Diagnosis, Machine
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.preflight.environment.host import read_host_facts
from iotop_ai.preflight.environment.judge_gpu import judge_gpu
from iotop_ai.preflight.environment.judge_host import judge_host
from iotop_ai.preflight.environment.judge_machine import judge_machine
from iotop_ai.preflight.environment.judge_python import judge_python
from iotop_ai.preflight.environment.judge_rights import judge_rights
from iotop_ai.preflight.environment.python import read_python


def examine(snapshot: Snapshot, root: Root, python: str, folder: str, clock: Clock) -> Diagnosis:
    """The whole diagnosis. snapshot: of this machine. folder: where the training starts."""
    facts, found = read_host_facts(root), read_python(python, folder, clock)
    checks = judged(snapshot, facts, found)
    return Diagnosis(clock.wall_ns() // 10**9, _machine(snapshot), facts, found, checks)


def judged(snapshot: Snapshot, facts: HostFacts, python: PythonFacts) -> tuple[Check, ...]:
    """All lines, by area."""
    return (
        *judge_rights(snapshot, facts),
        *judge_gpu(snapshot, facts, python),
        *judge_host(facts, snapshot.host.container),
        *judge_machine(snapshot, facts),
        *judge_python(python, facts),
    )


def _machine(snapshot: Snapshot) -> Machine:
    details = [one.value for one in (snapshot.gpu_slow.value or {}).values() if one.value is not None]
    gpus = [one.value.name for one in (snapshot.gpu.value or {}).values() if one.value is not None]
    memory = snapshot.memory.value
    return Machine(
        name=snapshot.host.name,
        kernel=snapshot.host.kernel,
        container=snapshot.host.container,
        driver=next((clean(one.driver) for one in details if one.driver), ""),
        gpus=tuple(gpus),
        memory_bytes=None if memory is None else memory.total_bytes,
        swap_bytes=None if memory is None else memory.swap_total_bytes,
    )
