"""The advice about an NFS mount names the option that its reads wait for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iotop_ai.model.finding import Advice
from iotop_ai.model.machine.netfs import UNKNOWN_NFS_OP, NfsMount
from iotop_ai.present.verdict.cures import advice_text
from tests.diagnosis.build import Machine, verdict_of
from tests.diagnosis.job_scenes import DATA_SCENES


def on_nfs(queue_ms: float = 12.0, resent: float = 0.0, **options: int) -> Machine:
    """A job whose reads wait this long in the client, and 3 ms for the server."""
    mount = NfsMount("/nfs", "srv:/in21k", "nfs4", *[0] * 6, None, None, {}, 60, rsize=1 << 20, nconnect=1)
    mount = mount._replace(**options)
    reads = UNKNOWN_NFS_OP._replace(rtt_ms=3.0, queue_ms=queue_ms, retransmit_ratio=resent)
    return replace(DATA_SCENES["network_fs"], nfs=((mount, reads),))


OTHER_SERVER = replace(
    on_nfs(), nfs=tuple((mount._replace(source="other:/home"), reads) for mount, reads in on_nfs().nfs)
)
FULL_LINK = replace(on_nfs(), links={"eth0": 0.95})


def cures(machine: Machine) -> dict[str, Advice]:
    return {advice.template: advice for finding in verdict_of(machine, 20).findings for advice in finding.advice}


@pytest.mark.parametrize(
    ("machine", "text"),
    [
        (
            on_nfs(),
            "remount /nfs: unmount all of its server, then use nconnect=8 (1 now), raise nfs.max_session_slots; a read "
            "waits 12 ms here, then 3 ms for the server",
        ),
        (
            on_nfs(rsize=65536),
            "mount /nfs with rsize=1048576 (65536 now, if the server allows more): the server answers in 3 ms",
        ),
        (on_nfs(resent=0.03), "check the network to the server of /nfs: 3 % of its reads are sent again"),
    ],
    ids=["one connection", "small reads", "lost requests"],
)
def test_the_advice_about_an_nfs_mount_follows_where_its_reads_wait(machine: Machine, text: str) -> None:
    assert advice_text(cures(machine)["nfs_options"]) == text


@pytest.mark.parametrize(
    "machine",
    [on_nfs(queue_ms=0.1), on_nfs(nconnect=8), OTHER_SERVER, FULL_LINK],
    ids=["slow server", "connections", "mount of a container", "full link"],
)
def test_a_mount_whose_options_are_not_the_reason_keeps_them(machine: Machine) -> None:
    assert "nfs_options" not in cures(machine)
    assert "stage_local" in cures(machine)
