"""The checks of the flags of ``record``."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from iotop_ai.cli.commands.record.options import parse_hook, parse_rotation, record_options
from iotop_ai.cli.commands.serve.options import serve_options
from iotop_ai.cli.main import build_parser
from iotop_ai.model.errors import UsageError
from iotop_ai.store.write.recorder import Rotation


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("512M", Rotation(512 << 20, None)),
        ("5m", Rotation(None, 300.0)),
        ("1h30m", Rotation(None, 5400.0)),
        ("1G, 24h", Rotation(1 << 30, 86_400.0)),
    ],
)
def test_a_rotation_has_a_size_an_age_or_both(text: str, limits: Rotation) -> None:
    assert parse_rotation(text) == limits


@pytest.mark.parametrize("text", ["", "0", "0h", "x", "1h30M", "24h,", "1G,2G", "24h,1h", "1G,24h,2G"])
def test_invalid_rotation_limits_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_rotation(text)


@pytest.mark.parametrize("flags", [["--hook", "/bin/true"], ["--append"], ["--rotate", "24h"]])
def test_flags_that_need_a_file_are_refused_for_a_recording_to_stdout(flags: list[str]) -> None:
    words = ["record", "-o", "-", *flags]
    with pytest.raises(UsageError, match="with stdout; name a file with -o"):
        record_options(build_parser(words).parse_args(words))


@pytest.mark.parametrize(("flag", "more"), [("-o", []), ("--csv", []), ("--csv", ["-o", "a"])])
def test_stdout_is_either_the_recordings_or_the_commands(flag: str, more: list[str]) -> None:
    words = ["record", flag, "-", *more, "--", "echo", "mixed"]
    with pytest.raises(UsageError, match=f"COMMAND prints to stdout too: name a file with {flag}$"):
        record_options(build_parser(words).parse_args(words))


@pytest.mark.parametrize("command", ["record", "serve"])
def test_a_duration_that_no_timer_can_wait_for_is_refused(command: str) -> None:
    words = [command, "--duration", "999999d"]
    args = build_parser(words).parse_args(words)
    with pytest.raises(UsageError, match="--duration 999999d is longer than 3650 days"):
        record_options(args) if command == "record" else serve_options(args)


def test_the_program_of_a_hook_is_found_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ship.sh").write_text("#!/bin/sh\n")
    (tmp_path / "ship.sh").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    assert parse_hook("./ship.sh --to 'a b'") == (f"{tmp_path}/ship.sh", "--to", "a b")
    assert parse_hook("true") == (shutil.which("true"),)
    assert parse_hook(None) == ()
