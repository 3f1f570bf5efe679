"""``iotop-ai help TOPIC``: every topic and every command, and their texts."""

from __future__ import annotations

import argparse
import ast
import re
from pathlib import Path

import pytest

from iotop_ai import present
from iotop_ai.cli.commands.help_topics import _LABELS, _SHARES, TOPICS, run
from iotop_ai.cli.subcommands import COMMANDS
from iotop_ai.model.job.time_shares import SHARES
from iotop_ai.model.verdict_class import CLASS_SPECS, State
from iotop_ai.present.health.summary import _FAULTS
from iotop_ai.present.job.time_words import Part
from iotop_ai.present.process.filter import parse_filter
from iotop_ai.present.screen.column_help import COLUMN_HELP, STATE_HELP
from iotop_ai.present.screen.help import TITLES
from iotop_ai.present.screen.key_row import keys_of
from iotop_ai.present.screen.view import View
from iotop_ai.present.verdict.class_names import CLASS_NAMES
from iotop_ai.present.verdict.headline import SURE_HIGH, SURE_MEDIUM
from tests.cli.program import iotop, iotop_started


def text(*words: str) -> str:
    done = iotop("help", *words, COLUMNS="100")
    assert (done.returncode, done.stderr) == (0, "")
    assert max(map(len, done.stdout.splitlines())) <= 120
    return done.stdout


def test_without_a_topic_all_topics_are_listed() -> None:
    listed = text()
    for name in (*TOPICS, *(command.name for command in COMMANDS)):
        assert f"  {name} " in listed


def test_a_command_prints_its_options() -> None:
    assert text("why") == iotop("why", "--help", COLUMNS="100").stdout


@pytest.mark.parametrize(
    ("words", "begin"),
    [
        (("config", "init"), "usage: iotop-ai config "),
        (("cache", "drop"), "usage: iotop-ai cache drop "),
        (("record", "python"), "usage: iotop-ai record "),
    ],
)
def test_a_command_with_an_action_prints_its_options(words: tuple[str, ...], begin: str) -> None:
    assert text(*words).startswith(begin)


def test_every_share_of_a_jobs_time_has_its_meaning() -> None:
    listed = text("shares")
    assert {name for name, _ in _SHARES} == {Part(share, 0.0, "").name for share in SHARES}
    for share in SHARES:
        assert f"  {Part(share, 0.0, '').name} " in text(share), f"iotop-ai help {share} has no answer"
    assert "  cpu-wait " in listed
    assert text("cpu-wait") in listed


def test_every_label_is_a_topic() -> None:
    listed = text("labels")
    for label, _ in _LABELS:
        assert f"  {label} " in listed
        assert f"  {label} " in text(label)


def test_every_state_has_its_meaning() -> None:
    verdict = text("states").partition("\nmain screen:\n")[0]
    assert [line.split()[0] for line in verdict.splitlines() if line[2:3].strip()] == [*State]


def test_every_key_and_column_is_explained() -> None:
    keys = text("keys")
    for key in keys_of(View()):
        assert key.text in " ".join(keys.split())
    columns = text("columns")
    for entries in COLUMN_HELP.values():
        for title, _ in entries:
            assert f"  {title}" in columns


def test_the_examples_of_filters_are_valid() -> None:
    for line in text("filter").splitlines():
        example = line[2:22].strip()
        if example and example != "a and not (b or c)":
            assert parse_filter(example).trouble == "", example


def test_the_help_says_that_a_filter_tests_each_process_and_not_the_sum_of_its_row() -> None:
    assert "of a single process, not of its row" in " ".join(text("filter").split())
    assert "a filter tests each process" in " ".join(text("xN").split())


def test_every_figure_of_a_condition_is_explained() -> None:
    found = text("figures")
    for figure in (
        "data_wait",
        "disks.NAME.",
        "r_await",
        "gpus.NAME.",
        "temperature_celsius",
        "memory.",
        "total_bytes",
    ):
        assert figure in found


