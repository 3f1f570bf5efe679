"""Advice and reasons against a class as sentences, from their template ids and arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from iotop_ai.model.finding import Advice, RuledOut
from iotop_ai.present.text import units
from iotop_ai.present.text.line import Span, plain

Value = str | float | None
Args = Mapping[str, Value]


def number(args: Args, name: str) -> float | None:
    """A numeric argument; None when it is missing or unknown."""
    value = args.get(name)
    return None if value is None or isinstance(value, str) else float(value)


def word(args: Args, name: str) -> str:
    """A text argument; "" when it is missing."""
    value = args.get(name)
    return plain(value) if isinstance(value, str) else ""


def whole(args: Args, name: str) -> str:
    """A count; "?" when unknown."""
    value = number(args, name)
    return units.UNKNOWN if value is None else f"{value:.0f}"


def percent(args: Args, name: str) -> str:
    """A ratio as "78 %"; "? %" when unknown."""
    return f"{units.percent(number(args, name))} %"


def rate(bytes_per_s: float | None) -> str:
    """Bytes per second in a sentence: "92 MB/s", "1.7 GB/s"."""
    figure, unit = units.rate(bytes_per_s)
    return f"{_short(figure)} {unit}"


def amount(args: Args, name: str) -> str:
    """Bytes in a sentence: "1.3 TB", "128 KB"."""
    return units.amount(number(args, name))


def milliseconds(value: float | None) -> str:
    """A latency's figure without its unit: "87", "0.9", "12"."""
    if value is not None and 0 < value < 0.95:
        return f"{value:.2g}"
    return _short(units.figure(value))


def latency(a: Args) -> list[Span]:
    """The await of the finding's device beside what is typical: "87 ms (typical <= 0.9)"."""
    figure, typical = milliseconds(number(a, "await_ms")), milliseconds(number(a, "normal_ms"))
    return [Span(f"{figure} ms", "strong"), Span(f" (typical ≤ {typical})")]


def _short(figure: str) -> str:
    """Without the decimal from 10 on: a sentence has "92" for "92.0"."""
    head, dot, tail = figure.partition(".")
    if dot and head.isdigit() and tail.isdigit() and (len(head) > 1 or tail == "0"):
        return f"{float(figure):.0f}"
    return figure


def _copy(a: Args) -> str:
    hours = number(a, "hours")
    takes = "" if hours is None else f", ~{units.duration(hours * 3600)}"
    target, device = word(a, "target"), word(a, "target_device")
    where = f"{target} ({device}, {amount(a, 'room')} free)"
    return f"copy {word(a, 'source')} ({amount(a, 'bytes')}{takes}) to {where}"


def _needed(a: Args) -> str:
    return f"the GPUs ask for ~{rate(number(a, 'needed'))}, {word(a, 'device')} gives {rate(number(a, 'rate'))}"


def _faster(a: Args) -> str:
    return f"move the data to faster storage: {word(a, 'device')} gives {rate(number(a, 'rate'))}"


def _workers(a: Args) -> str:
    share = f"{whole(a, 'cores')} cores x 0.8" + (f" / {whole(a, 'ranks')}" if (number(a, "ranks") or 1) > 1 else "")
    each = " per GPU" if (number(a, "ranks") or 1) > 1 else ""
    return f"num_workers {whole(a, 'now')} -> {whole(a, 'then')}{each} ({share})"


def _each(a: Args) -> str:
    return " per rank" if (number(a, "ranks") or 1) > 1 else ""


def limit_text(a: Args) -> str:
    """A cgroup's limit: "10 MB/s", "300 reads/s"."""
    return rate(number(a, "limit")) if word(a, "what").endswith("bytes") else f"{whole(a, 'limit')} reads/s"


def _limit(a: Args) -> str:
    if not word(a, "file"):
        return "look for a limit above this machine: the volume's or the hypervisor's IOPS and MB/s"
    return f"raise the limit of {limit_text(a)} in {word(a, 'file')}, or read less"


