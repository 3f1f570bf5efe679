"""Tests whether a job may be idle for hours although nothing is wrong, as notebooks and servers may be."""

from __future__ import annotations

from iotop_ai.model.job.records import Job, JobPlace

TRAINING_EVIDENCE = ("launcher", "loader", "notebook")
"""Kinds of evidence that a server does not have. "notebook" is a program such as papermill, which runs a notebook from
its first cell to its last."""


def may_rest(job: Job, place: JobPlace) -> bool:
    """Whether the job may wait for a person, in a notebook or at a terminal, or may be a server.

    It may be a server if it listens for clients, or if that is unknown. The number of training processes does not
    matter, because a server may split its model over several GPUs.
    """
    if job.notebook or place.waits_for_input:
        return True
    if job.workers or any(word in TRAINING_EVIDENCE for word in job.evidence):
        return False
    return place.listening != 0
