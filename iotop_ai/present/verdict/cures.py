"""The sentence for each piece of advice, made from its template id and arguments.

A function for one template has the template's name.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from iotop_ai.model.clean import clean
from iotop_ai.model.finding import Advice
from iotop_ai.present.text import units
from iotop_ai.present.verdict.advice import (
    Args,
    amount,
    core_count,
    idle_cores,
    limit_text,
    milliseconds,
    number,
    percent,
    rate,
    whole,
    word,
)
from iotop_ai.present.verdict.rank_cures import ask_peers, compare_ranks, help_late
from iotop_ai.present.verdict.stack_words import (
    COMPILE_ADVICE,
    COMPILE_CACHE,
    READS_AHEAD,
    SAVES,
    SEES_GPU,
    SYNCS,
    compiler,
    fewer_batches,
    for_framework,
    more_threads,
    pack_files,
)


def _quoted(a: Args, name: str) -> str:
    """The text argument of this name as a word of a shell command. A path may contain spaces and special characters.

    Unlike in ``word``, its characters are not composed (NFC), because the composed path would be that of another file.
    """
    from shlex import quote  # few verdicts have a command

    value = a.get(name)
    return quote(clean(value) if isinstance(value, str) else "")


def _source(a: Args) -> str:
    """The dataset's directory with its size and the time to copy it: "/data (at most 1.3 TB and ~4 h)". Both are upper
    limits, because the job may read only part of the directory, and because a sequential copy is faster than the job's
    reads. For a directory that usually holds more than one dataset (``shared``), neither is given: "its dataset on
    /home".
    """
    if number(a, "shared"):
        return f"its dataset on {word(a, 'source')}"
    hours = number(a, "hours")
    takes = "" if hours is None else f" and ~{units.duration(hours * 3600)}"
    return f"{word(a, 'source')} (at most {amount(a, 'bytes')}{takes})"


def _target(a: Args) -> str:
    """The place to copy to: "/scratch (nvme1n1, 1.3 TB of room)"."""
    return f"{word(a, 'target')} ({word(a, 'target_device')}, {amount(a, 'room')} of room)"


def _copy_data(a: Args) -> str:
    return f"copy {_source(a)} to {_target(a)}"


def _keep_in_memory(a: Args) -> str:
    return f"read {_source(a)} once: it then stays in memory ({amount(a, 'room')} free)"


def _stage_local(a: Args) -> str:
    where = _target(a) if word(a, "target") else "a local disk"
    return f"copy its dataset on {word(a, 'mount')} to {where} before the run"


def _raise_quota(a: Args) -> str:
    share = number(a, "throttled")
    used_up = "" if share is None else f" (used up in {percent(a, 'throttled')} of its periods)"
    return f"raise the CPU quota of {_cores_text(number(a, 'quota') or 0.0)}{used_up}: {_idle_text(a)}"


def _idle_text(a: Args) -> str:
    return f"{_cores_text(number(a, 'idle') or 0.0)} idle"


def _nfs_options(a: Args) -> str:
    """The advice about an NFS mount, by where its reads spend their time."""
    mount, server = word(a, "mount"), milliseconds(number(a, "rtt_ms"))
    if number(a, "resent") is not None:
        return f"check the network to the server of {mount}: {percent(a, 'resent')} of its reads are sent again"
    if number(a, "rsize") is not None:
        now = f"{whole(a, 'rsize')} now, if the server allows more"
        return f"mount {mount} with rsize=1048576 ({now}): the server answers in {server} ms"
    waits = milliseconds(number(a, "queue_ms"))
    slots = ", raise nfs.max_session_slots" if word(a, "fstype") == "nfs4" else ""
    how = f"unmount all of its server, then use nconnect={whole(a, 'then')} ({whole(a, 'nconnect')} now){slots}"
    return f"remount {mount}: {how}; a read waits {waits} ms here, then {server} ms for the server"


def _needed_rate(a: Args) -> str:
    needed = rate(number(a, "needed"))
    return f"give the GPUs the ~{needed} they ask for: {word(a, 'device')} gives {rate(number(a, 'rate'))}"


def _drawn_rate(a: Args) -> str:
    """The advice to read more at once. The rule knows that the readers wait, but not whether the disk serves
    more reads at once.
    """
    return f"give {word(a, 'device')} more reads at once if it serves them: {_drawn(a)}"


def _drawn(a: Args) -> str:
    """What the readers get now: "2 workers draw 3.7 MB/s, one read each at 66 ms"."""
    readers = max(1, round(number(a, "readers") or 0.0))
    subject = units.plural(readers, "worker" if number(a, "workers") else "reader")
    each = "one read each" if readers > 1 else "one read at a time"
    drawn = f"{subject} draw{'' if readers > 1 else 's'} {rate(number(a, 'rate'))}"
    return f"{drawn}, {each} at {milliseconds(number(a, 'await_ms'))} ms"


def _more_in_flight(a: Args) -> str:
    """The advice to read more at once. It is conditional, because a disk's counters do not show how much more the disk
    can serve.
    """
    check = f"iotop-ai check {_quoted(a, 'source') if word(a, 'source') else 'DIR'} measures it"
    if number(a, "then") is None:
        return f"use larger reads, or more of them at once, if {word(a, 'device')} serves them ({check}): {_drawn(a)}"
    more = f"raise {_workers_setting(a)} {whole(a, 'now')} -> {whole(a, 'then')}{_per_rank(a)}"
    return f"{more} if {word(a, 'device')} serves more reads at once ({check}): {_drawn(a)}"


def _faster_storage(a: Args) -> str:
    return f"move the data to faster storage: {word(a, 'device')} gives {rate(number(a, 'rate'))}"


def _workers_setting(a: Args) -> str:
    """The option of the job's command line for the number of loader workers, else the framework's setting."""
    return word(a, "option") or ("worker_count" if word(a, "framework") == "jax" else "num_workers")


def _more_workers(a: Args) -> str:
    several, per, idle = (number(a, "ranks") or 1) > 1, word(a, "per") or "rank", number(a, "idle")
    why = f"80 % of {core_count(a)} {'physical ' if number(a, 'physical') else ''}cores"
    why += f" / {whole(a, 'ranks')} {per}s" if several else ""
    if idle is not None:
        why = f"{_cores_text(idle)} idle"
    each = f" per {per}" if several else ""
    return f"raise {_workers_setting(a)} {whole(a, 'now')} -> {whole(a, 'then')}{each} ({why})"


def _cores_text(count: float) -> str:
    return f"{units.figure(count)} core{'' if count == 1 else 's'}"


_MOST_OF_USED = 0.5
"""If other programs use more than this part of the used cores, the sentence says so."""
_NONE_IDLE_CORES, _NONE_IDLE_RATIO = 0.25, 0.02
"""If fewer cores than _NONE_IDLE_CORES are idle, or a smaller part of all cores than _NONE_IDLE_RATIO, the sentence
says that all cores are used.
"""


def _cheaper_transforms(a: Args) -> str:
    cores, idle = number(a, "cores"), number(a, "idle")
    decode = "; decode on the GPU" if number(a, "gpu") else ""
    if number(a, "short"):
        return f"use cheaper transforms: workers wait for a core{decode}"
    if cores is None or idle is None:
        return f"use cheaper transforms{decode}"
    if idle < max(_NONE_IDLE_CORES, _NONE_IDLE_RATIO * cores):
        used = "the one core is" if cores == 1 else f"all {core_count(a)} cores are"
        by = ", mostly by other programs" if (number(a, "others") or 0.0) > _MOST_OF_USED else ""
        return f"use cheaper transforms: {used} used{by}{decode}"
    ranks = number(a, "ranks") or 1
    few = f", too few for {ranks:.0f} ranks" if ranks > 1 else ""
    only = "only " if idle < 1 else ""
    return f"use cheaper transforms: {only}{idle_cores(a)}{few}{decode}"


def _per_rank(a: Args) -> str:
    return " per rank" if (number(a, "ranks") or 1) > 1 else ""


def _more_readers(a: Args) -> str:
    more = f"raise {_workers_setting(a)} {whole(a, 'now')} -> {whole(a, 'then')}{_per_rank(a)}"
    return f"{more}: waiting workers cost no CPU and read in parallel"


def _raise_limit(a: Args) -> str:
    if not word(a, "file"):
        return "look for a limit above this machine: the volume's or the hypervisor's IOPS and MB/s"
    return f"raise the limit of {limit_text(a)} in {word(a, 'file')}, or read less"


def _more_cache(a: Args) -> str:
    if number(a, "memory_limit") is not None:
        return f"raise the memory limit of {amount(a, 'memory_limit')}, or cache a fixed part of the data"
    return "keep a fixed part of the data in memory, store it smaller, or cache it on an NVMe"


_LEAST_SHM_GIB = 8
"""The smallest size of /dev/shm that the advice names."""


def _larger_shm(a: Args) -> str:
    """The advice for a full /dev/shm. A container cannot remount its /dev/shm: the size is set when the container
    starts.
    """
    fewer, inside = fewer_batches(a), number(a, "container")
    if not number(a, "may_grow"):
        return fewer
    twice = math.ceil(2 * (number(a, "total") or 0.0) / (1 << 30))
    option = f"--shm-size={max(_LEAST_SHM_GIB, twice)}g"
    if inside:
        return f"start the container with {option} or --ipc=host (Kubernetes: emptyDir medium: Memory)"
    here = "" if inside is not None else f" (in a container: start it with {option})"
    return f"run mount -o remount,size=50% /dev/shm{here}, or {fewer}"


def _cool_gpu(a: Args) -> str:
    celsius, slowdown = number(a, "celsius"), number(a, "slowdown")
    over = celsius is not None and slowdown is not None and celsius >= slowdown
    room = f" below {whole(a, 'slowdown')} C" if over else ""
    gpus = word(a, "who") or "the GPUs"
    return f"cool {gpus}{room}: fans, airflow, room; or lower the power limit for a steady clock"


def _raise_power(a: Args) -> str:
    """The advice to raise the power limit. Without the option -i, nvidia-smi would set the limit of every GPU."""
    known = f"the limit of {word(a, 'worst')} is {whole(a, 'limit')} W"
    if not word(a, "numbers"):
        return f"raise its power limit to {whole(a, 'default')} W: {known}"
    return f"run nvidia-smi -i {word(a, 'numbers')} -pl {whole(a, 'default')}: {known}"


def _check_power(a: Args) -> str:
    reason = "its power brake is on" if word(a, "why") else "it is slowed, but not hot"
    return f"check power supply, rack and cables of {word(a, 'worst')}: {reason}"


def _reseat(a: Args) -> str:
    now, most = ((number(a, f"generation{end}"), number(a, f"width{end}")) for end in ("", "_max"))
    less = any(n is not None and m is not None and n < m for n, m in zip(now, most, strict=True))
    full_link = f"its link can do gen {whole(a, 'generation_max')} x{whole(a, 'width_max')}"
    return f"reseat {word(a, 'worst')}, check riser and BIOS: {full_link if less else 'its link repeats packets'}"


def _dump(pid: str, name: str) -> str:
    return f"run py-spy dump --pid {pid} to see what {name or 'the process'} waits for"


def _end_sharer(a: Args) -> str:
    pid = "the other program's process" if number(a, "other_pid") is None else f"pid {whole(a, 'other_pid')}"
    return f"end {pid} if it is not needed, or use a GPU other than {word(a, 'worst')}"


_WITH_PRIORITIES = ("bfq", "mq-deadline", "cfq")
"""The I/O schedulers that obey ionice."""


def _command_for_all(a: Args, command: str) -> str:
    """The command for all processes of the other program: "ionice -c3 -p 702 703 (fio)".

    On Linux, such a command changes only the thread whose id it gets; for a process with several threads, ps lists all.
    """
    count = number(a, "others") or 1
    pids = word(a, "other_pids") or whole(a, "other_pid")
    if number(a, "threaded"):
        pids = f"$(ps -Lo lwp= -p {pids.replace(' ', ',')})"
    every = "" if word(a, "other_pids") or count <= 1 else f", and the same for all {count:.0f}"
    return f"{command} {pids} ({word(a, 'other')}{every})"


def _calm_neighbour(a: Args) -> str:
    elsewhere = f"give it a disk other than {word(a, 'device')}"
    if word(a, "scheduler") in _WITH_PRIORITIES:
        return f"{_command_for_all(a, 'ionice -c3 -p')}, or {elsewhere}"
    count = number(a, "others") or 1
    program = f"{word(a, 'other')} x{count:.0f}" if count > 1 else f"{word(a, 'other')} (pid {whole(a, 'other_pid')})"
    return f"stop {program}, limit it (io.max), or {elsewhere}"


def _calm_cpu(a: Args) -> str:
    return f"{_command_for_all(a, 'renice -n 19 -p')}, or keep it off these cores (taskset, cpuset)"


def _keep_workers(a: Args) -> str:
    turn, epoch = units.figure(number(a, "turn_s")), units.figure(number(a, "epoch_s"))
    how = "make the DataLoader once" if number(a, "persistent") else "use DataLoader(persistent_workers=True)"
    return f"{how}: it saves ~{turn} s of each {epoch} s"


def _worker_options(a: Args) -> str:
    """The advice to set the options of the DataLoader that are off."""
    names = (("pin", "pin_memory=True"), ("persist", "persistent_workers=True"))
    return f"set {', '.join(text for name, text in names if number(a, name))}"


def _use_gpu(a: Args) -> str:
    code = for_framework(a, SEES_GPU, "")
    return f"{f'run {code} and ' if code else ''}check CUDA_VISIBLE_DEVICES of pid {whole(a, 'pid')}"


def _save_async(a: Args) -> str:
    other = f", or to a disk other than {word(a, 'device')}" if word(a, "device") else ""
    return f"save in the background{for_framework(a, SAVES, '')}{other}"


def _less_memory(a: Args) -> str:
    limit = number(a, "memory_limit")
    raised = "" if limit is None else f"raise the memory limit of {amount(a, 'memory_limit')}, or "
    return f"{raised}{fewer_batches(a)}; store the dataset's Python lists as arrays"


def _make_room(a: Args) -> str:
    mount, kind = word(a, "mount"), word(a, "kind")
    if kind == "boot":
        return f"remove old kernels from {mount} with the package manager"
    if number(a, "inodes") is not None:
        return f"pack or delete small files: du --inodes -x {_quoted(a, 'mount')} | sort -n | tail shows where they are"
    if kind == "system":
        return f"run du -xh {_quoted(a, 'mount')} | sort -h | tail to see what fills it"
    return f"delete old checkpoints and logs on {mount}"


def _kernel_bus(a: Args) -> str:
    """The GPU's PCI address as the kernel logs it. NVML writes it with a longer domain and in capitals."""
    return word(a, "bus").lower()[-len("0000:00:00.0") :]


