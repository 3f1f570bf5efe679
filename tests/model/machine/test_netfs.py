"""The figures of nfsiostat. A figure that could be wrong is unknown."""

from __future__ import annotations

from iotop_ai.model.machine.netfs import (
    UNKNOWN_NFS_OP,
    NetfsTable,
    NfsMount,
    NfsOp,
    NfsOpRates,
    NfsRates,
    netfs_rates,
    nfs_op_rates,
    nfs_rates,
)

OP = NfsOp(100, 101, 0, 10_000, 1_000_000, 50, 1000, 1100, 1)
MORE = NfsOp(300, 311, 0, 30_000, 5_000_000, 450, 5000, 5700, 3)
MOUNT = NfsMount("/data", "srv:/x", "nfs4", 1000, 0, 100, 0, 600, 0, 500, 20, {"READ": OP, "NULL": OP, "OPEN": OP}, 60)


def test_every_figure_of_an_operation_is_that_of_nfsiostat() -> None:
    assert nfs_op_rates(OP, MORE, 2.0) == NfsOpRates(
        ops_per_s=100.0,
        bytes_per_s=4_020_000 / 2,
        bytes_per_op=20_100.0,
        retransmits_per_s=5.0,
        retransmit_ratio=0.05,
        rtt_ms=20.0,
        exe_ms=23.0,
        queue_ms=2.0,
        error_ratio=0.01,
    )


def test_the_means_are_undefined_if_no_operation_ended() -> None:
    rates = nfs_op_rates(OP, OP, 1.0)
    assert (rates.ops_per_s, rates.rtt_ms, rates.exe_ms, rates.error_ratio) == (0.0, None, None, None)


def test_errors_are_unknown_before_kernel_5_3() -> None:
    old, new = OP._replace(errors=None), MORE._replace(errors=None)
    assert nfs_op_rates(old, new, 1.0).error_ratio is None
    assert nfs_op_rates(old, new, 1.0).rtt_ms == 20.0


def test_an_operation_that_was_reset_is_unknown_as_a_whole() -> None:
    assert nfs_op_rates(MORE, MORE._replace(ops=5, trans=400), 1.0) == UNKNOWN_NFS_OP


def test_every_figure_of_a_mount_is_computed() -> None:
    after = MOUNT._replace(
        normal_read_bytes=2000, direct_read_bytes=300, server_read_bytes=1050, server_write_bytes=40, sends=700,
        backlog=120, age_s=62, ops={"READ": MORE, "NULL": OP, "OPEN": MORE},
    )  # fmt: skip
    rates = nfs_rates(MOUNT, after, 2.0)
    assert rates._replace(ops={}) == NfsRates(
        ops_per_s=100.0,
        backlog=0.5,
        server_read_bytes_per_s=225.0,
        server_write_bytes_per_s=20.0,
        # Programs read 1,000 bytes through the cache, of which 250 (450 - 200) came from the server.
        cache_hit_ratio=0.75,
        ops={},
    )
    assert list(rates.ops) == ["READ", "OPEN"]


def test_the_hit_ratio_stays_between_0_and_1() -> None:
    readahead = MOUNT._replace(normal_read_bytes=1010, server_read_bytes=9000)
    assert nfs_rates(MOUNT, readahead, 1.0).cache_hit_ratio == 0.0
    direct = MOUNT._replace(normal_read_bytes=1010, direct_read_bytes=9000)
    assert nfs_rates(MOUNT, direct, 1.0).cache_hit_ratio == 1.0
    assert nfs_rates(MOUNT, MOUNT, 1.0).cache_hit_ratio is None


def test_a_mount_that_was_mounted_again_is_unknown() -> None:
    unknown = NfsRates(None, None, None, None, None, {})
    grown = MOUNT._replace(sends=9000, server_read_bytes=9000)
    assert nfs_rates(MOUNT, grown._replace(age_s=3), 1.0) == unknown
    assert nfs_rates(MOUNT, MOUNT._replace(sends=1, age_s=None), 1.0) == unknown


def test_only_mounts_of_the_same_export_are_compared() -> None:
    table = NetfsTable({"/data": MOUNT}, {})
    other = NetfsTable({"/data": MOUNT._replace(source="srv:/y")}, {})
    assert list(netfs_rates(table, table, 1.0)) == ["/data"]
    assert netfs_rates(table, other, 1.0) == {}
    assert netfs_rates(None, table, 1.0) == {}
