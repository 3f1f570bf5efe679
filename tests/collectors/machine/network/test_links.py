"""Network links: their counters and speeds, and the bytes that stacked links count twice."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.machine.network.links import NetworkCollector, parse_ib_rate
from iotop_ai.collectors.machine.network.stacking import places_of
from iotop_ai.model.machine.network import LinkCounters, LinkRates, network_rates, received_bytes_per_s
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
    # Each link to a device leads to this empty folder, because the collector reads only the name of the device.
    (tmp_path / "sys/devices/pci").mkdir(parents=True)
    build({k: v for k, v in tree.items() if isinstance(v, bytes)}, tmp_path)
    for key, target in tree.items():
        if isinstance(target, str):
            os.symlink(tmp_path / "sys/devices/pci", tmp_path / key)
    return tmp_path


def test_links_that_carry_bytes_are_listed(folder: Path) -> None:
    collector = NetworkCollector(Root(str(folder)))
    got = collector.read()
    collector.close()
    assert got == {
        "bond0": LinkCounters(30, 40, 0, 0, 0, 0, None, "up", place=""),
        "eth0": LinkCounters(10, 20, 1, 2, 3, 4, 100_000_000_000, "up", place="pci"),
        "eth1": LinkCounters(0, 0, 0, 0, 0, 0, None, "down", place="pci"),
        "mlx5_0/1": LinkCounters(4000, 8000, 3, None, None, 4, 400_000_000_000, "active", "ib", "mlx5_0"),
    }


def test_a_removed_link_is_left_out_and_counts_as_new_when_it_returns(folder: Path) -> None:
    collector = NetworkCollector(Root(str(folder)))
    collector.read()
    shutil.rmtree(folder / "sys/class/net/eth0")
    assert "eth0" not in collector.read()
    build({k: v for k, v in nic("eth0", 1, 2, 0, 0, 0, 0).items() if isinstance(v, bytes)}, folder)
    assert collector.read()["eth0"].rx_bytes == 1
    collector.close()


def test_counters_are_read_again_and_the_speed_follows_the_state(folder: Path) -> None:
    collector = NetworkCollector(Root(str(folder)))
    collector.read()
    base = folder / "sys/class/net/eth0"
    (base / "statistics/rx_bytes").write_text("99\n")
    (base / "speed").write_text("-1\n")
    assert collector.read()["eth0"][:1] == (99,)
    (base / "operstate").write_text("down\n")
    returned = collector.read()["eth0"]
    assert (returned.state, returned.bits_per_s) == ("down", None)
    collector.close()


def test_a_dead_port_has_no_speed(tmp_path: Path) -> None:
    collector = NetworkCollector(build(infiniband("1: DOWN"), tmp_path))
    port = collector.read()["mlx5_0/1"]
    collector.close()
    assert (port.state, port.bits_per_s) == ("down", None)


def test_a_port_whose_bytes_do_not_fit_into_64_bits_is_left_out(tmp_path: Path) -> None:
    counter = "sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data"
    collector = NetworkCollector(build(infiniband() | {counter: b"%d\n" % (2**64 - 1)}, tmp_path))
    assert collector.read() == {}
    collector.close()


def test_without_links_the_table_is_empty(tmp_path: Path) -> None:
    assert NetworkCollector(Root(str(tmp_path))).read() == {}


@pytest.mark.parametrize(
    ("text", "bits"),
    [("400 Gb/sec (4X NDR)", 400_000_000_000), ("2.5 Gb/sec (1X SDR)", 2_500_000_000), ("", None), ("x Gb/sec", None)],
)
def test_the_rate_of_an_infiniband_port_is_parsed(text: str, bits: int | None) -> None:
    assert parse_ib_rate(text) == bits


def linked(folder: Path, links: dict[str, str]) -> None:
    """Create these symbolic links, and the folders to which they lead."""
    for path, target in links.items():
        (folder / target).mkdir(parents=True, exist_ok=True)
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        os.symlink(folder / target, folder / path)


def received(folder: Path, before: Entries, after: Entries) -> float | None:
    """The bytes received per second, if the counters change from one state to the other within a second."""
    collector = NetworkCollector(Root(str(folder)))
    first = collector.read()
    for path, content in after.items():
        if before.get(path) != content and isinstance(content, bytes):
            (folder / path).write_bytes(content)
    second = collector.read()
    collector.close()
    return received_bytes_per_s(second, network_rates(first, second, 1.0))


GB = 10**9


def test_a_bond_and_its_interfaces_count_once(tmp_path: Path) -> None:
    """2 GB/s come in through two ports. The bond of the ports, and a VLAN and a bridge on it, count the same bytes."""

    def state(gb: int) -> Entries:
        tree: Entries = {}
        for name, part in (("eth0", 1), ("eth1", 1), ("bond0", 2), ("bond0.7", 2), ("mybridge", 2)):
            tree |= nic(name, gb * part * GB, 0, 0, 0, 0, 0, device=False)
        return tree

    build(state(0), tmp_path)
    net = "sys/class/net"
    linked(
        tmp_path,
        {
            f"{net}/eth0/device": "sys/devices/pci0000:00/0000:18:00.0",
            f"{net}/eth1/device": "sys/devices/pci0000:00/0000:18:00.1",
            f"{net}/eth0/upper_bond0": f"{net}/bond0",
            f"{net}/eth1/upper_bond0": f"{net}/bond0",
            f"{net}/bond0/lower_eth0": f"{net}/eth0",
            f"{net}/bond0/lower_eth1": f"{net}/eth1",
            f"{net}/bond0.7/lower_bond0": f"{net}/bond0",
        },
    )
    assert received(tmp_path, state(0), state(1)) == 2 * GB


def test_a_hyper_v_link_and_its_virtual_function_count_once(tmp_path: Path) -> None:
    def state(gb: int) -> Entries:
        return nic("eth0", gb * GB, 0, 0, 0, 0, 0, device=False) | nic("enP1", gb * GB, 0, 0, 0, 0, 0, device=False)

    build(state(0), tmp_path)
    net = "sys/class/net"
    linked(
        tmp_path,
        {
            f"{net}/eth0/device": "sys/devices/vmbus/1234",
            f"{net}/enP1/device": "sys/devices/pci0001:00/0001:00:02.0",
            f"{net}/enP1/upper_eth0": f"{net}/eth0",
            f"{net}/eth0/lower_enP1": f"{net}/enP1",
        },
    )
    assert received(tmp_path, state(0), state(3)) == 3 * GB


@pytest.mark.parametrize(("nic_gb", "port_gb", "whole"), [(1, 8, 8), (5, 0, 5), (2, 2, 2)])
def test_an_rdma_port_and_the_link_of_its_device_count_once(
    nic_gb: int, port_gb: int, whole: int, tmp_path: Path
) -> None:
    port = "sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data"

    def state(times: int) -> Entries:
        counter = {port: b"%d\n" % (times * port_gb * GB // 4)}
        return nic("ib0", times * nic_gb * GB, 0, 0, 0, 0, 0, device=False) | infiniband() | counter

    build(state(0), tmp_path)
    card = "sys/devices/pci0000:00/0000:18:00.0"
    linked(tmp_path, {"sys/class/net/ib0/device": card, "sys/class/infiniband/mlx5_0/device": card})
    assert received(tmp_path, state(0), state(1)) == whole * GB


def test_a_32_bit_count_of_an_infiniband_port_is_unknown_at_its_maximum() -> None:
    whole = (2**32 - 1) * 4
    port = LinkCounters(whole, 4000, None, None, None, None, None, "active", "ib")
    rates = network_rates({"ib": port}, {"ib": port}, 1.0)
    assert (rates["ib"].rx_bytes_per_s, rates["ib"].tx_bytes_per_s, rates["ib"].busy_ratio) == (None, 0, None)


def efa(**counters: int) -> Entries:
    base = "sys/class/infiniband/efa_0/ports/1"
    tree: Entries = {f"{base}/hw_counters/{name}": b"%d\n" % value for name, value in counters.items()}
    return tree | {f"{base}/rate": b"100 Gb/sec (4X EDR)\n", f"{base}/state": b"4: ACTIVE\n"}


def test_aws_efa_has_counters_of_a_different_kind(tmp_path: Path) -> None:
    old = build(efa(rx_bytes=1000, tx_bytes=2000, rx_drops=3), tmp_path / "old")
    port = NetworkCollector(old).read()["efa_0/1"]
    assert port == LinkCounters(1000, 2000, None, None, 3, None, 100_000_000_000, "active", "ib", "efa_0")
    more = {"recv_bytes": 900, "rdma_read_bytes": 5000, "rdma_write_recv_bytes": 70}
    more |= {"send_bytes": 100, "rdma_write_bytes": 20, "rdma_read_resp_bytes": 3}
    port = NetworkCollector(build(efa(rx_bytes=1000, tx_bytes=2000, **more), tmp_path / "new")).read()["efa_0/1"]
    assert port[:2] == (5970, 2000), "not the larger of the bytes on the wire and those of the operations"


def port_rates(folder: Path, after: Entries) -> LinkRates:
    """The rates of the only link, if its counters change to those of ``after`` within a second."""
    collector = NetworkCollector(Root(str(folder)))
    first = collector.read()
    build({path: content for path, content in after.items() if isinstance(content, bytes)}, folder)
    second = collector.read()
    collector.close()
    (rates,) = network_rates(first, second, 1.0).values()
    return rates


def test_a_port_that_counts_errors_in_one_direction_has_error_rates(tmp_path: Path) -> None:
    """InfiniBand counts received errors and drops before sending; EFA counts only received drops."""
    base = "sys/class/infiniband/mlx5_0/ports/1/counters"
    build(infiniband(), tmp_path / "ib")
    rates = port_rates(tmp_path / "ib", {f"{base}/port_rcv_errors": b"53\n", f"{base}/port_xmit_discards": b"94\n"})
    assert (rates.errors_per_s, rates.drops_per_s) == (50, 90)
    build(efa(rx_bytes=1, tx_bytes=1, rx_drops=3), tmp_path / "efa")
    rates = port_rates(tmp_path / "efa", efa(rx_drops=10))
    assert (rates.errors_per_s, rates.drops_per_s) == (None, 7)


def test_the_errors_of_a_link_are_unknown_if_those_of_one_direction_are() -> None:
    before = LinkCounters(0, 0, 5, 5, 5, None, None, "up")
    after = LinkCounters(0, 0, 4, 9, 9, 9, None, "up")
    rates = network_rates({"eth0": before}, {"eth0": after}, 1.0)["eth0"]
    assert (rates.errors_per_s, rates.drops_per_s) == (None, None)


def test_16_bit_counts_of_an_infiniband_port_are_unknown_at_their_maximum() -> None:
    port = LinkCounters(4000, 4000, 65535, None, None, 65535, None, "active", "ib")
    rates = network_rates({"ib": port}, {"ib": port}, 1.0)["ib"]
    assert (rates.errors_per_s, rates.drops_per_s) == (None, None)
    card = port._replace(tx_errors=0, rx_dropped=0, kind="nic")
    rates = network_rates({"eth0": card}, {"eth0": card}, 1.0)["eth0"]
    assert (rates.errors_per_s, rates.drops_per_s) == (0, 0)


def test_in_a_container_only_unstacked_links_count(tmp_path: Path) -> None:
    tree: Entries = {}
    for name, kind in (("eth0", 1), ("inner", 1), ("macv", 1), ("tun0", 65534), ("wg0", 65534)):
        tree |= nic(name, 5, 5, 0, 0, 0, 0, speed=None, device=False)
        tree[f"sys/class/net/{name}/type"] = b"%d\n" % kind
    build(tree, tmp_path)
    (tmp_path / "sys/class/net/inner/bridge").mkdir()
    linked(tmp_path, {"sys/class/net/macv/lower_eth0": "sys/class/net/eth0"})
    assert places_of(Root(str(tmp_path)), ["eth0", "inner", "macv", "tun0", "wg0"]) == {
        "eth0": "eth0", "inner": "", "macv": "", "tun0": "", "wg0": "",
    }  # fmt: skip


def namespace(initial: bool) -> Entries:
    """A setting that each network namespace has, and one that only the initial namespace of a machine has."""
    tree: Entries = {"proc/sys/net/core/somaxconn": b"4096\n"}
    return tree | {"proc/sys/net/core/netdev_budget": b"300\n"} if initial else tree


@pytest.mark.parametrize(("initial", "whole"), [(False, 2), (True, 0)])
def test_a_pods_veth_counts_beside_a_virtual_function(initial: bool, whole: int, tmp_path: Path) -> None:
    """In the pod eth0 is an independent link; on the machine, it belongs to the host's end of a pair."""

    def state(gb: int) -> Entries:
        tree = namespace(initial) | nic("net1", 0, 0, 0, 0, 0, 0, device=False)
        for name in ("eth0", "vlan7", "veth9"):
            tree |= nic(name, gb * GB, 0, 0, 0, 0, 0, device=False)
        return tree

    build(state(1), tmp_path)
    net = "sys/class/net"
    linked(
        tmp_path,
        {
            f"{net}/net1/device": "sys/devices/pci0000:00/0000:18:02.1",
            f"{net}/vlan7/lower_eth0": f"{net}/eth0",
        },
    )
    assert received(tmp_path, state(1), state(3)) == whole * GB


