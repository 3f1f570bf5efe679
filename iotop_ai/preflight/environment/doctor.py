"""The work of ``iotop-ai doctor``: reads facts about the machine and the user's Python, and checks them."""

from __future__ import annotations

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.model.clean import clean
from iotop_ai.model.preflight.environment.check import Check
from iotop_ai.model.preflight.environment.host import HostFacts
from iotop_ai.model.preflight.environment.python import PythonFacts
from iotop_ai.model.preflight.environment.report import Diagnosis, Machine
from iotop_ai.model.preflight.environment.script import ScriptFacts
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.preflight.environment.host import read_compat_driver, read_host_facts
from iotop_ai.preflight.environment.judge_gpu import judge_gpu
from iotop_ai.preflight.environment.judge_host import judge_host
from iotop_ai.preflight.environment.judge_machine import judge_machine
from iotop_ai.preflight.environment.judge_nccl import judge_nccl
from iotop_ai.preflight.environment.judge_python import judge_python
from iotop_ai.preflight.environment.judge_rights import judge_rights
from iotop_ai.preflight.environment.judge_script import judge_script
from iotop_ai.preflight.environment.locks import HeldLock, judge_held_locks, read_held_locks
from iotop_ai.preflight.environment.python import read_python
from iotop_ai.preflight.environment.script import read_script


def examine(
    snapshot: Snapshot, root: Root, python: str, folder: str, clock: Clock, script: str | None = None
) -> Diagnosis:
    """Read the facts and return the diagnosis.

    snapshot: a Snapshot of this machine. python: the interpreter that trains. folder: the folder in which training
    starts. script: the path of the training script; None if the user did not name one.
    """
    facts = read_host_facts(root)._replace(compat_driver=read_compat_driver(root))
    python_facts = read_python(python, folder, clock, script=script)
    held = read_held_locks(root, python_facts.held_locks)
    checks = all_checks(snapshot, facts, python_facts, held, None if script is None else read_script(script))
    return Diagnosis(clock.wall_ns() // 10**9, _machine(snapshot), facts, python_facts, checks)


def all_checks(
    snapshot: Snapshot,
    facts: HostFacts,
    python: PythonFacts,
    held: tuple[HeldLock, ...] = (),
    script: ScriptFacts | None = None,
) -> tuple[Check, ...]:
    """Return the checks of every area, in the order in which they are printed."""
    return (
        *judge_rights(snapshot, facts),
        *judge_gpu(snapshot, facts, python),
        *judge_host(facts, snapshot.host.container),
        *judge_machine(snapshot, facts),
        *judge_python(python, facts),
        *judge_held_locks(held),
        *judge_nccl(facts),
        *judge_script(python, facts, script),
    )


def _machine(snapshot: Snapshot) -> Machine:
    # The details of the GPUs, such as the driver's version, are in gpu_slow, because they are read less often.
    details = [reading.value for reading in (snapshot.gpu_slow.value or {}).values() if reading.value is not None]
    gpus = [reading.value.name for reading in (snapshot.gpu.value or {}).values() if reading.value is not None]
    memory = snapshot.memory.value
    return Machine(
        name=snapshot.host.name,
        kernel=snapshot.host.kernel,
        container=snapshot.host.container,
        driver=next((clean(detail.driver) for detail in details if detail.driver), ""),
        gpus=tuple(gpus),
        memory_bytes=None if memory is None else memory.total_bytes,
        swap_bytes=None if memory is None else memory.swap_total_bytes,
    )
