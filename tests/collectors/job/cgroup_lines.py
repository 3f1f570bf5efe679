"""The text of /proc/PID/cgroup on machines where only some controllers have a cgroup for the job."""


def slurm_v1(job: int, task: int = 0) -> str:
    """A task of Slurm with cgroup v1: Slurm makes no cgroup for blkio and pids."""
    step = f"/slurm/uid_1000/job_{job}/step_0"
    return (
        f"12:rdma:/\n11:freezer:{step}\n10:cpuset:{step}/task_{task}\n9:hugetlb:/\n8:devices:{step}/task_{task}\n"
        f"7:cpu,cpuacct:{step}/task_{task}\n5:pids:/system.slice/slurmd.service\n4:memory:{step}/task_{task}\n"
        "3:blkio:/system.slice/slurmd.service\n1:name=systemd:/system.slice/slurmd.service\n"
    )


def docker_hybrid(container: str) -> str:
    """A process in a container of Docker on a machine with cgroup v1 beside v2: Docker makes no cgroup of v2."""
    path = f"/docker/{container}"
    return (
        f"12:pids:{path}\n11:freezer:{path}\n10:rdma:/\n8:memory:{path}\n4:cpu,cpuacct:{path}\n2:blkio:{path}\n"
        f"1:name=systemd:{path}\n0::/system.slice/containerd.service\n"
    )
