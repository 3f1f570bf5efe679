"""Machines with a training job, one for each cause. Keys: the class, and a further word if it has several scenes."""

from __future__ import annotations

from dataclasses import replace

from iotop_ai.model.job.records import IoLimit, JobMount
from iotop_ai.model.machine.filesystem import FilesystemUsage
from tests.diagnosis.build import (
    COMPUTING,
    GIB,
    JOB_ALONE,
    JOB_HEALTHY,
    JOB_PREPARING,
    JOB_STARVED,
    LOADERS,
    MB,
    SLOW_SSD,
    TRAINER_OLD,
    Disk,
    Machine,
    Task,
    Training,
)

NFS = (JobMount("/nfs", "nfs4", "srv:/in21k", "0:50"),)
NO_WORKERS = Training(TRAINER_OLD, main_disk=0.8, main_running=0.05, blocked=0.8)
NO_READINGS = replace(JOB_ALONE, without_readings=True)
NORMAL = replace(SLOW_SSD, await_ms=1.2, queue=7.9)


def with_job(machine: Machine, **job: object) -> Machine:
    assert machine.job is not None
    return replace(machine, job=replace(machine.job, **job))


DECODING = replace(TRAINER_OLD, read=8 * MB)
"""A trainer that reads and decodes its data itself."""

DATA_SCENES = {
    "storage_read": JOB_STARVED,
    "storage_read alone": JOB_ALONE,
    "storage_read by itself": replace(JOB_ALONE, job=NO_WORKERS, tasks=(replace(TRAINER_OLD, read=88 * MB),)),
    "small_random": replace(JOB_ALONE, disks=(replace(SLOW_SSD, size_bytes=8192.0, await_ms=3.0, queue=7.9),)),
    "network_fs": replace(with_job(JOB_ALONE, mounts=NFS), disks=(Disk(),)),
    "io_limit": with_job(JOB_ALONE, limits=(IoLimit("8:0", "read_bytes", int(88 * MB), "blkio/x/read_bps"),)),
    "io_limit reads": with_job(JOB_ALONE, limits=(IoLimit("8:0", "read_ios", 700, "blkio/x/read_iops"),)),
    "io_limit elsewhere": replace(JOB_ALONE, disks=(replace(NORMAL, queue=0.04),)),
    "cache_thrash": replace(JOB_ALONE, refault=80 * MB),
    "loader_serial": replace(JOB_ALONE, disks=(NORMAL,)),
    "cpu_prep": JOB_PREPARING,
    "object_stream": with_job(JOB_PREPARING, running=0.1, net=0.9),
    "single_thread": replace(
        JOB_PREPARING,
        job=Training(DECODING, main_running=0.86),
        tasks=(DECODING, *JOB_PREPARING.tasks[1:]),
        gpus=(0.1,),
        gpu_pids=(50,),
    ),
}

YOUNG = Training(replace(TRAINER_OLD, start=100), main_running=0.9, grown=40 * MB)
STARTING = replace(JOB_PREPARING, job=YOUNG, tasks=(YOUNG.task,), disks=(Disk(),))
WRITER = replace(TRAINER_OLD, write=25 * MB)
SAVING = replace(
    JOB_ALONE,
    tasks=(WRITER, *(replace(w, read=0.0, blocked=0.0) for w in LOADERS)),
    disks=(Disk(write_bytes_per_s=25 * MB, await_ms=800.0, busy=1.0),),
    job=replace(COMPUTING, task=WRITER, stall=0.0, saving=frozenset(range(8, 13))),
)
ON_GPU = replace(JOB_PREPARING, gpus=(0.4,), gpu_pids=(50,), disks=(Disk(),))
READS = (("data_disk", 0.6), ("compute", 0.4))
THREADS = Training(TRAINER_OLD, stall=0.0, apart=0.6, time=READS)
"""Threads of the trainer load the data, while its main thread sleeps in a futex."""
COMPILES = (TRAINER_OLD, *LOADERS, Task(61, "ptxas", TRAINER_OLD.pid, cpu=0.9))
TIME_SCENES = {
    "host_bound": replace(ON_GPU, job=Training(TRAINER_OLD, main_running=0.97, time=(("host", 0.6), ("compute", 0.4)))),
    "compiling": replace(ON_GPU, job=Training(TRAINER_OLD, time=(("compile", 0.9), ("compute", 0.1)))),
    "compiling first": replace(
        ON_GPU, job=replace(COMPUTING, time=(("startup", 0.9), ("compute", 0.1))), gpus=(0.1,), tasks=COMPILES
    ),
    "hung": replace(ON_GPU, job=replace(COMPUTING, stall=0.0, time=(("hung", 1.0),)), gpus=(0.0,)),
    "hung stopped": replace(ON_GPU, job=Training(TRAINER_OLD, time=(("stopped", 1.0),)), gpus=(0.0,)),
    "storage_read threads": replace(
        JOB_ALONE, job=THREADS, tasks=(replace(TRAINER_OLD, read=88 * MB),), gpus=(0.4,), gpu_pids=(50,)
    ),
    "cpu_prep threads": replace(ON_GPU, job=replace(THREADS, time=(("data_cpu", 0.6), ("compute", 0.4)))),
    "object_stream threads": replace(ON_GPU, job=replace(THREADS, time=(("data_network", 0.6), ("compute", 0.4)))),
    "single_thread main": replace(
        ON_GPU, job=Training(TRAINER_OLD, main_running=0.9, time=(("data_cpu", 0.6), ("compute", 0.4)))
    ),
    "checkpoint_write sync": replace(ON_GPU, job=replace(THREADS, time=(("checkpoint", 0.6), ("compute", 0.4)))),
}
FULL = {"/data": FilesystemUsage(100 * GIB, GIB // 2, GIB // 2, 0, 0)}
NO_INODES = {"/data": FilesystemUsage(100 * GIB, 50 * GIB, 50 * GIB, 1000, 5)}

STATE_SCENES = {
    "starting": STARTING,
    "starting compiles": replace(
        STARTING, job=replace(YOUNG, grown=0.0), tasks=(YOUNG.task, Task(60, "sh", 50), Task(61, "ptxas", 60, cpu=0.9))
    ),
    "checkpoint_write": SAVING,
    "mem_pressure": replace(JOB_HEALTHY, memory_pressure=0.2),
    "mem_pressure swaps": replace(JOB_HEALTHY, swap_in=4 * MB, memory_pressure=0.06),
    "shm_full": replace(JOB_HEALTHY, job=replace(COMPUTING, stall=0.01, shm=0.95)),
    "fs_full": replace(JOB_HEALTHY, usage=FULL),
    "fs_full inodes": replace(JOB_HEALTHY, usage=NO_INODES),
    "healthy": JOB_HEALTHY,
    "healthy GPU": replace(JOB_HEALTHY, gpus=(0.8,), gpu_pids=(50,), power=500.0),
    "gpu_bound": replace(JOB_HEALTHY, gpus=(0.97,), gpu_pids=(50,), power=600.0),
}
