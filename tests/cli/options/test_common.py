from __future__ import annotations

import argparse

import pytest

from iotop_ai.cli.commands.record.options import add_record_flags
from iotop_ai.cli.main import RECORD_SWITCHES, VALUE_FLAGS, build_parser, expand_stream, join_times, plain_flags, run
from iotop_ai.cli.options.common import flags_of, parse_count, parse_interval, settings_elsewhere, settings_of
from iotop_ai.model.errors import UsageError
from iotop_ai.model.settings import Settings


def parse(*argv: str) -> Settings:
    return settings_of(build_parser(argv).parse_args(argv))._replace(chosen=frozenset())


def test_without_flags_all_settings_have_their_defaults() -> None:
    assert parse() == Settings()


def test_each_flag_sets_its_setting() -> None:
    flags = (
        *("-d", "0.5", "--device", "sda,md0", "--device", "sdb", "--path", "/data", "-o", "-a", "--theme", "cvd"),
        *("--ascii", "--no-mouse", "--readonly", "--no-smart", "--smartctl", "/opt/smartctl"),
    )
    assert parse(*flags) == Settings(
        interval_s=0.5,
        devices=("sda", "md0", "sdb"),
        path="/data",
        only_active=True,
        accumulated=True,
        theme="cvd",
        ascii_only=True,
        mouse=False,
        readonly=True,
        smart=False,
        smartctl="/opt/smartctl",
    )


@pytest.mark.parametrize("command", ["snapshot", "trend"])
def test_a_subcommand_keeps_the_flags_given_before_it(command: str) -> None:
    assert parse("-d", "2", "--no-smart", command) == Settings(interval_s=2.0, smart=False)
    assert parse("-d", "2", command, "-d", "5", "--device", "sda") == Settings(interval_s=5.0, devices=("sda",))


def test_intervals_are_parsed() -> None:
    assert (parse_interval("0.1"), parse_interval("1m"), parse_interval("1h")) == (0.1, 60.0, 3600.0)
    for text in ("0", "0.09", "3601", "-1", "x", "inf", "nan"):
        with pytest.raises(argparse.ArgumentTypeError):
            parse_interval(text)


def test_counts_are_parsed() -> None:
    assert parse_count("12") == 12
    for text in ("0", "-1", "1.5", "", "x", "²"):
        with pytest.raises(argparse.ArgumentTypeError):
            parse_count(text)


def test_a_list_of_devices_without_a_name_is_refused() -> None:
    with pytest.raises(UsageError, match="--device is empty"):
        parse("--device", " , ")


def test_words_of_a_recorded_command_may_be_empty() -> None:
    argv = ["record", "--", "sh", "-c", ""]
    assert build_parser(argv).parse_args(argv).words[-3:] == ["sh", "-c", ""]


@pytest.mark.parametrize("words", ["--dev sda", "cache drop --ye", "assets install all /tmp --fo"])
def test_abbreviated_flags_are_refused(words: str) -> None:
    with pytest.raises(UsageError, match="unrecognized arguments"):
        parse(*words.split())


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (["record", "-"], ["record", "-o", "-"]),
        (["record", "-d", "2", "-", "--duration", "3"], ["record", "-d", "2", "-o", "-", "--duration", "3"]),
        (["record", "-o", "-"], ["record", "-o", "-"]),
        (["record", "--csv", "-"], ["record", "--csv", "-"]),
        (["record", "--append", "-"], ["record", "--append", "-o", "-"]),
        (["record", "-o", "a", "--", "cat", "-"], ["record", "-o", "a", "--", "cat", "-"]),
        (["record", "-d", "2", "cat", "-"], ["record", "-d", "2", "cat", "-"]),
        (["record", "-d2", "--exact", "cat", "-"], ["record", "-d2", "--exact", "cat", "-"]),
        (["mark", "record", "-"], ["mark", "record", "-"]),
        (["replay", "-"], ["replay", "-"]),
        (["--path", "cache", "record", "-"], ["--path", "cache", "record", "-o", "-"]),
        (["--path", "record", "replay", "-"], ["--path", "record", "replay", "-"]),
        (["--path", "record", "record", "-"], ["--path", "record", "record", "-o", "-"]),
    ],
)
def test_record_to_a_pipe_has_a_short_form(typed: list[str], expected: list[str]) -> None:
    assert expand_stream(typed) == expected


def test_a_text_flag_after_a_value_like_the_command_is_refused() -> None:
    with pytest.raises(UsageError, match="-b prints live text"):
        run(["--path", "record", "-b", "record"])


def test_the_flags_with_a_value_are_those_of_the_parser() -> None:
    found = {name for action in build_parser([])._actions if action.nargs is None for name in action.option_strings}
    assert found == {*VALUE_FLAGS}


