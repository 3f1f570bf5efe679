"""``replay`` and ``--host`` from the command line: refusals on one line, exit codes, remote and piped screens."""

from __future__ import annotations

import argparse
import gzip
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from iotop_ai.cli.commands.monitor import command as monitor
from iotop_ai.cli.commands.monitor import remote
from iotop_ai.cli.commands.monitor.command import ScreenStart
from iotop_ai.cli.commands.monitor.remote import KEEPALIVE, Ssh, show_host
from iotop_ai.cli.commands.monitor.session_recording import open_file
from iotop_ai.cli.commands.record.options import record_options
from iotop_ai.cli.commands.replay import Chain, parse_speed
from iotop_ai.cli.main import build_parser, run
from iotop_ai.cli.options.common import settings_elsewhere
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.model.errors import InputError, UsageError
from iotop_ai.model.settings import Settings
from iotop_ai.store.write.sink import FileSink
from tests.cli.program import PLAIN, TOP, command, iotop, iotop_here
from tests.rigs.tmux import Terminal, why_no_tmux
from tests.tui.recorded import record, recorder_of, stalling, written

JOBS = str(TOP / "tests" / "data" / "jobs.iotop.jsonl.gz")
LOGS = TOP / "tests" / "data" / "logs"
needs_tmux = pytest.mark.skipif(bool(why_no_tmux()), reason=why_no_tmux())


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return record(tmp_path_factory.mktemp("replay") / "a.iotop.jsonl", stalling())


