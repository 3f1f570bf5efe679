"""Root trusts a file only if root alone can change it, and trusts no environment of another user."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from iotop_ai.cli.commands.monitor.remote import SSH_VARIABLE
from iotop_ai.cli.config.table import SETTINGS
from iotop_ai.collectors.io.trust import UNTRUSTED_VARIABLES, drop_untrusted_variables, invoking_user, why_untrusted
from tests.cli.program import PLAIN, TOP, command, iotop_here

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def config(folder: Path, text: str = "interval = 7\n") -> Path:
    path = folder / "iotop-ai" / "config.toml"
    path.parent.mkdir(parents=True)
    path.parent.chmod(0o755)
    path.write_text(text)
    path.chmod(0o644)
    return path


def loaded(path: Path | None = None, **environment: str) -> tuple[int, str, str]:
    """The exit code, stdout and stderr of ``config print`` of the real program."""
    named = [] if path is None else ["--config", str(path)]
    done = subprocess.run(
        command("config", "print", *named), cwd=TOP, env={**PLAIN, **environment}, capture_output=True, text=True,
        timeout=30, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def loaded_here(path: Path) -> tuple[int, str, str]:
    """The same for ``config print`` in this process."""
    done = iotop_here("config", "print", "--config", str(path))
    return done.returncode, done.stdout, done.stderr


@as_root
def test_a_file_in_roots_folders_is_trusted(own_folder: Path) -> None:
    path = config(own_folder)
    assert why_untrusted(str(path)) == ""
    code, out, err = loaded(path)
    assert (code, err) == (0, "")
    assert "interval = 7" in out


@as_root
@pytest.mark.parametrize("mode", [0o775, 0o757, 0o1777], ids=["group", "all", "sticky"])
def test_a_folder_that_others_can_write_is_not_trusted(own_folder: Path, mode: int) -> None:
    path = config(own_folder / "open")
    (own_folder / "open").chmod(mode)
    code, out, err = loaded_here(path)
    assert code == 2
    assert out == ""
    assert f"users other than root can write to {own_folder / 'open'}" in err
    assert err.count("\n") == 1


@as_root
@pytest.mark.parametrize("mode", [0o664, 0o646])
def test_a_file_that_others_can_write_is_not_trusted(own_folder: Path, mode: int) -> None:
    path = config(own_folder)
    path.chmod(mode)
    assert loaded_here(path)[0] == 2
    path.chmod(0o644)
    os.chown(path.parent, 65534, 0)
    code, _, err = loaded_here(path)
    assert code == 2
    assert "belongs to user 65534" in err


@as_root
def test_a_link_is_checked_with_its_target(own_folder: Path, tmp_path: Path) -> None:
    there = config(tmp_path)  # this folder is below /tmp, where all users can write
    link = own_folder / "config.toml"
    link.symlink_to(there)
    assert "users other than root can write to /tmp" in why_untrusted(str(link)) or not str(tmp_path).startswith("/tmp")
    back = tmp_path / "link.toml"
    back.symlink_to(config(own_folder))
    assert why_untrusted(str(back)) or not str(tmp_path).startswith("/tmp")


@as_root
def test_a_path_through_another_users_link_is_not_trusted(own_folder: Path) -> None:
    """Both ends of the path belong to root, but the other user may point the link to another place."""
    path = config(own_folder)
    theirs = own_folder / "theirs"
    theirs.mkdir()
    (theirs / "link").symlink_to(path)
    link = own_folder / "config.toml"
    link.symlink_to("theirs/link")
    assert why_untrusted(str(link)) == ""
    os.chown(theirs, 65534, 65534)
    assert f"{theirs} belongs to user 65534" in why_untrusted(str(link))
    assert f"{theirs} belongs to user 65534" in why_untrusted(f"{link.parent}/./iotop-ai/../config.toml")
    os.chown(theirs, 0, 0)
    os.chown(theirs / "link", 65534, 65534, follow_symlinks=False)
    assert "link belongs to user 65534" in why_untrusted(str(link))


@as_root
def test_a_link_to_itself_is_not_trusted(own_folder: Path) -> None:
    (own_folder / "round").symlink_to("round")
    assert "Too many levels" in why_untrusted(str(own_folder / "round"))


@as_root
def test_under_sudo_the_users_variables_are_dropped(own_folder: Path) -> None:
    path = config(own_folder, "interval = 7\n")
    evil = own_folder / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {own_folder}/ran\n")
    evil.chmod(0o755)
    environment = {"XDG_CONFIG_HOME": str(own_folder), "IOTOP_AI_SMARTCTL": str(evil), "TEXTUAL_LOG": "/etc/x"}
    code, out, err = loaded(**environment)  # the file belongs to root, so it is trusted
    assert code == 0
    assert "interval = 7" in out
    assert f"smartctl = '{evil}'" in out
    code, out, err = loaded(**environment, SUDO_UID="1000")
    assert code == 0
    assert "interval = 7" not in out
    assert str(evil) not in out
    assert err.count("\n") == 1
    assert err.startswith("warning: running as root, so these are ignored, because user 1000 may have set them: ")
    assert "--smartctl in place of IOTOP_AI_SMARTCTL" in err
    assert "--config in place of XDG_CONFIG_HOME" in err
    assert loaded(path, **environment, SUDO_UID="1000")[0] == 0
    done = subprocess.run(
        command("snapshot", "--json"), cwd=TOP, env={**PLAIN, **environment, "SUDO_UID": "1000"}, capture_output=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert not (own_folder / "ran").exists()


@as_root
def test_the_user_who_became_root_is_known() -> None:
    assert invoking_user({"SUDO_UID": "1000"}) == 1000
    assert invoking_user({"PKEXEC_UID": "1001"}) == 1001
    own = invoking_user({"SUDO_UID": "0"})
    login = int(Path("/proc/self/loginuid").read_text())
    assert own == (None if login in (0, 2**32 - 1) else login)


def test_every_setting_that_names_a_program_or_a_tree_is_dropped() -> None:
    named = {s.variable for s in SETTINGS if s.field in ("smartctl", "procfs", "sysfs") and s.variable}
    assert named <= set(UNTRUSTED_VARIABLES)


@as_root
def test_under_sudo_the_users_ssh_is_not_run() -> None:
    environ = {SSH_VARIABLE: "/home/a/ssh", "SUDO_UID": "1000"}
    assert drop_untrusted_variables(environ).endswith(f"user 1000 may have set them: {SSH_VARIABLE}")
    assert SSH_VARIABLE not in environ


def test_an_ordinary_user_keeps_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    environ = {"IOTOP_AI_SMARTCTL": "/x", "SUDO_UID": "1000"}
    assert drop_untrusted_variables(environ) == ""
    assert "IOTOP_AI_SMARTCTL" in environ


@as_root
def test_a_session_in_the_browser_keeps_its_driver() -> None:
    environ = {"TEXTUAL_DRIVER": "textual.drivers.web_driver:WebDriver", "SUDO_UID": "1000"}
    assert drop_untrusted_variables(environ) == ""
    environ["TEXTUAL_DRIVER"] = "evil:Driver"
    assert "TEXTUAL_DRIVER" in drop_untrusted_variables(environ)
    assert "TEXTUAL_DRIVER" not in environ
