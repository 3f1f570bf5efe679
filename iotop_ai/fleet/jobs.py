"""Makes jobs from Prometheus's answers: the parts on each machine, joined by job id or group of ranks. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from iotop_ai.fleet.answer import Answer, Series
from iotop_ai.fleet.straggler import straggler_of
from iotop_ai.model.fleet.records import FleetFinding, FleetJob, JobPart, without_replaced
from iotop_ai.model.job.rank_numbers import checked_ranges
from iotop_ai.model.job.time_shares import SHARES

_Key = tuple[str, str, str, str, str]
_NO_ANSWER = Answer(())
_CURRENT = 2.0


def _key(entry: Series) -> _Key:
    label = entry.label
    return (label("instance"), label("pid"), label("script"), label("slurm_job_id"), label("unit"))


def job_parts(answers: Mapping[str, Answer], name_of: Callable[[str], str]) -> list[JobPart]:
    """The part of each job on each machine. name_of: the function from a Prometheus instance to its machine's name."""
    seconds: dict[_Key, list[float]] = {}
    for entry in answers.get("job time", _NO_ANSWER).series:
        if (share := entry.label("bucket")) in SHARES and entry.value is not None and entry.value > 0:
            seconds.setdefault(_key(entry), [0.0] * len(SHARES))[SHARES.index(share)] += entry.value
    gpus, ranks = (_counts(answers.get(name, _NO_ANSWER).series) for name in ("job GPUs", "job ranks"))
    late_ranks = _counts(answers.get("late rank", _NO_ANSWER).series)
    infos = _infos(answers.get("job info", _NO_ANSWER).series)
    out = []
    for key in sorted({*seconds, *gpus, *ranks}):
        instance, pid, script, slurm, unit = key
        part_seconds = tuple(seconds[key]) if key in seconds else None
        part = JobPart(name_of(instance), pid, script, slurm, unit, part_seconds, gpus.get(key), ranks.get(key))
        numbers, group, current = infos.get(key, ("", "", False))
        out.append(part._replace(numbers=numbers, group=group, late_rank=late_ranks.get(key), current=current))
    return out


def _counts(series: Iterable[Series]) -> dict[_Key, int]:
    return {_key(entry): int(entry.value) for entry in series if entry.value is not None and entry.value >= 0}


def _infos(series: Iterable[Series]) -> dict[_Key, tuple[str, str, bool]]:
    """For each job, its rank numbers, its group of ranks and whether it is current, from its newest series.

    The newest series has the largest value, which is _CURRENT if the series is current (queries.py).
    """
    newest: dict[_Key, Series] = {}
    for entry in series:
        newest_so_far = newest.get(key := _key(entry))
        if entry.value is not None and (newest_so_far is None or entry.value > (newest_so_far.value or 0.0)):
            newest[key] = entry
    return {
        key: (checked_ranges(entry.label("ranks")), entry.label("rank_group"), (entry.value or 0.0) >= _CURRENT)
        for key, entry in newest.items()
    }


def joined_jobs(parts: Sequence[JobPart], findings: Mapping[str, FleetFinding]) -> tuple[FleetJob, ...]:
    """The jobs across all machines, largest loss first.

    Parts with the same Slurm job id are one job, and so are parts without a job id but with the same group of ranks.
    findings: the primary finding of each machine.
    """
    groups: dict[tuple[str, ...], list[JobPart]] = {}
    for part in parts:
        groups.setdefault(_join_key(part), []).append(part)
    jobs = [_job(group, findings) for group in groups.values()]
    return tuple(sorted(jobs, key=lambda job: (-(job.lost_gpu_h or 0.0), -_lost_s(job), job.name)))


def _join_key(part: JobPart) -> tuple[str, ...]:
    if part.slurm:
        return ("slurm", part.slurm)
    return ("group", part.group) if part.group else (part.machine, part.pid, part.script)


def _job(parts: Sequence[JobPart], findings: Mapping[str, FleetFinding]) -> FleetJob:
    first = parts[0]
    group = first.group if len(parts) > 1 else ""
    name = f"slurm {first.slurm}" if first.slurm else group or first.unit or f"{first.machine} pid {first.pid}"
    return FleetJob(name, first.script, tuple(parts), straggler_of(without_replaced(parts), findings))


def _lost_s(job: FleetJob) -> float:
    return sum(part.lost_s or 0.0 for part in job.parts)