def one_line(*arguments: str, run: Callable[..., subprocess.CompletedProcess[str]] = iotop_here) -> str:
    """Return the only line that the program prints, on standard error, before it exits with 2."""
    done = run("replay", "--allow-root", *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_file_that_is_not_a_recording_is_a_one_line_error(tmp_path: Path, path: str) -> None:
    junk = tmp_path / "junk"
    for raw in (b"", b"%PDF-1.7 secret", b"{}\n", b"\x00" * 9999, gzip.compress(b"secret " * 99), b"[" * 99999):
        junk.write_bytes(raw)
        message = one_line(str(junk))
        assert message.startswith("input: ")
        assert "secret" not in message
    assert one_line(str(tmp_path)).startswith("input: ")
    assert "No such file" in one_line(str(tmp_path / "none"))
    whole = Path(path).read_bytes()
    junk.write_bytes(whole[: whole.index(b'"carry"')])
    assert one_line(str(junk)).startswith("input: ")


def test_invalid_usage_is_a_one_line_error(path: str) -> None:
    assert "25:00" in one_line("--at", "25:00", path)
    assert "0.25 to 64" in one_line("--speed", "99", path)
    assert "not a terminal" in one_line(path, run=iotop)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_reads_its_own_files_and_needs_allow_root_for_others(path: str, tmp_path: Path) -> None:
    link, theirs = tmp_path / "link", tmp_path / "theirs.iotop.jsonl"
    link.symlink_to("/etc/shadow")
    shutil.copyfile(path, theirs)
    os.chown(theirs, 65534, 65534)
    for words in (("replay",), ("diagnose",), ("export",)):
        for one, why in ((theirs, "user 65534"), (link, "symbolic link")):
            done = iotop_here(*words, str(one))
            assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
            assert done.stderr.startswith(f"input: {one}: ")
            assert why in done.stderr
            assert "--allow-root" in done.stderr
    assert iotop("export", "--allow-root", str(theirs)).returncode == 0
    assert iotop("export", path).returncode == 0
    assert iotop("replay", path).stderr == (
        "usage: not a terminal: use iotop-ai report FILE or iotop-ai diagnose FILE\n"
    )
    with theirs.open() as file:
        done = subprocess.run(command("export", "-"), cwd=TOP, env=PLAIN, stdin=file, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_needs_allow_root_for_the_logs_of_others(path: str, tmp_path: Path) -> None:
    steps, iostat, smi, link = (tmp_path / name for name in ("steps.log", "iostat.json", "smi.csv", "link"))
    steps.write_text("step 1\nstep 2\n")
    shutil.copyfile(LOGS / "iostat-12.6.json", iostat)
    shutil.copyfile(LOGS / "made-nvidia-smi.csv", smi)
    for theirs in (steps, iostat, smi):
        os.chown(theirs, 65534, 65534)
    link.symlink_to("/etc/shadow")
    for words, log, flags in (
        (("report", path, "--steps"), steps, ()),
        (("compare", path, path, "--before-steps"), steps, ()),
        (("import", "--iostat"), iostat, ("-o", str(tmp_path / "one"))),
        (("import", "--nvidia-smi"), smi, ("-o", str(tmp_path / "two"))),
    ):
        for one, why in ((log, "it belongs to user 65534"), (link, "symbolic link")):
            done = iotop_here(*words, str(one), *flags)
            assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
            assert done.stderr.startswith(f"input: {one}: ")
            assert why in done.stderr
            assert "--allow-root" in done.stderr
        assert iotop_here(*words, str(log), *flags, "--allow-root").returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize("words", [(), ("--allow-root",)])
def test_the_content_of_other_files_is_not_printed(tmp_path: Path, words: tuple[str, ...]) -> None:
    path = tmp_path / "shadow"
    for text in (
        b"root:$6$hash:19000::\n",
        b'{"k":"hdr","fmt":"$6$hash"}\n',
        b"\x1f\x8b\x08\x04$6$hash$6$hash$6$hash" * 9,
    ):
        path.write_bytes(text)
        for verb in ("replay", "diagnose", "export"):
            done = iotop_here(verb, *words, str(path))
            assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
            assert "hash" not in done.stderr
        for flag in ("--iostat", "--nvidia-smi"):
            done = iotop_here("import", *words, flag, str(path), "-o", "-")
            assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
            assert "hash" not in done.stderr


@pytest.mark.parametrize(("text", "factor"), [("2", 2.0), ("0.25x", 0.25), ("64X", 64.0)])
def test_speeds_are_parsed(text: str, factor: float) -> None:
    assert parse_speed(text) == factor


@pytest.mark.parametrize("text", ["0", "65", "x", "", "nan", "-1"])
def test_invalid_speeds_are_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        parse_speed(text)


def test_a_file_that_still_grows_is_followed_until_it_is_closed(tmp_path: Path) -> None:
    recorder = recorder_of(FileSink(str(tmp_path / "a")))
    live = stalling(5)
    for frame in live:
        recorder.put(frame)
    written(recorder, 5)
    assert Chain(str(tmp_path / "a")).grows(1_000_000_000)
    assert not Chain(str(tmp_path / "a")).grows(60_000_000_000)
    assert recorder.close()
    assert not Chain(str(tmp_path / "a")).grows(1_000_000_000)


def test_a_file_is_followed_by_the_interval_of_its_newest_session(tmp_path: Path) -> None:
    live = stalling(10)
    path = record(tmp_path / "a", live[:5])
    recorder = recorder_of(FileSink(path, append=True))
    for frame in live[5:]:
        recorder.put(frame._replace(snapshot=frame.snapshot._replace(interval_s=60.0)))
    written(recorder, 5)
    chain = Chain(path)
    assert chain.interval_s == 60.0
    assert chain.grows(100_000_000_000)
    chain.close()
    assert recorder.close()


def test_a_recording_is_named_by_its_host_and_time(tmp_path: Path) -> None:
    sink = open_file(Clock(), str(tmp_path))
    assert Path(sink.path).name.startswith(os.uname().nodename + "-2")
    assert Path(sink.path).stat().st_mode & 0o777 == 0o600
    sink.close()


@pytest.mark.parametrize("host", ["-oProxyCommand=id", "-", "", "a b", "a\nb", "a\x1b[31m"])
def test_an_invalid_host_is_refused(host: str) -> None:
    with pytest.raises(UsageError, match="not a host"):
        show_host(Settings(), host)


@pytest.fixture
def ssh(tmp_path: Path) -> Path:
    """The path at which a test puts a program that replaces ssh."""
    return tmp_path / "ssh"


def stand_in(program: Path, text: str) -> None:
    """Write a shell script that replaces ssh."""
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo 'sh: 1: iotop-ai: not found' >&2; exit 127", "box: no iotop-ai in the PATH of that machine"),
        ("echo 'ssh: Could not resolve hostname box' >&2; exit 255", "box: no connection: ssh: Could not resolve"),
        ("echo 'input: cannot write' >&2; exit 2", "box: input: cannot write"),
        ("exit 0", "box: the connection was closed before any data arrived"),
        ("printf '\\033[31mred\\n' >&2; exit 1", "red"),
    ],
)
@needs_tmux
def test_errors_of_a_remote_screen_are_explained(ssh: Path, script: str, message: str) -> None:
    stand_in(ssh, script)
    with Terminal(80, 24, {"IOTOP_AI_SSH": str(ssh)}) as terminal:
        terminal.type(" ".join(command("--host", "box")) + "; echo rc=$?\n")
        text = terminal.wait_for("rc=2")
        assert message in text
        assert "input: " in text
        assert "Traceback" not in text
        assert terminal.mode()["alternate_on"] == "0"


