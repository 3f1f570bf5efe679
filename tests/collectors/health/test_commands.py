"""The calls of smartctl, and the sudoers line that allows them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from iotop_ai.collectors.health.commands import argv, is_device, is_type, sudoers_line


@pytest.mark.parametrize("device", ["/dev/sda", "/dev/sdaa", "/dev/nvme0", "/dev/nvme0n1", "/dev/bus/0", "/dev/sg3"])
def test_these_device_paths_are_allowed(device: str) -> None:
    assert is_device(device)


@pytest.mark.parametrize("device", ["/dev/sda1", "sda", "/dev/../etc", "/dev/sda\n", "/dev/sda -s off", "-s", ""])
def test_these_device_paths_are_refused(device: str) -> None:
    assert not is_device(device)
    with pytest.raises(ValueError, match="invalid device"):
        argv("json", "/usr/sbin/smartctl", "sat", device)


def test_an_invalid_type_and_a_relative_path_are_refused() -> None:
    assert all(is_type(kind) for kind in ("sat+megaraid,0", "jmb39x-q,1+sat", "areca,2/1", "nvme,0xffffffff"))
    assert not any(is_type(kind) for kind in ("", "-s", "sat -s off", "SAT", "sat,", "sat,-s", "sat+-s", "sat-"))
    with pytest.raises(ValueError, match="absolute"):
        argv("scan", "smartctl")


def test_a_program_that_a_user_can_replace_gets_no_sudoers_line(tmp_path: Path) -> None:
    """With such a line the user could become root."""
    program = tmp_path / "smartctl"
    for present in (False, True):
        if present:
            program.write_text("#!/bin/sh\n")
            program.chmod(0o777)
        line = sudoers_line("ann", 1000, str(program), [("sat", "/dev/sda")])
        assert line.startswith(f"no sudoers line for {program}: ")
        assert "NOPASSWD" not in line
    link = tmp_path / "link"
    link.symlink_to("/usr/sbin/smartctl")
    assert "NOPASSWD" not in sudoers_line("ann", 1000, str(link), [])


def test_the_sudoers_line_allows_exactly_the_calls_that_are_made() -> None:
    line = sudoers_line("ann", 1000, "/usr/sbin/smartctl", [("sat", "/dev/sda")])
    assert line == (
        r"ann ALL=(root) NOPASSWD: /usr/sbin/smartctl --json\=c --scan-open, "
        r"/usr/sbin/smartctl --json\=c -a -n standby\,3 -d sat /dev/sda, "
        r"/usr/sbin/smartctl -n standby\,3 -d sat --all /dev/sda"
    )
    assert sudoers_line("AD\\ann", 1000, "/usr/sbin/smartctl", []).startswith("#1000 ALL=(root)")


@pytest.mark.parametrize("folder", ["/opt/a", "/opt/a, /bin/sh, ", "/opt/a b", "/opt/x:y=z", "/opt/+-_.1"])
def test_a_sudoers_line_names_exactly_one_path(folder: str, tmp_path: Path) -> None:
    smartctl = f"{folder}/smartctl"
    line = sudoers_line("ann", 1000, smartctl, [("sat+megaraid,0", "/dev/sda")])
    if not shutil.which("visudo") or not shutil.which("cvtsudoers"):
        pytest.skip("needs visudo and cvtsudoers (sudo)")
    file = tmp_path / "rule"
    file.write_text(line + "\n")
    file.chmod(0o440)
    checked = subprocess.run(["visudo", "-cf", str(file)], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    parsed = subprocess.run(["cvtsudoers", "-f", "json", str(file)], capture_output=True, text=True, check=True).stdout
    commands = [
        each["command"] for spec in json.loads(parsed)["User_Specs"][0]["Cmnd_Specs"] for each in spec["Commands"]
    ]
    types = [("sat+megaraid,0", "/dev/sda")] * 2
    assert commands == [
        f"{smartctl} --json=c --scan-open",
        *(" ".join(argv(what, smartctl, *pair)) for what, pair in zip(("json", "text"), types, strict=True)),
    ]


@pytest.mark.parametrize(
    "path", ["/opt/a\nb/smartctl", "/opt/*/smartctl", "/opt/a\\b", "/opt/[a]/b", '/opt/"a"', "/ä", "x"]
)
def test_an_unsafe_path_gets_no_sudoers_line(path: str) -> None:
    line = sudoers_line("ann", 1000, path, [("sat", "/dev/sda")])
    assert line.startswith("no sudoers line can name ")
    assert "NOPASSWD" not in line
    assert "\n" not in line