def _cache(a: Args) -> str:
    if number(a, "memory_limit") is not None:
        return f"raise the memory limit of {amount(a, 'memory_limit')}, or keep a fixed part of the data in memory"
    return "keep a fixed part of the data in memory, store it smaller, or cache it on an NVMe"


def _shm(a: Args) -> str:
    if number(a, "container"):
        return "start the container with --shm-size=8g or --ipc=host (Kubernetes: emptyDir medium: Memory)"
    return "mount -o remount,size=50% /dev/shm, fewer workers, or a lower prefetch_factor"


def _cool(a: Args) -> str:
    room = "" if number(a, "slowdown") is None else f" below {whole(a, 'slowdown')} C"
    return f"cool {word(a, 'who') or 'the GPUs'}{room}: fans, airflow, room; or nvidia-smi -pl for a steady clock"


def _raise_power(a: Args) -> str:
    return f"nvidia-smi -pl {whole(a, 'default')}: the limit of {word(a, 'worst')} is {whole(a, 'limit')} W"


def _reseat(a: Args) -> str:
    full = f"gen {whole(a, 'generation_max')} x{whole(a, 'width_max')}"
    return f"reseat {word(a, 'worst')}, check riser and BIOS: its link can do {full}"


def _ask_peers(a: Args) -> str:
    local = "" if number(a, "pid") is None else f"; here py-spy dump --pid {whole(a, 'pid')}"
    return f"on the other nodes: iotop-ai why; then NCCL's log (NCCL_DEBUG=INFO){local}"


def _help_late(a: Args) -> str:
    pid = "" if number(a, "pid") is None else f" (pid {whole(a, 'pid')})"
    gpu = f"{word(a, 'late') or 'the late GPU'}{pid}"
    remedies = {
        "blocked": f"a faster disk or more workers for the rank on {gpu}",
        "computes": f"more workers or lighter samples for the rank on {gpu}",
        "longer": f"equal shards and batches: the rank on {gpu} has more to compute",
        "clock": f"why {gpu} runs at a lower clock: heat, power limit, nvidia-smi -q -d PERFORMANCE",
    }
    if word(a, "how") == "less":
        return f"share the work more evenly: {gpu} could do more"
    return remedies.get(word(a, "why"), f"look at the rank on {gpu}: its data, its shard, its clock")


def _end_sharer(a: Args) -> str:
    pid = "the other program's process" if number(a, "other_pid") is None else f"pid {whole(a, 'other_pid')}"
    return f"end {pid} if it is not needed, or use another GPU than {word(a, 'worst')}"


def _calm_neighbour(a: Args) -> str:
    pid = whole(a, "other_pid")
    return f"ionice -c3 -p {pid} ({word(a, 'other')}), or give it another disk than {word(a, 'device')}"


def _calm_cpu(a: Args) -> str:
    return f"renice -n 19 -p {whole(a, 'other_pid')} ({word(a, 'other')}), or keep it off these cores (taskset, cpuset)"


def _keep_workers(a: Args) -> str:
    turn, epoch = units.figure(number(a, "turn_s")), units.figure(number(a, "epoch_s"))
    return f"DataLoader(persistent_workers=True): saves ~{turn} s of each {epoch} s"