def test_the_tap_of_a_rootless_container_counts(tmp_path: Path) -> None:
    def state(gb: int) -> Entries:
        tree = namespace(initial=False)
        for name, kind in (("tap0", 1), ("docker0", 1), ("veth1", 1), ("tunl0", 768)):
            tree |= nic(name, gb * GB, 0, 0, 0, 0, 0, device=False)
            tree[f"sys/class/net/{name}/type"] = b"%d\n" % kind
        return tree

    build(state(1), tmp_path)
    (tmp_path / "sys/class/net/docker0/bridge").mkdir()
    linked(tmp_path, {"sys/class/net/veth1/upper_docker0": "sys/class/net/docker0"})
    assert received(tmp_path, state(1), state(4)) == 3 * GB


def test_only_the_speed_of_a_card_is_a_real_speed(tmp_path: Path) -> None:
    names = ("eth0", "bond0", "bond0.7", "br0", "pod0", "tun0")
    tree: Entries = {}
    for name in names:
        tree |= nic(name, 5, 5, 0, 0, 0, 0, speed="10000", device=False)
    build(tree, tmp_path)
    net = "sys/class/net"
    links = {
        f"{net}/{upper}/lower_{lower}": f"{net}/{lower}" for upper, lower in zip(names[1:4], names[:3], strict=True)
    }
    linked(tmp_path, links | {f"{net}/eth0/device": "sys/devices/pci0000:00/0000:18:00.0"})
    (tmp_path / net / "br0/bridge").mkdir()
    found = NetworkCollector(Root(str(tmp_path))).read()
    assert {name for name, link in found.items() if link.bits_per_s is not None} == {"eth0", "bond0", "bond0.7"}
    assert found.keys() == set(names)