def test_record_accepts_each_switch() -> None:
    parser = argparse.ArgumentParser()
    add_record_flags(parser)
    switches = {name for action in parser._actions if action.nargs == 0 for name in action.option_strings}
    assert switches == {*RECORD_SWITCHES}


@pytest.mark.parametrize("words", [["snapshot"], ["-b"], ["-t"], ["why"]])
def test_the_flag_host_works_only_for_the_screen(words: list[str]) -> None:
    with pytest.raises(UsageError, match="ssh HOST iotop-ai"):
        run(["--host", "box", *words])


def test_devices_of_the_environment_apply_only_to_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IOTOP_AI_DEVICES", "nvme0n1")
    for argv, here, elsewhere in (([], ("nvme0n1",), ()), (["--device", "sda"], ("sda",), ("sda",))):
        args = build_parser(argv).parse_args(argv)
        assert settings_of(args).devices == here
        assert settings_elsewhere(args).devices == elsewhere


BEFORE = """--procfs /p --sysfs /s --no-smart --smartctl /c --smart-type a=b --ascii --sort cpu --theme mono --no-mouse
 --readonly -d 7 -n 5 --device sdq --exact -a -o --config /k --job 77 --alerts /a"""
OWN_MEANING = {"check": {"path", "batch"}, "cache": {"path"}}
"""The arguments of each command that have the name of a flag of the screen but another meaning."""


@pytest.mark.parametrize(
    "words",
    [
        *("why", "diagnose", "report f", "compare a b", "status", "snapshot", "ack", "health", "gpu-log", "trend"),
        *("record", "serve", "fleet --prometheus http://x", "alerts", "replay f", "export f", "cache status x"),
        *("check x", "loader a:b", "doctor", "web", "config print", "stage a b", "import --iostat f"),
    ],
)
def test_a_command_keeps_each_flag_given_before_it(words: str) -> None:
    before, argv = BEFORE.split(), [*BEFORE.split(), *words.split()]
    without_command = vars(build_parser(before).parse_args(before))
    with_command = vars(build_parser(argv).parse_args(argv))
    changed = {name for name, value in without_command.items() if with_command[name] != value and name != "command"}
    assert changed <= OWN_MEANING.get(words.split()[0], set())


@pytest.mark.parametrize(
    "words", ["snapshot", "diagnose", "check x", "doctor", "health", "cache status x", "stage a b"]
)
def test_the_flag_json_may_stand_before_the_command(words: str) -> None:
    for argv in (["--json", *words.split()], [*words.split(), "--json"]):
        assert build_parser(argv).parse_args(argv).json is True
    assert build_parser(words.split()).parse_args(words.split()).json is False


@pytest.mark.parametrize("words", [["--host", "box"], ["replay", "run.iotop.jsonl"]])
def test_a_folder_of_this_machine_does_not_select_disks_of_another(words: list[str]) -> None:
    with pytest.raises(UsageError, match="--path is a folder of this machine; use --device"):
        run(["--path", "/data", *words])


@pytest.mark.parametrize(
    "argv", [[], ["-d", "1"], ["--delay", "0.1"], ["-d", "1m"], ["-d", "3600"], ["-d", "1h"], ["-d", "0.5s"]]
)
def test_a_start_without_the_parser_has_the_flags_that_the_parser_finds(argv: list[str]) -> None:
    args = build_parser(argv).parse_args(argv)
    assert plain_flags(argv) == flags_of(args)
    assert (args.command, args.batch, args.host, args.config, getattr(args, "job", 0)) == (None, False, None, None, 0)


@pytest.mark.parametrize(
    "argv",
    [
        *(
            ["-d"],
            ["-d", "0.01"],
            ["-d", "3601"],
            ["-d", "-1"],
            ["-d", "x"],
            ["-d", "1x"],
            ["-d", ""],
        ),
        *(["-d1"], ["--delay=1"], ["-b"], ["--help"], ["snapshot"], ["-d", "1", "-b"], ["-o", "1"], ["", "1"]),
    ],
)
def test_all_arguments_except_a_valid_interval_go_to_the_parser(argv: list[str]) -> None:
    assert plain_flags(argv) is None


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (["replay", "a", "--at", "-3m"], ["replay", "a", "--at=-3m"]),
        (["export", "--begin", "-1h", "--end", "-20", "a"], ["export", "--begin=-1h", "--end=-20", "a"]),
        (["replay", "--at", "-o"], ["replay", "--at", "-o"]),
        (["record", "--", "x", "--at", "-3m"], ["record", "--", "x", "--at", "-3m"]),
        (["record", "x", "--at", "-3m"], ["record", "x", "--at", "-3m"]),
        (["gpu-log", "-d", "5"], ["gpu-log", "-d", "5"]),
    ],
)
def test_a_time_counted_from_the_end_is_a_value_and_not_a_flag(typed: list[str], expected: list[str]) -> None:
    assert join_times(typed) == expected