_COMPILE = {
    "torch": "torch.compile or CUDA graphs",
    "jax": "more of the step inside jax.jit",
    "tensorflow": "tf.function(jit_compile=True)",
}
_COMPILED = {
    "torch": ": TORCHINDUCTOR_CACHE_DIR on a disk that stays",
    "jax": ": jax_compilation_cache_dir on a disk that stays",
}
_ADVICE: dict[str, Callable[[Args], str]] = {
    "cool_gpu": _cool,
    "raise_power": _raise_power,
    "check_power": lambda a: f"power supply, rack and cables of {word(a, 'worst')}: its power brake is on",
    "reseat": _reseat,
    "send_less": lambda a: "send less: uint8 and convert on the GPU, pin_memory, keep the data on the GPU",
    "less_gpu_memory": lambda a: "smaller batch with gradient accumulation, activation checkpointing, bf16",
    "end_sharer": _end_sharer,
    "reset_gpu": lambda a: f"drain the job, nvidia-smi --gpu-reset of {word(a, 'gpu')}; dmesg | grep -i xid",
    "replace_gpu": lambda a: f"take {word(a, 'gpu')} out of use and have the board replaced",
    "reboot_node": lambda a: "drain the node and reboot it",
    "read_gpu_log": lambda a: f"dmesg | grep {word(a, 'bus')} says why; if it comes again, drain and reboot",
    "drain_gpu": lambda a: f"drain the jobs on {word(a, 'gpu')} and its peers, then reset it",
    "debug_kernel": lambda a: "rerun with CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer: the program faulted",
    "use_gpu": lambda a: (
        f"python -c 'import torch; print(torch.cuda.is_available())', CUDA_VISIBLE_DEVICES of pid {whole(a, 'pid')}"
    ),
    "ask_peers": _ask_peers,
    "wider_network": lambda a: "fewer or smaller exchanges: gradient accumulation, bf16 gradients, InfiniBand",
    "help_late": _help_late,
    "copy_data": _copy,
    "pack_files": lambda a: f"pack files into shards of 100 MB: its reads are {amount(a, 'read_size_bytes')} each",
    "needed_rate": _needed,
    "more_reads_at_once": lambda a: "more workers or a higher prefetch_factor: more reads at once",
    "faster_storage": _faster,
    "more_workers": _workers,
    "worker_options": lambda a: "with pin_memory=True, persistent_workers=True",
    "cheaper_transforms": lambda a: f"cheaper transforms: all {whole(a, 'cores')} cores are used; decode on the GPU",
    "more_readers": lambda a: (
        f"num_workers {whole(a, 'now')} -> {whole(a, 'then')}{_each(a)}: blocked workers cost no CPU, and read at once"
    ),
    "one_worker": lambda a: f"num_workers 0 -> 1{_each(a)}: loading then runs beside the training",
    "parallel_calls": lambda a: (
        "tf.data: num_parallel_calls=AUTOTUNE in map and interleave, then prefetch(AUTOTUNE); cache() where it fits"
    ),
    "more_threads": lambda a: "more threads or processes that load, and a deeper prefetch queue",
    "faster_simulation": lambda a: "more environments a process, a cheaper simulation, or one that runs on the GPU",
    "ray_tasks": lambda a: "more CPUs and blocks for Ray Data (override_num_blocks), prefetch_batches at the trainer",
    "more_processes": lambda a: "more processes where cores are idle (num_proc, the pool's size), or cheaper work",
    "stage_local": lambda a: f"copy the data from {word(a, 'mount')} to a local NVMe before the run",
    "raise_limit": _limit,
    "more_cache": _cache,
    "more_connections": lambda a: "more connections at once, a nearer store, or larger shards",
    "wait": lambda a: "wait: the verdict follows when it trains",
    "fewer_syncs": lambda a: "fewer .item(), .cpu(), print(loss): each waits for the GPU; log every 50 steps",
    "compile_model": lambda a: f"{_COMPILE.get(word(a, 'framework'), 'compile the model')}, or a larger batch",
    "keep_compiled": lambda a: f"keep what it compiles between runs{_COMPILED.get(word(a, 'framework'), '')}",
    "dump_stacks": lambda a: f"py-spy dump --pid {whole(a, 'main')} shows what it waits for; then its workers",
    "continue_job": lambda a: f"kill -CONT {whole(a, 'main')}, or thaw its cgroup",
    "save_async": lambda a: (
        "save in the background (torch.distributed.checkpoint.async_save)"
        + (f", or not to {word(a, 'device')}" if word(a, "device") else "")
    ),
    "less_memory": lambda a: "fewer workers or a lower prefetch_factor; keep lists of the dataset as arrays",
    "larger_shm": _shm,
    "make_room": lambda a: f"delete old checkpoints and logs on {word(a, 'mount')}",
    "replace_disk": lambda a: f"back {word(a, 'device')} up now, then replace it",
    "reach_device": lambda a: f"dmesg -T | grep {word(a, 'device')}: timeouts, resets? Check its server or controller",
    "resume_device": lambda a: f"dmsetup info {word(a, 'label')}: SUSPENDED? dmsetup resume {word(a, 'label')}",
    "check_cable": lambda a: f"check {word(a, 'device')}'s cable, connector and backplane",
    "cool_disk": lambda a: f"cool {word(a, 'device')}: air flow or a heat sink; it throttles itself",
    "larger_kernels": lambda a: "larger batch, torch.compile, CUDA graphs: its kernels do not fill the GPU",
    "gpu_limits": lambda a: "a faster disk will not help; batch size, bf16, torch.compile may",
    "start_job": lambda a: "start the job; --path DIR shows the disks behind its data",
    "run_as_root": lambda a: "sudo iotop-ai sees every user's I/O",
    "psi_on": lambda a: "boot with psi=1 to see pressure",
    "calm_neighbour": _calm_neighbour,
    "calm_cpu": _calm_cpu,
    "slow_resync": lambda a: (
        f"sysctl dev.raid.speed_limit_max=20000 slows the {word(a, 'other')}"
        f" ({rate(number(a, 'theirs'))} now) until the run is over"
    ),
    "ask_for_share": lambda a: f"find the other users of {word(a, 'device')}",
    "keep_workers": _keep_workers,
    "who_killed": lambda a: "find what killed it: the scheduler's log (memory limit, time limit), dmesg",
    "who_stopped": lambda a: (
        "look into the scheduler's log: time limit, preemption, scancel; go on from its checkpoint"
    ),
    "fault_handler": lambda a: "start it with PYTHONFAULTHANDLER=1: it then prints where it crashed",
    "read_log": lambda a: "read the end of its own log: the traceback says why",
    "more_requests": lambda a: "nothing to do: it works when clients ask",
    "look_into": lambda a: f"py-spy dump --pid {whole(a, 'pid')} shows what it waits for",
}