IN_A_NAMESPACE = """
import socket, sys
sys.path.insert(0, sys.argv[1])
from iotop_ai.collectors.machine.network.links import NetworkCollector
from iotop_ai.collectors.io.root import Root
from iotop_ai.model.machine.network import network_rates, received_bytes_per_s
collector = NetworkCollector(Root())
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("10.99.7.1", 5555))
server.settimeout(20)
before = collector.read()
print("ready", flush=True)
while server.recv(2000) != b"end":
    pass
after = collector.read()
print(received_bytes_per_s(after, network_rates(before, after, 1.0)), flush=True)
known = sorted(before.keys() & after.keys())
print([(name, after[name].place, after[name].rx_bytes - before[name].rx_bytes) for name in known])
"""
SENDER = """
import socket, time
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(1000):
    client.sendto(bytes(1000), ("10.99.7.1", 5555))
    if i % 20 == 0:
        time.sleep(0.005)
for _ in range(3):
    client.sendto(b"end", ("10.99.7.1", 5555))
"""


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("ip") is None, reason="needs root and ip")
def test_a_real_bridge_with_traffic_is_read(tmp_path: Path) -> None:
    """1 MB comes in through a port of a bridge. Both the port and the bridge count it, but it was received once."""
    here, there = f"iotop-a{os.getpid()}", f"iotop-b{os.getpid()}"

    def ip(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["ip", *words], capture_output=True, text=True, check=check)

    if ip("netns", "add", here, check=False).returncode:
        pytest.skip("no network namespace can be made")
    try:
        ip("netns", "add", there)
        made = ip(
            "-n", here, "link", "add", "port0", "type", "veth", "peer", "name", "far0", "netns", there, check=False
        )
        made = made if made.returncode else ip("-n", here, "link", "add", "mybridge", "type", "bridge", check=False)
        if made.returncode:
            pytest.skip(made.stderr)
        ip("-n", here, "link", "set", "port0", "master", "mybridge")
        ip("-n", here, "addr", "add", "10.99.7.1/24", "dev", "mybridge")
        ip("-n", there, "addr", "add", "10.99.7.2/24", "dev", "far0")
        for where, name in ((here, "port0"), (here, "mybridge"), (there, "far0")):
            ip("-n", where, "link", "set", name, "up")
        # Each end must know the other's address (ARP) before the first datagram, or the ARP packets would count too.
        ip("netns", "exec", there, "ping", "-c", "1", "-w", "5", "10.99.7.1", check=False)
        run = ["ip", "netns", "exec", here, sys.executable, "-c", IN_A_NAMESPACE, str(Path(__file__).parents[4])]
        with subprocess.Popen(run, stdout=subprocess.PIPE, text=True) as reader:
            assert reader.stdout is not None
            assert reader.stdout.readline() == "ready\n"
            ip("netns", "exec", there, sys.executable, "-c", SENDER)
            whole, rest = float(reader.stdout.readline()), reader.stdout.read()
        assert "('mybridge', ''," in rest
        assert 1000 * 1000 <= whole <= 1000 * 1100, rest
    finally:
        ip("netns", "del", here, check=False)
        ip("netns", "del", there, check=False)
