"""Adapts a finding's cures to the job's framework, the machine and the owner of a process.

The rules propose cures. This module adds the facts that a cure's sentence needs, or replaces the cure with another one.
"""

from __future__ import annotations

from collections.abc import Callable

from iotop_ai.diagnosis.facts.gather import Facts
from iotop_ai.diagnosis.facts.leading_job import job_pid
from iotop_ai.diagnosis.facts.mounts import is_boot, top_folder
from iotop_ai.diagnosis.facts.steps import loader_settings
from iotop_ai.diagnosis.facts.window import mean
from iotop_ai.diagnosis.verdict.copy_target import SHARED, faster_disk
from iotop_ai.model.finding import Advice, Finding
from iotop_ai.model.job.programs import workers_option
from iotop_ai.model.job.records import Job
from iotop_ai.model.job.steps import LoaderSettings
from iotop_ai.model.process.records import ProcessInfo

_Adapter = Callable[[Facts, Finding, Advice], Advice | None]
"""A function that adapts a cure; if it returns None, the cure is removed."""


def with_cures(facts: Facts, finding: Finding) -> Finding:
    """The finding with its cures adapted; cures that do not fit are removed."""
    adapted = [_ADAPTERS[a.template](facts, finding, a) if a.template in _ADAPTERS else a for a in finding.advice]
    advice = tuple(a for a in adapted if a is not None)
    return finding if advice == finding.advice else finding._replace(advice=advice)


def _job(facts: Facts, finding: Finding) -> Job | None:
    """The job that the finding is about; the first job for a finding about the machine; None without a job."""
    pid = job_pid(finding)
    jobs = [job_facts.job for job_facts in facts.jobs]
    return next((job for job in jobs if job.key.pid == pid), jobs[0] if pid is None and jobs else None)


def _with_framework(facts: Facts, finding: Finding, advice: Advice) -> Advice:
    """The advice with the argument ``framework``, whose calls the sentence names; "" if the framework is unknown."""
    job = _job(facts, finding)
    loader = job is not None and "loader" in job.evidence
    framework = "" if job is None else job.framework or ("torch" if loader else "")
    args = tuple(pair for pair in advice.args if pair[0] != "framework")
    return advice._replace(args=(*args, ("framework", framework)))


def _with_reader(facts: Facts, finding: Finding, advice: Advice) -> Advice:
    """The advice with the argument ``reader``: the library that reads the job's data; "" if none is seen."""
    job = _job(facts, finding)
    readers = () if job is None else job.readers
    return advice._replace(args=(*advice.args, ("reader", readers[0] if readers else "")))


def _with_throttled_share(facts: Facts, finding: Finding, advice: Advice) -> Advice:
    """The advice with the share of the quota's periods in which the quota of the job's cgroup ran out."""
    job, table = _job(facts, finding), facts.snapshot.cgroups.value
    path = None if job is None or table is None else table.jobs.get(job.key)
    if path is None:
        return advice
    rates = [(sample.cgroups.value or {}).get(path) for sample in facts.window.samples]
    return advice._replace(args=(*advice.args, ("throttled", mean(r and r.throttled_ratio for r in rates))))


def _only_torch(facts: Facts, finding: Finding, advice: Advice) -> Advice | None:
    """The advice with its framework; None if the job certainly uses a framework other than PyTorch."""
    adapted = _with_framework(facts, finding, advice)
    return adapted if dict(adapted.args)["framework"] in ("torch", "") else None


def _loader_settings(facts: Facts, job: Job | None) -> LoaderSettings:
    """The settings of the job's DataLoader as far as a rank reports them."""
    return LoaderSettings() if job is None else loader_settings(facts.snapshot.steps.value, job)


def _unset_options(facts: Facts, finding: Finding, advice: Advice) -> Advice | None:
    """The advice with the options of the DataLoader that may still be off; None if none is."""
    adapted, job = _only_torch(facts, finding, advice), _job(facts, finding)
    settings = _loader_settings(facts, job)
    pinned = settings.pinned or (job is not None and any(rank.pin_tid for rank in job.ranks))
    off = (("pin", float(not pinned)), ("persist", float(not settings.persistent)))
    if adapted is None or not any(value for _, value in off):
        return None
    return adapted._replace(args=(*adapted.args, *off))


def _with_persistent(facts: Facts, finding: Finding, advice: Advice) -> Advice | None:
    """The advice for PyTorch, with a flag: whether the DataLoader already keeps its workers."""
    adapted = _only_torch(facts, finding, advice)
    if adapted is None:
        return None
    persistent = _loader_settings(facts, _job(facts, finding)).persistent
    return adapted._replace(args=(*adapted.args, ("persistent", float(bool(persistent)))))


def _with_loader(facts: Facts, finding: Finding, advice: Advice) -> Advice:
    """The advice with the number of workers of a rank, and how many batches each prepares ahead; None if unknown."""
    job = _job(facts, finding)
    prefetch = _loader_settings(facts, job).prefetch
    workers = float(_workers_of_a_rank(job)) if job is not None and job.workers else None
    return advice._replace(
        args=(*advice.args, ("workers_now", workers), ("prefetch_now", None if prefetch is None else float(prefetch)))
    )


def _workers_of_a_rank(job: Job) -> int:
    return round(len(job.workers) / max(1, len(job.ranks)))


def _with_option(facts: Facts, finding: Finding, advice: Advice) -> Advice:
    """The advice with its framework, and with the option of the command line that sets the number of workers."""
    adapted, job, table = _with_framework(facts, finding, advice), _job(facts, finding), facts.snapshot.processes.value
    if job is None or table is None:
        return adapted
    info = table.info.get(job.ranks[0].key)
    option = "" if info is None else workers_option(info.cmdline, _workers_of_a_rank(job))
    return adapted._replace(args=(*adapted.args, ("option", option))) if option else adapted


