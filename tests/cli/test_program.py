"""The real program, end to end: its stdout, its stderr and its exit code."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import iotop_ai
from iotop_ai.export.field_names import IOSTAT_KEYS
from iotop_ai.export.json.snapshot import KEYS
from tests.cli.forked import Run
from tests.cli.program import PLAIN, TOP, command, iotop, iotop_here, iotop_started
from tests.job_times import SLOW_DISK
from tests.rigs.nobody import as_nobody, why_not_nobody


def complaint(*arguments: str, run: Callable[..., subprocess.CompletedProcess[str]] = iotop) -> str:
    """The line on stderr of a run that gives no answer."""
    done = run(*arguments)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    return done.stderr.strip()


def test_the_version_is_printed() -> None:
    done = iotop_started("--version")
    assert (done.returncode, done.stdout) == (0, f"iotop-ai {iotop_ai.__version__}\n")


def test_help_has_examples_and_every_command() -> None:
    done = iotop("--help")
    assert done.returncode == 0
    assert all(word in done.stdout for word in ("examples:", "snapshot", "trend", "--device", "--path", "exit codes"))
    assert iotop("snapshot", "--help").returncode == 0


@pytest.mark.parametrize("arguments", [(), ("--device", "ALL")])
def test_the_bare_command_without_a_terminal_names_the_alternatives(arguments: tuple[str, ...]) -> None:
    line = complaint(*arguments)
    assert line.startswith("usage:")
    assert "-b" in line
    assert "snapshot" in line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-d", "0.01", "-b"), "0.1 to 3600"),
        (("-d", "soon", "-b"), "is not a duration"),
        (("-b", "-n", "0"), "not a count"),
        (("-b", "-n", "9" * 5000), f"argument -n/--count: '{'9' * 57}...' is not a count; write 1 or more"),
        (("diagnose", "--job", "9" * 5000), "...' is not a process id"),
        (("web", "--port", "9" * 5000), "...' is not a port; write 1024 to 65535"),
        (("check", "/tmp", "--workers", "9" * 5000), "...' is not a number of workers; write 0 to "),
        (("loader", "a:b", "--workers", "2," + "9" * 5000), "...' is not a list of numbers from 0 to "),
        (("-n5", "record"), "-n prints live text; for the flags of record: iotop-ai record --help"),
        (("--json", "doctor"), "--json prints live text; for the flags of doctor"),
        (("-n", "3"), "-b"),
        (("--nonsense",), "unrecognized"),
        (("frobnicate",), "snapshot"),
        (("snapshot", "-n", "2"), "unrecognized"),
        (("--theme", "puce"), "cvd"),
        (("replya", "a.jsonl"), "'replya' is not a command; did you mean replay? (see iotop-ai --help)"),
        (("a.iotop.jsonl",), "iotop-ai replay a.iotop.jsonl shows a recording"),
        (("--thme", "dark"), "unrecognized arguments: --thme; did you mean --theme?"),
        (("diagnose", "--fail_if", "x"), "--fail_if; did you mean --fail-if? (see iotop-ai diagnose --help)"),
        (
            ("serve", "--listen", "0.0.0.0:9743", "--token-file", ""),
            "--token-file is empty (see iotop-ai serve --help)",
        ),
        (("record", "--rotate="), "--rotate is empty"),
        (("-b", "--path", ""), "--path is empty"),
        (("import", "--iostat", ""), "--iostat is empty"),
        (("stage", "", "/tmp"), "SRC is empty (see iotop-ai stage --help)"),
        (("stage", "/tmp", ""), "DST is empty"),
        (("cache", "status", ""), "PATH is empty (see iotop-ai cache status --help)"),
        (("cache", "evict", ""), "PATH is empty"),
        (("check", ""), "PATH is empty"),
        (("assets", "install", "all", ""), "DIR is empty"),
        (("report", ""), "FILE is empty"),
        (("compare", "", ""), "BEFORE is empty"),
        (("diagnose", ""), "FILE is empty"),
        (("export", ""), "FILE is empty"),
        (("replay", ""), "FILE is empty"),
        (("status", ""), "FILE is empty"),
        (("loader", ""), "MODULE:FACTORY is empty"),
        (("ack", "--undo", ""), "ID is empty"),
        (("health", "sda", ""), "DEV is empty"),
        (("why", "--json"), "--json; iotop-ai diagnose prints JSON and reads recordings (see iotop-ai why --help)"),
    ],
)
def test_wrong_usage_gives_a_one_line_error(arguments: tuple[str, ...], message: str) -> None:
    line = complaint(*arguments, run=iotop_here)
    assert line.startswith("usage:")
    assert message in line


def test_the_error_about_an_unknown_device_lists_the_devices() -> None:
    line = complaint("-b", "--device", "sdzzz\x1b]0;owned\x07")
    assert line.startswith("usage: no device 'sdzzz")
    assert line.isprintable()
    disks = [name for name in os.listdir("/sys/block") if not name.startswith(("loop", "ram", "zram", "sr", "fd"))]
    assert not disks or any(name in line for name in disks)


def test_an_unknown_folder_and_a_folder_without_a_disk_are_errors() -> None:
    assert complaint("snapshot", "--path", "/no/such/folder").startswith("usage: no folder")
    assert complaint("-b", "--path", "/proc").startswith("unknown: /proc is not on a disk")


def test_a_snapshot_is_printed_as_json() -> None:
    begun = time.monotonic()
    done = iotop_started("snapshot", "--json", "-d", "0.3")
    took = time.monotonic() - begun
    assert (done.returncode, done.stderr) == (0, "")
    data = json.loads(done.stdout)
    assert tuple(data) == KEYS
    assert 0.25 < data["interval_s"] < took  # the second reading may come late on a busy machine
    listed = {device["name"] for device in data["devices"]}
    assert listed <= set(os.listdir("/sys/block"))
    assert all(set(IOSTAT_KEYS) <= device.keys() for device in data["devices"])
    assert data["system"]["cpu"]["cores"] == os.cpu_count()
    assert not any(finding["class"] == "unknown" for finding in data["findings"])


def test_the_text_of_a_snapshot_has_the_devices_of_the_json() -> None:
    done = iotop("snapshot", "-d", "0.2", "--no-smart")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert any(line.startswith("verdict ") for line in lines)
    assert any(line.startswith("Device ") and line.split()[-1] == "mounted" for line in lines)


def test_flags_before_the_command_apply_too() -> None:
    done = iotop("-d", "2", "--no-smart", "snapshot", "--json")  # the default interval is 1 s
    assert json.loads(done.stdout)["interval_s"] > 1.9


def test_batch_prints_as_many_blocks_as_requested() -> None:
    done = iotop("-b", "-n", "2", "-d", "0.2")
    assert (done.returncode, done.stderr) == (0, "")
    verdicts = [line for line in done.stdout.splitlines() if line.startswith("verdict ")]
    assert len(verdicts) == 2


def test_a_closed_pipe_ends_the_program_silently() -> None:
    with subprocess.Popen(
        command("-b", "-d", "0.1"), cwd=TOP, env=PLAIN, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline().startswith("verdict ")
        process.stdout.close()
        assert process.wait(20) == 0
        assert process.stderr.read() == ""


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "more than a buffer"])
@pytest.mark.parametrize("name", ["report", "diagnose"])
def test_a_closed_pipe_does_not_change_the_exit_code(name: str, form: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as pipe:
        run = Run((name, *form, "--allow-root", str(SLOW_DISK), "--fail-if", "data_wait > 1%"), PLAIN, pipe)
        _, stderr = run.communicate(60)
    assert (run.returncode, stderr) == (1, "")


def interrupted(after_a_block: bool) -> tuple[int, str]:
    """The exit code and stderr of a batch run that is ended by Ctrl-C."""
    with subprocess.Popen(
        command("-b", "-d", "0.2" if after_a_block else "3600"),
        cwd=TOP,
        env=PLAIN,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stderr
        if after_a_block:
            process.stdout.readline()
        else:
            time.sleep(2)
        process.send_signal(signal.SIGINT)
        code = process.wait(20)
        return code, process.stderr.read()


def test_ctrl_c_after_a_block_is_a_normal_end() -> None:
    assert interrupted(after_a_block=True) == (0, "")


def test_ctrl_c_before_any_block_gives_exit_code_130() -> None:
    assert interrupted(after_a_block=False) == (130, "")


def test_stdout_on_a_full_disk_gives_a_one_line_error() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command("-b", "-n", "1", "-d", "0.1"),
            cwd=TOP,
            env=PLAIN,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=30,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr.startswith("unknown: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("words", [("--help",), ("--version",), ("trend", "--help")])
def test_help_on_a_full_disk_gives_a_one_line_error(words: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        line = command(*words)
        done = subprocess.run(line, cwd=TOP, env=PLAIN, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("unknown: I/O: No space left on device")
    assert done.stderr.count("\n") == 1


INTERRUPTED_IMPORT = """
import runpy, signal, sys
class CtrlC:
    def find_spec(self, name, *more):
        if name == "iotop_ai.model.settings":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, CtrlC())
