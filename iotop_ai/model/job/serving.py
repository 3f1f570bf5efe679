"""Tests whether a job may be idle for hours although nothing is wrong, as notebooks and servers are."""

from __future__ import annotations

from iotop_ai.model.job.records import Job, JobPlace

TRAINING_EVIDENCE = ("launcher", "loader")
"""Kinds of evidence that a server does not have."""


def may_rest(job: Job, place: JobPlace) -> bool:
    """Whether the job is a notebook, or may be a server: it listens for clients, or it is unknown whether it does.

    A job with several training processes may be a server too, with a model that is split over GPUs.
    """
    if "notebook" in job.evidence:
        return True
    if job.workers or any(word in TRAINING_EVIDENCE for word in job.evidence):
        return False
    return place.listening != 0