def first_paint(_: Settings, make_screen_start: Callable[[], ScreenStart], close: Callable[[], None]) -> int:
    """Stand in for ``run_screen``: get the data of the first paint, then end."""
    make_screen_start()
    close()
    return 0


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            'echo greeting >&2; echo \'{"k":"hdr","fmt":99}\'; exec sleep 30',
            r"box: line 1: format 99 was written by a newer iotop-ai \(.*\)",
        ),
        ("echo greeting >&2; echo Welcome; exec sleep 30", "box: line 1: not a line of a recording"),
        ("echo Welcome; exit 1", "box: line 1: not a line of a recording"),
        ("echo Welcome; echo no space left >&2; exit 2", "box: no space left"),
        ("echo Welcome; exit 127", "box: no iotop-ai in the PATH of that machine"),
        ("exit 1", "box: the connection was closed before any data arrived"),
        ("head -n 1 {path}", "box: the stream ended before its first Snapshot"),
    ],
)
def test_an_unreadable_stream_of_a_host_is_explained(
    ssh: Path, path: str, script: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(ssh, script.replace("{path}", path))
    monkeypatch.setenv("IOTOP_AI_SSH", str(ssh))
    monkeypatch.setattr(remote, "run_screen", first_paint)
    with pytest.raises(InputError, match=f"^{message}$"):
        show_host(Settings(), "box")


@pytest.mark.parametrize(
    ("flags", "sent"),
    [
        ([], "iotop-ai record -o - -d 1"),
        (["-d", "0.5", "--exact", "--no-smart"], "iotop-ai record -o - -d 0.5 --exact --no-smart"),
        (["--smart", "--smartctl", "/a b/smartctl"], "iotop-ai record -o - -d 1 --smart '--smartctl=/a b/smartctl'"),
        (
            ["--smart-type", "sda=megaraid,3", "--smart-type", "sdb;id=sat"],
            "iotop-ai record -o - -d 1 --smart-type=sda=megaraid,3 '--smart-type=sdb;id=sat'",
        ),
        (["--procfs=-x", "--sysfs", "$(id)"], "iotop-ai record -o - -d 1 --procfs=-x '--sysfs=$(id)'"),
    ],
)
def test_the_flags_about_reading_a_machine_reach_the_host(
    ssh: Path, flags: list[str], sent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(ssh, 'for word; do :; done; echo "$word" >&2; exit 2')
    monkeypatch.setenv("IOTOP_AI_SSH", str(ssh))
    monkeypatch.setenv("IOTOP_AI_SMARTCTL", "/here/smartctl")  # a setting of this machine
    monkeypatch.setattr(remote, "run_screen", first_paint)
    with pytest.raises(InputError) as raised:
        run([*flags, "--host", "box"])
    assert str(raised.value) == f"box: {sent}"
    words = shlex.split(sent)[1:]
    assert record_options(build_parser(words).parse_args(words)).output == "-"


def screen_starts(path: str, flags: list[str], monkeypatch: pytest.MonkeyPatch) -> list[ScreenStart]:
    """The starts of the screens of a recording and of another machine with the same data."""
    out: list[ScreenStart] = []

    def begin(
        settings: Settings, make_screen_start: Callable[[], ScreenStart], close: Callable[[], None], instead: str = ""
    ) -> int:
        out.append(make_screen_start())
        close()
        return 0

    for module in (monitor, remote):
        monkeypatch.setattr(module, "run_screen", begin)
    assert run([*flags, "replay", "--allow-root", path]) == 0
    settings = settings_elsewhere(build_parser(flags).parse_args(flags))
    assert remote.show_stream(settings, os.open(path, os.O_RDONLY)) == 0
    return out


@pytest.mark.parametrize("flags", [[], ["-a"]])
def test_sums_begin_with_the_first_frame_that_is_shown(
    path: str, flags: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for start in screen_starts(path, flags, monkeypatch):
        assert (start.changes["base"] is start.first.snapshot) == bool(flags)


@pytest.mark.parametrize(
    ("recording", "flags", "message"),
    [
        (JOBS, [], "opened at the first verdict, 11 s after the start; Home: the start"),
        (JOBS, ["--at", "0%"], ""),
        ("", [], "opened 40 s after the start; Home: the start"),
    ],
)
def test_a_replay_names_the_moment_at_which_it_opens(
    path: str, recording: str, flags: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out: list[ScreenStart] = []

    def begin(settings: Settings, make_screen_start: Callable[[], ScreenStart], *_: object) -> int:
        out.append(make_screen_start())
        return 0

    monkeypatch.setattr(monitor, "run_screen", begin)
    assert run(["replay", "--allow-root", *flags, recording or path]) == 0
    assert out[0].changes.get("message", "") == message


def test_a_pattern_selects_the_disks_of_a_recording_and_of_another_machine(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for start in screen_starts(path, ["--device", "ALL"], monkeypatch):
        assert start.changes["devices"] == tuple(start.first.snapshot.disks.value or ()) != ()
    with pytest.raises(UsageError, match="no device 'none\\*'; devices: "):
        screen_starts(path, ["--device", "none*"], monkeypatch)


def test_an_error_of_the_screen_names_the_crash_log(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object) -> int:
        error = AttributeError("no such widget")
        error.add_note("log: /var/lib/iotop-ai/crash.log")
        raise error

    monkeypatch.setattr(monitor, "run_screen", crash)
    assert one_line(path).endswith("cannot be evaluated (AttributeError; log: /var/lib/iotop-ai/crash.log)\n")


def test_a_missing_ssh_is_an_error() -> None:
    with pytest.raises(InputError, match="OpenSSH"):
        Ssh("box", "true", program="/nonexistent/ssh")


def test_ssh_gets_the_right_command(ssh: Path) -> None:
    stand_in(ssh, 'printf "%s\\n" "$@"')
    with Ssh("-x", "iotop-ai record -o -", program=str(ssh)) as child:
        assert os.read(child.fd, 999).decode().splitlines() == [*KEEPALIVE, "--", "-x", "iotop-ai record -o -"]


def test_a_shared_connection_may_keep_stderr_open(ssh: Path) -> None:
    """ssh's ControlPersist does this. A thread still reads stderr, so the descriptor must stay open."""
    stand_in(ssh, "sleep 3 >/dev/null & exit 0")
    with Ssh("box", "true", program=str(ssh)) as child:
        assert os.read(child.fd, 9) == b""
    assert child._stderr_thread.is_alive()
    assert child._child.stderr is not None
    assert not child._child.stderr.closed
    child._stderr_thread.join(20)


@needs_tmux
def test_a_remote_machine_is_shown_on_this_screen(ssh: Path, path: str) -> None:
    stand_in(ssh, f"cat {path}; sleep 30")
    with Terminal(80, 24, {"IOTOP_AI_SSH": str(ssh)}) as terminal:
        terminal.type(" ".join(command("--host", "user@box")) + "; echo rc=$?\n")
        terminal.wait_for("► REMOTE 1 s")
        assert "gpu07" in terminal.text()
        terminal.keys("[")
        terminal.wait_for("◄ BACK")
        terminal.keys("End")
        terminal.wait_for("► REMOTE 1 s")
        terminal.keys("q")
        terminal.wait_for("rc=0")


@needs_tmux
def test_a_recording_from_a_pipe_is_shown_on_a_screen_that_takes_keys(path: str) -> None:
    with Terminal(80, 24) as terminal:
        replay = " ".join(command("replay", "--allow-root", "-"))
        terminal.type(f"(cat {path}; sleep 5) | {replay}; echo rc=$?\n")
        terminal.wait_for("► REMOTE 1 s")
        terminal.keys("?")
        terminal.wait_for(" back ──")
        terminal.keys("x")
        terminal.wait_for("► REMOTE ended")
        terminal.keys("q")
        terminal.wait_for("rc=0")


@needs_tmux
def test_a_file_as_standard_input_is_replayed(path: str) -> None:
    with Terminal(80, 24) as terminal:
        terminal.type(" ".join(command("replay", "--allow-root", "--at", "50%", "-")) + f" < {path}; echo rc=$?\n")
        terminal.wait_for("REPLAY paused")
        terminal.keys("v")
        terminal.wait_for("STARVED")
        terminal.keys("q")
        terminal.wait_for("rc=0")