def _ask_owner(a: Args) -> str:
    wanted, user = word(a, "wanted"), word(a, "user") or "its owner"
    if wanted == "continue_job":
        return f"ask {user} to continue it: kill -CONT {whole(a, 'main')}, or thaw its cgroup"
    pid = f"pid {whole(a, 'other_pid')}"
    if wanted == "end_sharer":
        return f"ask {user} whether {pid} is needed, or use a GPU other than {word(a, 'worst')}"
    elsewhere = f"a disk other than {word(a, 'device')}" if wanted == "calm_neighbour" else "other cores"
    return f"ask {user} to run {word(a, 'other')} ({pid}) later, at low priority, or on {elsewhere}"


_ADVICE: dict[str, Callable[[Args], str]] = {
    "cool_gpu": _cool_gpu,
    "raise_power": _raise_power,
    "check_power": _check_power,
    "reseat": _reseat,
    "send_less": lambda a: (
        "send less: send uint8 and convert on the GPU, or keep the data on the GPU"
        + ("; copy faster with pin_memory" if word(a, "framework") in ("torch", "") else "")
    ),
    "less_gpu_memory": lambda a: "use a smaller batch with gradient accumulation, activation checkpointing or bf16",
    "end_sharer": _end_sharer,
    "reset_gpu": lambda a: (
        f"drain the job, reset {word(a, 'gpu')} (nvidia-smi -i {word(a, 'gpu').removeprefix('GPU ')} --gpu-reset);"
        " run dmesg | grep -i xid"
    ),
    "replace_gpu": lambda a: f"take {word(a, 'gpu')} out of use and have the board replaced",
    "reboot_node": lambda a: "drain the node and reboot it",
    "check_gpu_power": lambda a: f"check the auxiliary power cable of {word(a, 'gpu')} and the power supply",
    "look_xid_up": lambda a: f"look up Xid {whole(a, 'xid')} in NVIDIA's Xid catalogue; run dmesg | grep -i xid",
    "read_gpu_log": lambda a: f"run dmesg | grep {_kernel_bus(a)} to see why; if it happens again, drain and reboot",
    "drain_gpu": lambda a: f"drain the jobs on {word(a, 'gpu')} and its peers, then reset it",
    "debug_kernel": lambda a: "rerun with CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer: the program faulted",
    "use_gpu": _use_gpu,
    "ask_peers": ask_peers,
    "wider_network": lambda a: "use fewer or smaller exchanges: gradient accumulation, bf16 gradients, InfiniBand",
    "help_late": help_late,
    "compare_ranks": compare_ranks,
    "copy_data": _copy_data,
    "pack_files": pack_files,
    "needed_rate": _needed_rate,
    "drawn_rate": _drawn_rate,
    "more_in_flight": _more_in_flight,
    "more_reads_at_once": lambda a: for_framework(a, READS_AHEAD, READS_AHEAD["torch"]),
    "faster_storage": _faster_storage,
    "more_workers": _more_workers,
    "worker_options": _worker_options,
    "cheaper_transforms": _cheaper_transforms,
    "raise_quota": _raise_quota,
    "nfs_options": _nfs_options,
    "more_readers": _more_readers,
    "one_worker": lambda a: f"raise {_workers_setting(a)} 0 -> 1{_per_rank(a)}: loading then runs beside the training",
    "parallel_calls": lambda a: (
        "use num_parallel_calls=AUTOTUNE in tf.data's map and interleave, then prefetch(AUTOTUNE); cache() what fits"
    ),
    "more_threads": more_threads,
    "faster_simulation": lambda a: "run more environments per process, a cheaper simulation, or one on the GPU",
    "ray_tasks": lambda a: (
        "give Ray Data more CPUs and blocks (override_num_blocks), the trainer more prefetch_batches"
    ),
    "more_processes": lambda a: "use more processes if cores are idle (num_proc, the pool's size), or cheaper work",
    "stage_local": _stage_local,
    "raise_limit": _raise_limit,
    "more_cache": _more_cache,
    "more_connections": lambda a: "use more connections at once, a nearer store, or larger shards",
    "wait": lambda a: "wait: the verdict follows when the job trains",
    "fewer_syncs": lambda a: (
        f"use fewer {for_framework(a, SYNCS, SYNCS['torch'])}: each waits for the GPU; log every 50 steps"
    ),
    "compile_model": lambda a: f"{for_framework(a, COMPILE_ADVICE, 'compile the model')}, or use a larger batch",
    "keep_compiled": lambda a: f"keep what it compiles between runs{COMPILE_CACHE.get(word(a, 'framework'), '')}",
    "dump_stacks": lambda a: f"{_dump(whole(a, 'main'), word(a, 'job'))}; then dump its workers",
    "continue_job": lambda a: f"run kill -CONT {whole(a, 'main')}, or thaw its cgroup",
    "save_async": _save_async,
    "less_memory": _less_memory,
    "larger_shm": _larger_shm,
    "make_room": _make_room,
    "ask_owner": _ask_owner,
    "keep_in_memory": _keep_in_memory,
    "replace_disk": lambda a: f"back up {word(a, 'device')} now, then replace it",
    "reach_device": lambda a: (
        f"check dmesg -T | grep {_quoted(a, 'device')} for timeouts, and its server or controller"
    ),
    "resume_device": lambda a: (
        f"if dmsetup info {_quoted(a, 'label')} says SUSPENDED, run dmsetup resume {_quoted(a, 'label')}"
    ),
    "check_cable": lambda a: f"check {word(a, 'device')}'s cable, connector and backplane",
    "cool_disk": lambda a: (
        f"cool {word(a, 'device')}: air flow or a heat sink" + ("" if number(a, "hot") else "; it throttles itself")
    ),
    "larger_kernels": lambda a: f"try a larger batch, {compiler(a)}: the job's kernels do not fill the GPU",
    "gpu_limits": lambda a: f"a faster disk will not help; batch size, bf16, {compiler(a)} may",
    "start_job": lambda a: "start the job; --path DIR shows the disks behind its data",
    "run_as_root": lambda a: "run sudo iotop-ai to see every user's I/O",
    "psi_on": lambda a: "boot with psi=1 to see pressure",
    "calm_neighbour": _calm_neighbour,
    "calm_cpu": _calm_cpu,
    "slow_resync": lambda a: (
        f"run sysctl dev.raid.speed_limit_max=20000 to slow the {word(a, 'other')}"
        f" ({rate(number(a, 'theirs'))} now) until the run is over"
    ),
    "wait_for_check": lambda a: f"wait until {word(a, 'other')} ends: it measures {word(a, 'device')}",
    "ask_for_share": lambda a: f"find the other users of {word(a, 'device')}",
    "keep_workers": _keep_workers,
    "who_killed": lambda a: "find what killed it: the scheduler's log (memory limit, time limit), dmesg",
    "who_stopped": lambda a: "read the scheduler's log: time limit, preemption, scancel; resume from its checkpoint",
    "outlive_session": lambda a: "start it in tmux, or with nohup or setsid and its output in a file",
    "fault_handler": lambda a: "start it with PYTHONFAULTHANDLER=1: it then prints where it crashed",
    "read_log": lambda a: "read the end of its own log: the traceback says why",
    "more_requests": lambda a: "nothing to do: it works when clients ask",
    "look_into": lambda a: (
        f"py-spy dump --pid {whole(a, 'pid')} shows what {word(a, 'name') or 'the process'} waits for"
    ),
}


def advice_text(advice: Advice) -> str:
    """The advice as one clause."""
    return _ADVICE[advice.template](dict(advice.args))


def command_of(advice: Advice) -> str:
    """The iotop-ai command that carries out or checks the advice; "" if there is none."""
    args = dict(advice.args)
    if advice.template not in ("copy_data", "keep_in_memory") or number(args, "shared"):
        return ""
    if advice.template == "keep_in_memory":
        return f"iotop-ai cache status {_quoted(args, 'source')}"
    return f"iotop-ai stage {_quoted(args, 'source')} {_quoted(args, 'target')}"


def cure_templates() -> tuple[str, ...]:
    """The template ids of all pieces of advice."""
    return tuple(_ADVICE)
