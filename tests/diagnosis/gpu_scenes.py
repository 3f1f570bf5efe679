"""Machines whose GPUs have a problem, one for each cause.

Keys: the class, and a further word if it has several scenes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from iotop_ai.model.gpu.state import GpuProcess
from iotop_ai.model.machine.kernel_log import DeviceErrors
from tests.diagnosis.build import COMPUTING, GIB, JOB_HEALTHY, LOADERS, TRAINER_OLD, Machine, Task, Training
from tests.diagnosis.job_scenes import with_job

TOTAL = 80 * GIB
LINK: dict[str, Any] = {"pcie_max_generation": 5, "pcie_max_width": 16}
FULL_LINK: dict[str, Any] = {
    "pcie_generation": 5,
    "pcie_width": 16,
    "pcie_rx_bytes_per_s": 1e9,
    "pcie_replays_per_s": 0.0,
}
COOL: dict[str, Any] = {
    "sw_thermal_ratio": 0.0, "hw_thermal_ratio": 0.0, "power_brake_ratio": 0.0, "power_cap_ratio": 0.9,
    "temperature_celsius": 64.0, "sm_mhz": 1755.0, "memory_used_bytes": 60.0 * GIB, "memory_total_bytes": 80.0 * GIB,
    "slowed": False, **FULL_LINK,
}  # fmt: skip
DETAIL: dict[str, Any] = {
    "default_limit_mw": 700_000, "slowdown_celsius": 90, "rows_failed": False, "recovery": 0, "ecc_uncorrected": 0
}  # fmt: skip
FED = replace(
    JOB_HEALTHY, job=replace(COMPUTING, stall=0.01, disk=0.5, running=0.5, worker_cpu=0.05, worker_disk=0.02),
    gpus=(0.97,) * 8, gpu_pids=(50,), power=620.0, gpu_rates=COOL, gpu_detail=DETAIL,
    gpu_state={"sm_max_mhz": 1980, "power_limit_mw": 700_000, "memory_total_bytes": TOTAL, **LINK},
)  # fmt: skip
"""Eight GPUs that compute, with every figure that a Hopper card reports."""
PAIR = replace(FED, gpus=(0.97, 0.97))


def rates(machine: Machine, **more: object) -> Machine:
    """The machine, with these rates of every GPU changed."""
    return replace(machine, gpu_rates={**machine.gpu_rates, **more})


def first_gpu(machine: Machine, **more: object) -> Machine:
    """The machine, with these rates of GPU 0 changed."""
    return replace(machine, gpu_only_rates={0: more})


SPINNING = replace(FED, power=98.0, gpus=(1.0,) * 8)
WRITING = tuple(replace(worker, write_calls=8.0) for worker in LOADERS)
FEW_KERNELS = with_job(replace(SPINNING, tasks=(TRAINER_OLD, *WRITING)), workers=WRITING)
ON_CPU = replace(
    with_job(FED, evidence=("library", "loader")), gpus=(0.0,), gpu_pids=(), power=60.0,
    tasks=(replace(TRAINER_OLD, cpu=1.9), *LOADERS),
)  # fmt: skip
INTEGRATED: dict[str, Any] = {
    "uuid": "AMD-0000:0f:00.0", "name": "AMD GPU 164e", "power_limit_mw": None, "memory_total_bytes": GIB // 2,
}  # fmt: skip
"""The graphics in a processor of AMD."""
STRANGER = GpuProcess(900, 30 * GIB, "compute")
_OTHER_TRAINER = replace(TRAINER_OLD, pid=60)
_ALONE = Training(TRAINER_OLD, stall=0.0, main_running=0.9, time=(("compute", 1.0),), evidence=("library",))
TWO_HIDDEN_JOBS = Machine(
    job=_ALONE, second_job=replace(_ALONE, task=_OTHER_TRAINER), tasks=(TRAINER_OLD, _OTHER_TRAINER),
    gpus=(1.0, 1.0), power=120.0, cpu=0.3, gpu_state={"processes": (), "memory_used_bytes": 10 * GIB},
)  # fmt: skip
"""Two jobs, each with small kernels on a GPU of its own, in a container that hides the processes on the GPUs."""


def two_programs(first: Task, second: Task) -> Machine:
    """Two processes that are not of a job, each with a GPU that is busy and draws little power."""
    own = {i: {"processes": (GpuProcess(task.pid, GIB, "compute"),)} for i, task in enumerate((first, second))}
    return replace(TWO_HIDDEN_JOBS, job=None, second_job=None, tasks=(first, second), gpu_only=own)


GPU_SCENES = {
    "gpu_throttle": first_gpu(FED, hw_thermal_ratio=0.3, sm_mhz=900.0, temperature_celsius=91.0),
    "gpu_throttle all": rates(FED, sw_thermal_ratio=0.4, sm_mhz=1200.0, temperature_celsius=88.0),
    "gpu_throttle brake": first_gpu(FED, power_brake_ratio=0.6, sm_mhz=700.0),
    "gpu_throttle by mask": rates(
        FED, sw_thermal_ratio=None, hw_thermal_ratio=None, power_brake_ratio=None, slowed=True, sm_mhz=1000.0
    ),
    "gpu_throttle lowered": replace(
        rates(FED, power_limit_watts=400.0, sm_mhz=1300.0),
        power=395.0, gpu_state={**FED.gpu_state, "power_limit_mw": 400_000},
    ),
    "pcie full": replace(rates(FED, pcie_rx_bytes_per_s=45e9), gpus=(0.6,) * 8, power=300.0),
    "pcie narrow": replace(first_gpu(FED, pcie_width=4, pcie_rx_bytes_per_s=9e9), gpus=(0.6,) * 8, power=300.0),
    "pcie slow unmeasured": rates(FED, pcie_generation=1, pcie_rx_bytes_per_s=None),
    "pcie replays": first_gpu(FED, pcie_replays_per_s=4000.0),
    "gpu_memory shared": replace(
        rates(FED, memory_used_bytes=78.0 * GIB),
        gpu_only={0: {"processes": (GpuProcess(50, 48 * GIB, "compute"), STRANGER)}},
    ),
    "gpu_fault lost": replace(FED, gpu_lost=frozenset((3,))),
    "gpu_fault board": replace(FED, gpu_only={2: {"last_xid": 48, "last_xid_at_ns": 0}}),
    "gpu_fault hidden processes": replace(
        FED, gpu_pids=(), gpu_state={**FED.gpu_state, "processes": (), "memory_used_bytes": 60 * GIB},
        gpu_only={2: {"last_xid": 48, "last_xid_at_ns": 0}},
    ),
    "gpu_fault program": replace(FED, gpu_only={0: {"last_xid": 31, "last_xid_at_ns": 0}}),
    "gpu_fault reset": replace(
        FED, gpu_only={2: {"bus_id": "0000:C1:00.0"}}, errors={"0000:c1:00.0": DeviceErrors(1, 0, "ring timeout")}
    ),
    "gpu_fault rows": replace(FED, gpu_detail={**DETAIL, "rows_failed": True}),
    "gpu_fault sram": replace(FED, gpu_detail={**DETAIL, "sram_exceeded": True}),
    "gpu_fault recovery": replace(FED, gpu_detail={**DETAIL, "recovery": 2}),
    "gpu_fault ecc": replace(FED, gpu_detail={**DETAIL, "ecc_uncorrected": 3}),
    "no_gpu": ON_CPU,
    "comm_wait": SPINNING,
    "comm_wait by tensor": rates(FEW_KERNELS, tensor_ratio=0.0, sm_ratio=0.14, power_watts=240.0),
    "comm_wait network": replace(FEW_KERNELS, links={"eth0": 0.93, "lo": 0.0}),
    "comm_wait unclear": FEW_KERNELS,
    "imbalance": replace(PAIR, gpus=(0.42, 1.0), power=310.0),
    "imbalance by power": replace(first_gpu(FED, power_watts=640.0), power=230.0),
    "imbalance without power": replace(
        rates(FED, power_watts=None), power=None, gpus=(0.5, *(0.99,) * 7)
    ),
    "imbalance clock": replace(
        FED, gpu_only_rates={0: {"sm_mhz": 900.0, "power_watts": 500.0}}, power=210.0, gpus=(0.99,) * 8
    ),
}  # fmt: skip

GPU_NEAR_MISSES = {
    "gpu_throttle warm": rates(FED, temperature_celsius=79.0),
    "gpu_throttle a junction at 86 C": replace(
        rates(FED, temperature_celsius=86.0), gpu_detail={**DETAIL, "slowdown_celsius": 100},
        gpu_state={**FED.gpu_state, "temperature_sensor": "junction"},
    ),
    "gpu_fault sram errors corrected": replace(FED, gpu_detail={**DETAIL, "sram_exceeded": False, "sram_corrected": 9}),
    "gpu_fault of another device": replace(
        FED, gpu_only={2: {"bus_id": "00000000:C2:00.0"}}, errors={"0000:c1:00.0": DeviceErrors(1, 0, "PCIe")}
    ),
    "gpu_throttle a little": rates(FED, sw_thermal_ratio=0.02),
    "gpu_throttle idle": replace(rates(FED, hw_thermal_ratio=0.4), gpus=(0.3,) * 8, power=200.0),
    "gpu_throttle own limit": rates(FED, power_cap_ratio=1.0),
    "gpu_throttle lowered unused": replace(
        rates(FED, power_limit_watts=400.0, power_cap_ratio=0.05),
        power=300.0, gpu_state={**FED.gpu_state, "power_limit_mw": 400_000},
    ),
    "pcie idle": replace(rates(FED, pcie_generation=1, pcie_rx_bytes_per_s=None), gpus=(0.1,) * 8, power=90.0),
    "pcie busy": rates(FED, pcie_rx_bytes_per_s=30e9),
    "pcie the slot has no more": replace(
        rates(FED, pcie_generation=4, pcie_width=8),
        gpu_detail={**DETAIL, "slot_max_generation": 4, "slot_max_width": 8},
    ),
    "pcie a replay now and then": rates(FED, pcie_replays_per_s=0.2),
    "gpu_memory": rates(FED, memory_used_bytes=72.0 * GIB),
    "gpu_fault mended": replace(FED, gpu_only={2: {"last_xid": 63, "last_xid_at_ns": 0}}),
    "no_gpu all in use": replace(ON_CPU, gpu_only={0: {"processes": (STRANGER,)}}),
    "no_gpu hidden": replace(ON_CPU, gpu_only={0: {"processes": (STRANGER._replace(found=False),)}}),
    "no_gpu unlisted": replace(ON_CPU, gpu_only={0: {"processes": None}}),
    "no_gpu opened": with_job(ON_CPU, evidence=("device", "library", "loader")),
    "no_gpu rests": replace(ON_CPU, tasks=(replace(TRAINER_OLD, cpu=0.0), *(replace(w, cpu=0.0) for w in LOADERS))),
    "no_gpu none": replace(ON_CPU, gpus=()),
    "no_gpu integrated": replace(ON_CPU, gpu_only={0: INTEGRATED}),
    "comm_wait one GPU": replace(SPINNING, gpus=(1.0,)),
    "comm_wait computes": rates(SPINNING, sm_ratio=0.7),
    "comm_wait batches are made and taken": with_job(FEW_KERNELS, workers=WRITING, worker_cpu=0.6),
    "comm_wait draws power": replace(FEW_KERNELS, power=230.0),
    "comm_wait without power": replace(SPINNING, power=None),
    "comm_wait one draws power": replace(SPINNING, gpu_only_rates={5: {"power_watts": 500.0}}),
    "comm_wait of hidden strangers": TWO_HIDDEN_JOBS,
    "comm_wait of strangers": two_programs(Task(900, "render", 1, cpu=1.0), Task(901, "fold", 1, cpu=1.0)),
    "comm_wait of strangers in two shells": two_programs(Task(900, "render", 70), Task(901, "fold", 80)),
    "comm_wait one less busy": replace(SPINNING, gpus=(0.5, *(1.0,) * 7)),
    "imbalance a little": replace(FED, gpus=(0.85, *(0.98,) * 7)),
    "imbalance two compute": replace(
        FED, gpu_only_rates={0: {"power_watts": 640.0}, 1: {"power_watts": 630.0}}, power=210.0
    ),
    "imbalance of strangers": replace(FED, gpus=(0.5, *(0.99,) * 7), job=None),
    "imbalance one unknown": replace(FED, gpus=(None, *(0.98,) * 7)),
}  # fmt: skip

GPU_ASIDE = {
    "gpu_bound pcie": rates(FED, pcie_width=8),
    "gpu_bound gpu_throttle": rates(FED, temperature_celsius=86.0),
    "gpu_bound gpu_memory": rates(FED, memory_used_bytes=78.0 * GIB),
    "gpu_bound gpu_fault": replace(
        FED, gpus=(*(0.97,) * 7, 0.0),
        gpu_only={7: {"processes": (), "memory_used_bytes": 0, "last_xid": 79, "last_xid_at_ns": 0}},
    ),
    "gpu_bound imbalance": replace(FED, gpus=(0.6, *(0.99,) * 7), gpu_only_rates={0: {"power_watts": 400.0}}),
}  # fmt: skip
"""Problems that cost nothing now. They are shown beside the verdict, whose class is the first word of the key."""
SPINNING_TRAINER = replace(
    with_job(FED, workers=(), stall=0.0, main_running=1.0), gpus=(0.98,),
    tasks=(Task(50, "python", 1, cpu=1.0, start=-100_000),),
)  # fmt: skip
"""A main thread that spins while its GPU computes, as CUDA lets it do while a core is free."""