def advice_text(advice: Advice) -> str:
    """The advice as one clause."""
    return _ADVICE[advice.template](dict(advice.args))


def command_of(advice: Advice) -> str:
    """The iotop-ai command that does it; "" without one."""
    if advice.template != "copy_data":
        return ""
    from shlex import quote  # few verdicts have a command

    args = dict(advice.args)
    return f"iotop-ai stage {quote(word(args, 'source'))} {quote(word(args, 'target'))}"


_WHY: dict[str, Callable[[Args], str]] = {
    "disks_idle": lambda a: "no disk did anything",
    "disks_calm": lambda a: f"{word(a, 'device')} answers in {''.join(span.text for span in latency(a))}",
    "no_process_waits": lambda a: f"{word(a, 'device')} is slow, but no process waits in D",
    "no_process_computes": lambda a: "no process of the job computes",
    "cpu_low": lambda a: f"{word(a, 'task')} runs {percent(a, 'cpu')}",
    "no_gpu": lambda a: "no GPU",
    "gpu_low": lambda a: f"GPU {percent(a, 'busy')} busy",
    "workers_blocked": lambda a: f"workers are blocked {percent(a, 'share')} of the wait",
    "workers_run": lambda a: f"workers compute in {percent(a, 'share')} of the wait",
    "no_limit": lambda a: "no limit on its cgroup",
    "path_local": lambda a: f"{word(a, 'mount')} is local",
    "no_wait": lambda a: f"trainer waits {percent(a, 'stall')}" if number(a, "stall") else "trainer never waits",
    "clocks_free": lambda a: f"heat and power hold its clocks back {percent(a, 'share')} of the time",
    "gpus_draw": lambda a: f"the GPUs draw {percent(a, 'power')} of their limit",
    "smart_fine": lambda a: f"SMART of {whole(a, 'disks')} disks is not critical",
}


def why_text(ruled_out: RuledOut) -> str:
    """Why the class does not hold, as one clause."""
    return _WHY[ruled_out.template](dict(ruled_out.args))


def templates() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The ids of all advice and of all reasons."""
    return tuple(_ADVICE), tuple(_WHY)
