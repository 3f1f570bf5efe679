"""Finds the jobs that may rest for hours although nothing is wrong: notebooks, and servers that wait for requests."""

from __future__ import annotations

from iotop_ai.model.job.records import Job, JobPlace

TRAINS = ("launcher", "loader")
"""Kinds of evidence that a server does not have."""


def may_rest(job: Job, place: JobPlace) -> bool:
    """Whether the job is a notebook or possibly a server: it listens for clients, or it is unknown whether it does.

    A job of several training processes may be a server as well: a model that is split over GPUs.
    """
    if "notebook" in job.evidence:
        return True
    if job.workers or any(word in TRAINS for word in job.evidence):
        return False
    return place.listening != 0
