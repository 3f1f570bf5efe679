from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from iotop_ai.collectors.clock import Clock
from iotop_ai.collectors.network import NetworkCollector, parse_ib_rate
from iotop_ai.collectors.root import Root
from iotop_ai.model.network import LinkCounters
from tests.machines import Entries, build

FIELDS = ("rx_bytes", "tx_bytes", "rx_errors", "tx_errors", "rx_dropped", "tx_dropped")


def nic(name: str, *values: int, state: str = "up", speed: str | None = "100000", device: bool = True) -> Entries:
    base = f"sys/class/net/{name}"
    tree: Entries = {f"{base}/statistics/{f}": b"%d\n" % v for f, v in zip(FIELDS, values, strict=True)}
    tree[f"{base}/operstate"] = f"{state}\n".encode()
    if speed is not None:
        tree[f"{base}/speed"] = f"{speed}\n".encode()
    if device:
        tree[f"{base}/device"] = "../../../devices/pci"
    return tree


def infiniband(state: str = "4: ACTIVE") -> Entries:
    base = "sys/class/infiniband/mlx5_0/ports/1"
    return {
        f"{base}/counters/port_rcv_data": b"1000\n",
        f"{base}/counters/port_xmit_data": b"2000\n",
        f"{base}/counters/port_rcv_errors": b"3\n",
        f"{base}/counters/port_xmit_discards": b"4\n",
        f"{base}/rate": b"400 Gb/sec (4X NDR)\n",
        f"{base}/state": f"{state}\n".encode(),
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tree = nic("eth0", 10, 20, 1, 2, 3, 4) | infiniband()
    tree |= nic("lo", 9, 9, 0, 0, 0, 0, device=False)
    tree |= nic("veth12", 9, 9, 0, 0, 0, 0, device=False) | nic("docker0", 9, 9, 0, 0, 0, 0, device=False)
    tree |= nic("bond0", 30, 40, 0, 0, 0, 0, speed="-1", device=False)
    tree |= nic("wg0", 0, 0, 0, 0, 0, 0, speed=None, device=False)
    tree |= nic("eth1", 0, 0, 0, 0, 0, 0, state="down", speed=None)
    # os.symlink of a device leads nowhere here; the collector only asks whether it exists.
    (tmp_path / "sys/devices/pci").mkdir(parents=True)
    build({k: v for k, v in tree.items() if isinstance(v, bytes)}, tmp_path)
    for key, target in tree.items():
        if isinstance(target, str):
            os.symlink(tmp_path / "sys/devices/pci", tmp_path / key)
    return tmp_path


def test_links_that_carry_bytes(folder: Path) -> None:
    collector = NetworkCollector(Root(str(folder)), Clock())
    got = collector.read()
    collector.close()
    assert got == {
        "bond0": LinkCounters(30, 40, 0, 0, 0, 0, None, "up"),
        "eth0": LinkCounters(10, 20, 1, 2, 3, 4, 100_000_000_000, "up"),
        "eth1": LinkCounters(0, 0, 0, 0, 0, 0, None, "down"),
        "mlx5_0/1": LinkCounters(4000, 8000, 3, None, None, 4, 400_000_000_000, "active", "ib"),
    }


def test_a_vanished_link_drops_out_and_comes_back_new(folder: Path) -> None:
    collector = NetworkCollector(Root(str(folder)), Clock())
    collector.read()
    shutil.rmtree(folder / "sys/class/net/eth0")
    assert "eth0" not in collector.read()
    build({k: v for k, v in nic("eth0", 1, 2, 0, 0, 0, 0).items() if isinstance(v, bytes)}, folder)
    assert collector.read()["eth0"].rx_bytes == 1
    collector.close()


def test_counters_move_on_the_same_descriptor_and_speed_follows_the_state(folder: Path) -> None:
    collector = NetworkCollector(Root(str(folder)), Clock())
    collector.read()
    base = folder / "sys/class/net/eth0"
    (base / "statistics/rx_bytes").write_text("99\n")
    (base / "speed").write_text("-1\n")
    assert collector.read()["eth0"][:1] == (99,)
    (base / "operstate").write_text("down\n")
    gone = collector.read()["eth0"]
    assert (gone.state, gone.bits_per_s) == ("down", None)
    collector.close()


def test_a_dead_port_has_no_speed(tmp_path: Path) -> None:
    collector = NetworkCollector(build(infiniband("1: DOWN"), tmp_path), Clock())
    port = collector.read()["mlx5_0/1"]
    collector.close()
    assert (port.state, port.bits_per_s) == ("down", None)


def test_no_links_is_none_found(tmp_path: Path) -> None:
    assert NetworkCollector(Root(str(tmp_path)), Clock()).read() == {}


@pytest.mark.parametrize(
    ("text", "bits"),
    [("400 Gb/sec (4X NDR)", 400_000_000_000), ("2.5 Gb/sec (1X SDR)", 2_500_000_000), ("", None), ("x Gb/sec", None)],
)
def test_infiniband_rate(text: str, bits: int | None) -> None:
    assert parse_ib_rate(text) == bits
