"""The units that ``iotop-ai service`` prints, as systemd reads them and as the kernel confines them."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from iotop_ai.alerts.deliveries.command import CommandDelivery
from iotop_ai.alerts.drop_in import drop_in
from iotop_ai.cli.commands.record.options import RecordOptions, record_options
from iotop_ai.cli.commands.service import program, quoted, unit, writable_by_others
from iotop_ai.cli.main import build_parser
from iotop_ai.model.errors import UnknownError
from iotop_ai.model.reading import Status
from iotop_ai.store.format.codec import SnapLine
from iotop_ai.store.read.file import FileRecording

FORMS = pytest.mark.parametrize("user", [False, True], ids=["system", "user"])


def setting(text: str, name: str) -> list[str]:
    return [line.partition("=")[2] for line in text.splitlines() if line.startswith(f"{name}=")]


def options_of(text: str) -> RecordOptions:
    (line,) = setting(text, "ExecStart")
    words = shlex.split(line.replace("%S", "/var/lib").replace("%l", "host"))
    argv = words[words.index("record") :]
    return record_options(build_parser(argv).parse_args(argv))


def verify(path: Path, *, user: bool, folder: Path) -> str:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not here")
    words = ["systemd-analyze", *(["--user"] if user else []), "verify", str(path)]
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(folder)}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment, timeout=100)
    return done.stdout + done.stderr if done.returncode or str(path.name) in done.stderr else ""


@FORMS
def test_the_unit_records_for_ever_within_limits(user: bool) -> None:
    options = options_of(unit(program(), user=user))
    assert options.output == "/var/lib/iotop-ai/recordings/host.iotop.jsonl"
    assert (options.settings.interval_s, options.burst_s, options.append) == (10.0, 1.0, True)
    assert (options.rotation, options.keep, options.duration_s) == ((512 << 20, 86_400.0), 14, None)


@FORMS
def test_systemd_accepts_the_unit(tmp_path: Path, user: bool) -> None:
    folder = tmp_path / "a 100% $dir"
    folder.mkdir()
    script = folder / "iotop-ai"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    path = tmp_path / "iotop-ai.service"
    path.write_text(unit([str(script)], user=user))
    assert verify(path, user=user, folder=tmp_path) == ""


def test_systemd_accepts_the_drop_in_for_alerts(tmp_path: Path) -> None:
    path, folder = tmp_path / "iotop-ai.service", tmp_path / "iotop-ai.service.d"
    folder.mkdir()
    path.write_text(unit(["/bin/true"], user=False))
    text = "\n".join(drop_in([CommandDelivery("hook", ("/bin/true",), 10.0, 12)]))
    (folder / "alerts.conf").write_text(f"{text}\n")
    assert verify(path, user=False, folder=tmp_path) == ""
    (folder / "alerts.conf").write_text(text.replace("IPAddressAllow=any", "IPAddressAllow=all"))
    assert "Address prefix is invalid" in verify(path, user=False, folder=tmp_path)


def test_systemd_reports_a_missing_program(tmp_path: Path) -> None:
    # systemd-analyze does report errors, so its silence in test_systemd_accepts_the_unit means that the unit is valid.
    path = tmp_path / "iotop-ai.service"
    path.write_text(unit(["/nowhere/iotop-ai"], user=False))
    assert "/nowhere/iotop-ai" in verify(path, user=False, folder=tmp_path)


@FORMS
def test_the_unit_runs_nothing_from_another_users_folder(
    user: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))  # there is no script of the program in that folder
    text = unit(program(), user=user)
    assert setting(text, "WorkingDirectory") == ["/"]
    assert setting(text, "ExecStart")[0].startswith(f"{tmp_path}/python -P -m iotop_ai record ")


def test_words_are_quoted_where_they_must_be() -> None:
    assert [quoted(word) for word in ("/usr/bin/x", "/a b", "/100%", 'q"', "a;b")] == [
        "/usr/bin/x", '"/a b"', '"/100%%"', '"q\\""', '"a;b"',
    ]  # fmt: skip
    with pytest.raises(UnknownError):
        unit(["/a\nUser=x"], user=False)


def test_the_command_prints_the_unit_and_how_to_install_it() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "iotop_ai", "service", "--user"], capture_output=True, text=True, check=True
    )
    assert done.stdout == unit(program(), user=True)
    assert "systemctl --user enable --now iotop-ai" in done.stderr
    assert "@PROGRAM@" not in done.stdout


def test_a_program_that_others_can_change_is_reported(tmp_path: Path) -> None:
    assert writable_by_others("/bin/sh") == ""
    script = tmp_path / "iotop-ai"
    script.write_text("")
    script.chmod(0o777)
    assert writable_by_others(str(script)) == str(script)
    script.chmod(0o755)
    tmp_path.chmod(0o777)
    assert writable_by_others(str(script)) == (str(tmp_path) if os.geteuid() == 0 else str(script))
    assert writable_by_others(str(tmp_path / "gone")) == str(tmp_path / "gone")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_link_that_others_can_change_is_reported(own_folder: Path) -> None:
    home = own_folder / "home"
    home.mkdir()
    link = home / "venv"
    link.symlink_to("/bin")
    assert writable_by_others(str(link / "sh")) == ""
    os.chown(link, 65534, 65534, follow_symlinks=False)
    assert writable_by_others(str(link / "sh")) == str(link)


def unreadable() -> set[int]:
    """The processes whose I/O not even root with all capabilities can read, such as the supervisor of a container."""
    out = set()
    for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))):
        try:
            Path(f"/proc/{pid}/io").read_bytes()
        except PermissionError:
            out.add(pid)
        except OSError:
            continue
    return out


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root and setpriv")
def test_the_remaining_capabilities_suffice_to_see_everything(tmp_path: Path) -> None:
    (line,) = setting(unit(program(), user=False), "CapabilityBoundingSet")
    kept = ",".join(f"+{name.removeprefix('CAP_').lower()}" for name in line.split())
    path = tmp_path / "host.iotop.jsonl"
    with subprocess.Popen(["setpriv", "--reuid=65534", "--clear-groups", "sleep", "100"]) as other:
        try:
            subprocess.run(
                ["setpriv", f"--bounding-set=-all,{kept}", "--no-new-privs", sys.executable, "-m", "iotop_ai",
                 "record", "-d", "0.5", "--duration", "2", "-o", str(path)],
                check=True, capture_output=True, timeout=100,
            )  # fmt: skip
        finally:
            other.kill()
    recording = FileRecording(str(path))
    last = [item.snapshot for item in recording.lines() if isinstance(item, SnapLine)][-1]
    recording.close()
    table = last.processes.value
    assert table is not None
    assert other.pid in {key.pid for key in table.io}
    assert {key.pid for key in table.denied} <= unreadable()
    assert last.kernel.status is not Status.DENIED
