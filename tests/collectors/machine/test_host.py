"""Facts about the host, the user and the container."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.machine.host import HostReader, in_initial_user_namespace, read_container
from iotop_ai.collectors.process.users import RETRY_S
from tests.clocks import SetClock
from tests.waiting import until


def tree(path: Path, files: dict[str, str]) -> Root:
    for name, text in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    return Root(str(path))


@pytest.mark.parametrize(
    ("caps", "reads"),
    [("000001ffffffffff", True), ("0000000000000000", False), ("0000000000080000", False), ("0000000000080004", True)],
)
def test_with_two_capabilities_other_users_processes_are_read(tmp_path: Path, caps: str, reads: bool) -> None:
    root = tree(tmp_path, {"proc/self/status": f"Name:\tx\nCapEff:\t{caps}\n"})
    assert HostReader(root, Clock()).read().ptrace is reads


def test_without_a_boot_id_the_boot_time_identifies_the_boot(tmp_path: Path) -> None:
    root = tree(tmp_path, {"proc/stat": "cpu 1 2\nbtime 1700000000\n"})
    assert HostReader(root, Clock()).read().boot_id == "btime 1700000000"


def test_a_user_name_that_was_not_found_at_first_is_looked_up_again() -> None:
    names, clock = {}, SetClock(0)
    host = HostReader(Root(), clock, lambda uid: names[uid])
    assert host.read().user == str(os.geteuid())
    names[os.geteuid()] = "alice"
    assert host.read().user == str(os.geteuid())
    clock.now_ns += int(RETRY_S * 1e9)
    until(lambda: host.read().user == "alice")
    host.close()
    assert host.read().user == "alice"


def test_a_virtual_machine_from_an_image_is_not_a_container(tmp_path: Path) -> None:
    root = tree(tmp_path, {".dockerenv": "", "proc/1/cgroup": "0::/\n"})
    assert read_container(root) == "docker"
    (tmp_path / "proc/self/ns").mkdir(parents=True)
    (tmp_path / "proc/self/ns/pid").symlink_to("pid:[4026531836]")
    assert read_container(root) == ""


def test_kubernetes_is_found_by_the_cgroup(tmp_path: Path) -> None:
    assert read_container(tree(tmp_path, {"proc/1/cgroup": "0::/kubepods.slice/kubepods-pod1.slice\n"})) == "kubepods"


def test_the_user_namespace_is_known_by_its_number(tmp_path: Path) -> None:
    link = tmp_path / "proc/self/ns/user"
    link.parent.mkdir(parents=True)
    # A kernel without user namespaces does not have the file.
    assert in_initial_user_namespace(Root(str(tmp_path)))
    link.symlink_to("user:[4026532888]")
    assert not in_initial_user_namespace(Root(str(tmp_path)))
    link.unlink()
    link.symlink_to("user:[4026531837]")
    assert in_initial_user_namespace(Root(str(tmp_path)))
