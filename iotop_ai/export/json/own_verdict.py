"""The part of the machine's verdicts that a process may see: the verdicts about its own jobs."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from iotop_ai.diagnosis.engine import with_job_verdict
from iotop_ai.diagnosis.facts.leading_job import job_pid
from iotop_ai.export.field_names import rates_object, rounded
from iotop_ai.export.json.job import seconds_object
from iotop_ai.export.json.snapshot import rfc3339
from iotop_ai.model.finding import Finding
from iotop_ai.model.frame import Frame
from iotop_ai.model.job.batch_ids import job_ids
from iotop_ai.model.job.records import Job
from iotop_ai.model.job.time_shares import shares_of

Object = dict[str, Any]
MOST_JOBS = 16
"""The most jobs in one answer."""


class Peer(NamedTuple):
    """The process that asks. uid: its user id. cgroup: its path in /proc/PID/cgroup; "" when unknown."""

    uid: int
    cgroup: str


def may_see(peer: Peer, rank_uid: int, rank_cgroup: str) -> bool:
    """Whether a rank belongs to the peer: to its pod, container or batch job, or otherwise to its user.

    Root counts as the user of every rank. Many users share the cgroup of a service (cron, a notebook hub), so there the
    user id decides. Containers of different people share user ids (root, or 1000), so there the cgroup decides.
    """
    is_below = peer.cgroup not in ("", "/") and f"{rank_cgroup}/".startswith(f"{peer.cgroup}/")
    peer_ids = job_ids(peer.cgroup)
    if is_below and (peer_ids.slurm or peer_ids.pod or peer_ids.container):
        return True
    in_container = any((ids := job_ids(cgroup)).pod or ids.container for cgroup in (peer.cgroup, rank_cgroup))
    cgroups_known = bool(peer.cgroup and rank_cgroup)
    return peer.uid in (0, rank_uid) and (is_below or (cgroups_known and not in_container))


def render_own_verdict_json(frame: Frame, peer: Peer) -> str:
    """The peer's jobs as JSON, each with its verdict and the shares of its time.

    A job is the peer's if all its ranks are.

    The findings' texts and the rest of the machine are left out, because they name the devices, users and programs of
    others.
    """
    table, processes = frame.snapshot.jobs.value, frame.snapshot.processes.value
    jobs = []
    for job in () if table is None else table.jobs.values():
        keys = [rank.key for rank in job.ranks] or [job.key]
        records = [None if processes is None else processes.info.get(key) for key in keys]
        if all(record is not None and may_see(peer, record.uid, record.cgroup) for record in records):
            jobs.append(_job_object(frame, job))
    answer = {"shape": 1, "time": rfc3339(frame.snapshot.wall_ns), "jobs": jobs[:MOST_JOBS]}
    return json.dumps(answer, allow_nan=False)


def _job_object(frame: Frame, job: Job) -> Object:
    verdict = with_job_verdict(frame, job.key.pid).verdict
    job_finding = next((finding for finding in verdict.findings if job_pid(finding) == job.key.pid), None)
    table = frame.snapshot.jobs.value
    counts = None if table is None else table.times.get(job.key)
    shares = None if counts is None else shares_of(counts)
    return {
        "pid": job.key.pid,
        "name": job.name,
        "label": job.label,
        "measuring": verdict.measuring,
        "verdict": None if job_finding is None else _finding_object(job_finding),
        "time": None if shares is None else rates_object(shares),
        "time_s": None if shares is None else seconds_object(counts),
        "data_stall_ratio": None if shares is None else rounded(shares.data),
    }


def _finding_object(finding: Finding) -> Object:
    return {
        "class": finding.class_id,
        "state": finding.state.value,
        "severity": finding.severity.value,
        "confidence": round(finding.confidence, 3),
        "lost_ratio": finding.lost_ratio,
        "gpu_hours_lost": finding.gpu_hours_lost,
    }
