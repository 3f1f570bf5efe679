"""What findings about a wait for data say where only some ranks wait for their own data."""

from __future__ import annotations

from iotop_ai.diagnosis.facts.gather import Args
from iotop_ai.diagnosis.facts.job import JobFacts
from iotop_ai.model.finding import Advice, Evidence, Finding
from iotop_ai.model.job.rank_numbers import number_ranges


def about_late_ranks(finding: Finding, job: JobFacts) -> Finding:
    """The finding about the job, with the names of its late ranks and the figures of their loaders.

    It is the same finding if no rank is late.
    """
    late = job.late
    if late is None:
        return finding
    numbers, several = number_ranges(rank.number for rank in late.ranks), len(late.ranks) > 1
    highest = max(rank.number or 0 for rank in job.job.ranks)
    changed: dict[str, float | str | None] = {
        "late": f"rank{'s' * several} {numbers}" if numbers else f"{len(late.ranks)} of {len(job.job.ranks)} ranks",
        "late_count": float(len(late.ranks)),
        "late_pid": float(late.ranks[0].key.pid),
        "late_pids": " ".join(str(rank.key.pid) for rank in late.ranks),
        "late_wait": late.wait,
        "others_count": float(len(late.others)),
        "own_workers": float(late.workers > 0),
        "elsewhere": float(bool(job.job.group) or highest >= len(job.job.ranks)),
    }
    if late.cpu is not None and (late.workers or not job.workers):
        changed |= {"workers": float(late.workers), "cpu": late.cpu, "cpu_wait": late.cpu_wait}
        changed |= {"blocked": late.disk, "idle": late.idle}
    args: Args = (*(pair for pair in finding.args if pair[0] not in changed), *changed.items())
    name = f"jobs.{job.subject}"
    evidence = (
        Evidence(f"{name}.late_ranks_wait_ratio", late.wait, "ratio"),
        Evidence(f"{name}.other_ranks_wait_ratio", late.others_wait, "ratio"),
    )
    # If only the late ranks load data, as in pipelines of several stages, there is nothing to compare.
    alike = not late.workers or any(rank.workers for rank in late.others)
    advice = (Advice("compare_ranks", args),) if alike else ()
    return finding._replace(args=args, evidence=(*finding.evidence, *evidence), advice=(*advice, *finding.advice))