def _reset_or_reboot(facts: Facts, finding: Finding, advice: Advice) -> Advice:
    """The advice as it is; a reboot if NVLink joins the GPUs, because a reset would break their links."""
    details = [reading.value for reading in (facts.snapshot.gpu_slow.value or {}).values()]
    joined = any(detail is not None and (detail.nvlinks_active or detail.fabric_state) for detail in details)
    return Advice("reboot_node", advice.args) if joined else advice


def _info(facts: Facts, pid: object) -> ProcessInfo | None:
    """The process with this pid, which is a float in the arguments of an advice; None when unknown."""
    table = facts.snapshot.processes.value
    if table is None or not isinstance(pid, float):
        return None
    key = facts.process_tree.keys.get(int(pid))
    return None if key is None else table.info.get(key)


def _is_own_uid(facts: Facts, finding: Finding, uid: int) -> bool:
    """Whether a user id belongs to the user of the monitor or to the user of the job."""
    job = _job(facts, finding)
    return uid == facts.snapshot.host.euid or (job is not None and uid == job.uid)


def _ask_owner_of_process(facts: Facts, finding: Finding, advice: Advice) -> Advice:
    """The advice to ask the owner if the process certainly belongs to another user; else the advice as it is."""
    args = dict(advice.args)
    info = _info(facts, args.get("other_pid"))
    if info is None or _is_own_uid(facts, finding, info.uid):
        return advice
    return Advice("ask_owner", (*advice.args, ("user", info.user), ("wanted", advice.template)))


def _ask_owner_or_mark_threaded(facts: Facts, finding: Finding, advice: Advice) -> Advice:
    """The advice to ask the owner of the process, if that is another user; else the advice itself.

    The advice itself gets the flag ``threaded`` if a process that it names has several threads.
    """
    adapted, table = _ask_owner_of_process(facts, finding, advice), facts.snapshot.processes.value
    if adapted.template != advice.template or table is None:
        return adapted
    args = dict(advice.args)
    pid, pids = args.get("other_pid"), str(args.get("other_pids") or "").split()
    numbers = [int(one) for one in pids] or ([int(pid)] if isinstance(pid, float) else [])
    keys = [key for number in numbers if (key := facts.process_tree.keys.get(number)) is not None]
    if all(key not in table.stat or table.stat[key].threads <= 1 for key in keys):
        return advice
    return advice._replace(args=(*advice.args, ("threaded", 1.0)))


def _ask_owner_of_job(facts: Facts, finding: Finding, advice: Advice) -> Advice:
    job = _job(facts, finding)
    if job is None or job.uid == facts.snapshot.host.euid:
        return advice
    return Advice("ask_owner", (*advice.args, ("user", job.user), ("wanted", advice.template)))


def _unless_root(facts: Facts, finding: Finding, advice: Advice) -> Advice | None:
    return None if facts.snapshot.host.euid == 0 else advice


def _with_kind_of_files(facts: Facts, finding: Finding, advice: Advice) -> Advice:
    """The advice with the kind of files that fill the mount: "boot", "data" of a job, or "system"."""
    mount = str(dict(advice.args).get("mount", ""))
    of_job = any(job_mount.path == mount for job in facts.jobs for job_mount in job.place.mounts)
    top = top_folder(mount)
    kind = "boot" if is_boot(mount) else "data" if of_job or (top and top not in SHARED) else "system"
    return advice._replace(args=(*advice.args, ("kind", kind)))


def _with_target(facts: Facts, finding: Finding, advice: Advice) -> Advice:
    """The advice with the fast local disk that has the most room for a copy. The size of remote data is unknown."""
    target = faster_disk(facts, 0.0)
    if target is None:
        return advice
    to = (("target", target.mount), ("target_device", target.device), ("room", float(target.room_bytes)))
    return advice._replace(args=(*advice.args, *to))


def _with_may_grow(facts: Facts, finding: Finding, advice: Advice) -> Advice:
    """The advice with a flag: whether /dev/shm may grow; it may not if it already has half of the memory or more."""
    memory = facts.snapshot.memory.value
    memory_total, shm_total = None if memory is None else memory.total_bytes, dict(advice.args).get("total")
    may_grow = memory_total is None or not isinstance(shm_total, float) or memory_total / 2 > shm_total
    return advice._replace(args=(*advice.args, ("may_grow", float(may_grow))))


_ADAPTERS: dict[str, _Adapter] = {
    **dict.fromkeys(
        (
            *("save_async", "use_gpu", "gpu_limits", "larger_kernels", "send_less", "fewer_syncs", "compile_model"),
            *("keep_compiled", "more_reads_at_once"),
        ),
        _with_framework,
    ),
    **dict.fromkeys(("more_workers", "more_readers", "one_worker", "more_in_flight"), _with_option),
    "less_memory": _with_loader,
    "worker_options": _unset_options,
    "keep_workers": _with_persistent,
    "reset_gpu": _reset_or_reboot,
    "drain_gpu": _reset_or_reboot,
    **dict.fromkeys(("calm_neighbour", "calm_cpu"), _ask_owner_or_mark_threaded),
    "end_sharer": _ask_owner_of_process,
    "continue_job": _ask_owner_of_job,
    "run_as_root": _unless_root,
    "make_room": _with_kind_of_files,
    "stage_local": _with_target,
    "larger_shm": lambda facts, finding, advice: _with_may_grow(facts, finding, _with_loader(facts, finding, advice)),
    **dict.fromkeys(("pack_files", "more_threads"), _with_reader),
    "raise_quota": _with_throttled_share,
}
"""The function that adapts a cure, by the cure's template; other cures are not changed."""
