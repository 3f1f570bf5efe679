"""Waits for files of a network mount and waits for sockets are both data_network, but have different causes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iotop_ai.model.job.records import JobMount
from tests.diagnosis.build import classes, verdict_of
from tests.diagnosis.job_scenes import NFS, ON_GPU, THREADS, with_job

FAR = with_job(replace(ON_GPU, job=THREADS), time=(("data_network", 0.6), ("compute", 0.4)), mounts=NFS)
"""A job whose loader threads wait for the network, on a machine with an NFS mount."""


@pytest.mark.parametrize(
    ("files", "cause"), [(None, "network_fs"), (0.6, "network_fs"), (0.5, "network_fs"), (0.1, "object_stream")]
)
def test_the_cause_of_network_waits_is_named(files: float | None, cause: str) -> None:
    verdict = verdict_of(with_job(FAR, file_waits=files))
    assert classes(verdict)[0] == cause
    assert ("stage_local" in [advice.template for advice in verdict.primary.advice]) == (cause == "network_fs")


def test_a_local_mount_is_not_the_cause_of_network_waits() -> None:
    local = (JobMount("/data", "ext4", "/dev/sda", "8:0"),)
    assert classes(verdict_of(with_job(FAR, file_waits=0.6, mounts=local)))[0] == "object_stream"