def topic_lines(name: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert run(argparse.Namespace(topic=name.split())) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("state", [*State])
def test_every_state_is_a_topic_with_its_classes(state: State, capsys: pytest.CaptureFixture[str]) -> None:
    found = topic_lines(state.lower(), capsys)
    assert found[0].split()[0] == state
    assert 1 <= len(found) <= 20
    shown = [class_id for class_id, spec in CLASS_SPECS.items() if spec.state == state]
    assert set(shown) <= set(" ".join(found).replace(",", "").split())


@pytest.mark.parametrize("class_id", [*CLASS_SPECS])
def test_every_class_is_a_topic_by_both_of_its_names(class_id: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = topic_lines(class_id, capsys)
    assert f"{class_id}: the screen shows {CLASS_SPECS[class_id].state}, {CLASS_NAMES[class_id]}" in found
    assert 3 <= len(found) <= 18
    assert set(found) <= set(topic_lines(CLASS_NAMES[class_id], capsys))


def test_the_words_of_confidence_have_the_screens_limits(capsys: pytest.CaptureFixture[str]) -> None:
    found = topic_lines("confidence", capsys)
    assert found[0].split() == ["high", f"{SURE_HIGH * 100:.0f}", "%", "or", "more"]
    assert found[1].split() == ["medium", f"{SURE_MEDIUM * 100:.0f}", "%", "or", "more"]


@pytest.mark.parametrize("topic", ["times", "exit-codes"])
def test_the_topics_times_and_exit_codes_have_a_text(topic: str) -> None:
    assert len(text(topic).splitlines()) >= 4


def test_an_unknown_topic_is_refused_with_a_list_of_the_known_ones() -> None:
    done = iotop_started("help", "nope")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "usage: 'nope' is not a topic, column, command, state or class; topics: keys, columns, states, shares, labels,"
        " confidence, filter, figures, times, exit-codes; iotop-ai help columns lists the columns, iotop-ai --help the"
        " commands\n"
    )


@pytest.mark.parametrize(
    ("words", "meaning"),
    [
        (("r_await",), "ms per request, time in the queue included"),
        (("x", "norm"), "r_await as a multiple of what is normal"),
        (("rareq-sz",), "rsize wsize dsize"),
        (("wait channel",), "kernel function in which the main thread sleeps"),
        (("busy%",), "time with any kernel running"),
    ],
)
def test_a_column_title_is_a_topic(words: tuple[str, ...], meaning: str) -> None:
    found = text(*words)
    assert found.startswith("main screen:\n")
    assert meaning in found
    assert len(found.splitlines()) <= 6


@pytest.mark.parametrize(
    ("word", "title", "meaning"),
    [
        (">", "main screen", "> before a process or GPU: the verdict names it"),
        ("colour", "main screen", "the colour is that of the state"),
        ("p99", "device screen", "of interval means: each counts as its interval's mean await"),
        ("latency", "device screen", "of interval means: each counts as its interval's mean await"),
    ],
)
def test_a_mark_and_a_percentile_are_topics(word: str, title: str, meaning: str) -> None:
    found = text(word)
    assert found.startswith(f"{title}:\n")
    assert meaning in " ".join(found.split())


MODULES = {
    "main": ("job/data_path", "screen/key_row", "screen/alert_state", "gpu/table"),
    "device": ("block/screen",),
    "gpu": ("gpu/screen",),
    "health": ("health/table", "health/detail"),
    "process": ("process/screen",),
    "fleet": ("fleet/screen", "fleet/table", "fleet/words"),
}
"""The modules of iotop_ai/present that print the states of each screen."""
NAMES = {"CPU", "CRC", "DRAM", "GB", "GPU", "JAX", "MB", "MPI", "SM", "SMART"}
"""The words in capitals in these modules that are not states."""


def capitals_of(module: str) -> set[str]:
    """The words in capitals in the module's strings, without the docstrings."""
    tree = ast.parse((Path(present.__file__).parent / f"{module}.py").read_text())
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    strings = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in docstrings)
    return {word for node in strings for word in re.findall(r"\b[A-Z]{2,}\b", str(node.value))} - NAMES


@pytest.mark.parametrize("screen", STATE_HELP)
def test_every_state_word_of_a_screen_is_a_topic(screen: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = {word for module in MODULES[screen] for word in capitals_of(module)}
    if screen == "device":  # it prints the health in capitals
        words |= {word.upper() for word in (*_FAULTS, "hung")}
    explained = dict(STATE_HELP[screen])
    assert words - {*State} <= set(explained)
    assert set(explained) <= words | {"FAILING"}
    title = f"{TITLES.get(screen, 'main screen')}:"
    for word, meaning in explained.items():
        found = topic_lines(word, capsys)
        assert title in found
        assert meaning in " ".join(" ".join(found).split())
        if word != "REPLAY":  # replay is a command
            assert topic_lines(word.lower(), capsys)[: len(found)] == found


def test_the_states_of_the_screens_come_after_those_of_the_verdict() -> None:
    found = text("states")
    for entries in STATE_HELP.values():
        for word, _ in entries:
            assert f"  {word} " in found.partition("main screen:")[2]