runpy.run_module("iotop_ai", run_name="__main__")
"""


def test_ctrl_c_while_the_program_is_imported_gives_exit_code_130() -> None:
    line = [sys.executable, "-c", INTERRUPTED_IMPORT]
    done = subprocess.run(line, cwd=TOP, env=PLAIN, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize("reader", ["closed", "full"])
def test_an_error_counts_even_if_the_output_before_it_is_lost(reader: str, tmp_path: Path) -> None:
    lines = gzip.decompress(SLOW_DISK.read_bytes()).split(b"\n")
    damaged = tmp_path / "damaged.iotop.jsonl"
    damaged.write_bytes(b"\n".join([*lines[:4], b'{"k":"snap","m":1,"t":2,"v":3}', b""]))
    ours, theirs = os.pipe()
    os.close(ours)
    with os.fdopen(theirs, "w") if reader == "closed" else open("/dev/full", "w") as out:
        line = command("export", str(damaged), "--table", "system")
        done = subprocess.run(line, cwd=TOP, env=PLAIN, stdout=out, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, f"input: {damaged}: line 5: not a line of a recording\n")


BROKEN_COMMAND = """
import sys
import iotop_ai.cli.main as program
def run(words):
    print("lost")
    raise RuntimeError("broken")
program.run = run
sys.exit(program.main([]))
"""


def test_an_unexpected_error_counts_even_if_the_reader_has_gone() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as out:
        line = [sys.executable, "-c", BROKEN_COMMAND]
        done = subprocess.run(line, cwd=TOP, env=PLAIN, stdout=out, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr.partition(" (")[0]) == (2, "unknown: RuntimeError('broken')")


def test_a_slow_reader_of_a_pipe_that_does_not_block_gets_all_output() -> None:
    line = command("export", str(SLOW_DISK), "--table", "system,devices", "--format", "jsonl")
    whole = subprocess.run(line, cwd=TOP, env=PLAIN, stdout=subprocess.PIPE, check=True).stdout
    assert len(whole) > 100_000  # more than a pipe holds
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    with subprocess.Popen(line, cwd=TOP, env=PLAIN, stdout=theirs) as process, os.fdopen(ours, "rb") as out:
        os.close(theirs)
        time.sleep(1.5)
        assert out.read() == whole
    assert process.returncode == 0


@pytest.mark.parametrize("closing", [">&-", ">&- 2>&-", "<&-"])
def test_with_a_closed_stream_the_program_ends_without_a_traceback(closing: str) -> None:
    shell = f'exec "$@" {closing}'
    done = subprocess.run(
        ["/bin/sh", "-c", shell, "sh", *command("-b", "-n", "1", "-d", "0.1")],
        cwd=TOP,
        env=PLAIN,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    expected = {">&-": (2, "unknown: standard output is closed\n"), ">&- 2>&-": (2, ""), "<&-": (0, "")}
    assert (done.returncode, done.stderr) == expected[closing]


@pytest.mark.parametrize("closing", ["2>/dev/full", "2>&-"])
def test_a_lost_message_changes_neither_the_output_nor_the_exit_code(closing: str, tmp_path: Path) -> None:
    cut = tmp_path / "cut.iotop.jsonl.gz"
    whole_part = SLOW_DISK.read_bytes()
    cut.write_bytes(whole_part + whole_part[:-9])

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        shell = ["/bin/sh", "-c", f'exec "$@" {closing}', "sh", *command(*arguments)]
        return subprocess.run(shell, cwd=TOP, env=PLAIN, stdout=subprocess.PIPE, text=True, timeout=60, check=False)

    missing = run("diagnose", str(tmp_path / "missing"))
    assert (missing.returncode, missing.stdout) == (2, "")
    without_stderr, normal = run("diagnose", "--json", str(cut)), iotop("diagnose", "--json", str(cut))
    assert "is cut off" in normal.stderr
    assert (without_stderr.returncode, without_stderr.stdout) == (normal.returncode, normal.stdout)


@pytest.mark.parametrize("closing", ["2>/dev/full", "2>&-"])
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("record", "-o", "-", "-d", "0.1", "--duration", "0.3"), 0),
        ((), 2),
        (("fleet", "--prometheus", "http://127.0.0.1:1"), 2),
        (("health", "--history", "no-such-disk"), 2),
    ],
)
def test_a_message_without_stderr_does_not_go_to_stdout(closing: str, arguments: tuple[str, ...], code: int) -> None:
    shell = ["/bin/sh", "-c", f'exec "$@" {closing}', "sh", *command(*arguments)]
    done = subprocess.run(
        shell, cwd=TOP, env=PLAIN, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, timeout=60, check=False
    )
    assert done.returncode == code
    assert [line for line in done.stdout.splitlines() if not isinstance(json.loads(line), dict)] == []


def test_an_old_terminal_encoding_breaks_nothing() -> None:
    done = iotop_started("-b", "-n", "1", "-d", "0.1", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")


def test_trend_prints_charts() -> None:
    done = iotop("trend", "-n", "3", "-d", "0.1", "--ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert any(label in done.stdout for label in ("CPU busy", "GPU busy", "all GPUs"))
    assert done.stdout.isascii()


@pytest.mark.parametrize(("locale", "glyphs"), [("C", False), ("C.UTF-8", True)])
def test_trend_draws_only_what_the_locale_can_show(locale: str, glyphs: bool) -> None:
    done = iotop_started("trend", "-n", "2", "-d", "0.1", LC_ALL=locale, TERM="xterm-256color")
    assert (done.returncode, done.stderr) == (0, "")
    assert (not done.stdout.isascii()) is glyphs


@pytest.mark.skipif(
    bool(why_not_nobody()) or not shutil.which("prlimit"), reason=why_not_nobody() or "needs prlimit (util-linux)"
)
def test_a_user_without_a_free_thread_gets_an_answer_with_the_defaults(tmp_path: Path) -> None:
    line = as_nobody("prlimit", "--nproc=1", *command("snapshot", "--json", "--no-smart"))
    environment = {**PLAIN, "XDG_CONFIG_HOME": str(tmp_path)}
    done = subprocess.run(line, cwd=TOP, env=environment, capture_output=True, text=True, check=False)
    first = done.stderr.splitlines()[0]
    assert first.startswith(f"settings: {tmp_path}/")
    assert first.endswith(": can't start new thread; using the defaults, read-only")
    assert done.returncode == 0
    assert json.loads(done.stdout)["host"]
    line = as_nobody("prlimit", "--nproc=1", *command("cache", "evict", str(tmp_path)))
    done = subprocess.run(line, cwd=TOP, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")  # the file may say readonly = true
    assert "read-only" in done.stderr.splitlines()[-1]


@pytest.mark.skipif(
    bool(why_not_nobody()) or not shutil.which("prlimit"), reason=why_not_nobody() or "needs prlimit (util-linux)"
)
def test_a_user_without_a_free_thread_gets_a_remedy_instead_of_a_recording(tmp_path: Path) -> None:
    line = as_nobody("prlimit", "--nproc=1", *command("record", "-o", "-", "--no-smart", "--duration", "1"))
    environment = {**PLAIN, "XDG_CONFIG_HOME": str(tmp_path)}
    done = subprocess.run(line, cwd=TOP, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    remedy = "end processes, or raise ulimit -u or the cgroup's pids.max"
    assert done.stderr.splitlines()[-1] == f"unknown: can't start new thread: {remedy}"
