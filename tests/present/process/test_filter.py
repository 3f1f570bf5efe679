from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotop_ai.model.process.records import UNKNOWN_PROCESS_RATES, ProcessInfo, ProcessKey, ProcessStat, ThreadLook
from iotop_ai.present.process.filter import EXAMPLE, Subject, hint_for, parse_filter
from iotop_ai.present.process.groups import groups
from iotop_ai.present.process.table import process_rows
from tests.present.make import MIB, Proc
from tests.present.process.test_table import UTC, labels, made

READER = Subject(
    ProcessKey(77, 5),
    ProcessInfo("python", ("python", "train.py", "--lr=3"), "alice", 1000),
    UNKNOWN_PROCESS_RATES._replace(read_bytes_per_s=20.0 * MIB, cpu_ratio=0.5),
    ProcessStat("D", 1, 0, 0, 0, 0, 0, 9, 512, 0),
    4096,
)


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("read > 10M", True), ("read>20M", False), ("read >= 20M", True), ("read > 0.01G", True), ("io < 1g", True),
        ("read > 10 MB/s and pid > 0", True), ("read > 20 MiB", False),
        ("cpu = 50", True), ("cpu >= 50%", True), ("cpu > 50 % or pid = 1", False),
        ("delay < 5 % or cpu >= 50 %", True), ("mem = 2M", True), ("mem <= 2048 K", None), ("threads != 9", False),
        ("user = alice", True), ("user = ali", False), ("user ~ ^ali", True), ("user !~ ^ali", False),
        ("name != python", False), ("state = d", True), ("command ~ 'lr=3$'", True), ("ppid = 1", True),
        ("read > 10M and user = alice", True), ("read > 10M and user = bob", False), ("user = bob or cpu > 10", True),
        ("not user = bob", True), ("not (user = bob or user = alice)", False), ("python and read > 1M", True),
        ("bash or read > 1M", True), ("IO-wait > 5", False), ("write < 1M", False), ("not write < 1M", False),
        ("write < 1M or read > 1", True), ("pid = 77 and (name = python)", True),
        ("name ~ train", True), ("name !~ train", False), ("name ~ ^python$", True), ("name = train.py", False),
        ("77 and cpu > 1", True), ("78 and cpu > 1", False), ("state = S", False), ("not state = S", True),
    ],
)  # fmt: skip
def test_expressions_match_processes(text: str, matches: bool | None) -> None:
    found = parse_filter(text)
    assert found.is_query
    if matches is None:
        assert found.trouble == "before K: write 'and' or 'or', as in user = root and read > 1M"
    else:
        assert not found.trouble
        assert (found.matches(READER) is True) is matches


@pytest.mark.parametrize(
    ("text", "untagged", "tagged"),
    [
        ("tagged", False, True), ("not tagged", True, False), ("TAGGED and read > 1M", False, True),
        ("(tagged) or user = alice", True, True), ("tagged and user = bob", False, False),
        ("python and not tagged", True, False),
    ],
)  # fmt: skip
def test_the_word_tagged_matches_tagged_processes(text: str, untagged: bool, tagged: bool) -> None:
    found = parse_filter(text)
    assert (found.is_query, found.trouble) == (True, "")
    assert found.matches(READER) is untagged
    assert found.matches(READER._replace(tagged=True)) is tagged


@pytest.mark.parametrize("state", ["S", None])
def test_a_process_with_a_blocked_thread_is_blocked_as_its_row_shows(state: str | None) -> None:
    assert READER.stat is not None
    stat = None if state is None else READER.stat._replace(state=state)
    waiting = READER._replace(stat=stat, sampled=ThreadLook((("S", 3), ("D", 2)), ()))
    assert parse_filter("state = D").matches(waiting) is True
    asleep = READER._replace(stat=stat, sampled=ThreadLook((("S", 5),), ()))
    assert parse_filter("state = D").matches(asleep) is (None if state is None else False)


@pytest.mark.parametrize("text", ["untagged", "tagged-worker", "my tagged one", "'tagged'"])
def test_a_name_that_contains_the_word_tagged_is_still_found(text: str) -> None:
    found = parse_filter(text)
    assert not found.is_query
    assert not found.matches(READER._replace(tagged=True))


@pytest.mark.parametrize("text", ["write < 1", "not write < 1", "delay > 0", "write > 1 and read > 1", "not write = 0"])
def test_unknown_values_match_nothing(text: str) -> None:
    assert parse_filter(text).matches(READER) is None


@pytest.mark.parametrize(
    ("text", "trouble"),
    [
        ("read >", "a value is missing after read >"),
        ("read > x", "read is a number, as in read > 10"), ("(read > 1", "a bracket is not closed"),
        ("reed > 1", "reed: did you mean read?"), ("read > 1 and", "the filter is not complete"),
        ("nam > 1", "nam: did you mean name?"),
        ("xyzzy > 1", "xyzzy: write one of name user command state read write io cpu delay mem threads pid ppid"),
        ("user > bob", "> compares numbers; words take = != ~ !~"),
        ("read > 1 user = bob", "before user: write 'and' or 'or', as in user = root and read > 1M"),
        ("user:root read>1M", "user:root: write user = root, as in user = root and read > 1M"),
        ("read ~ 1", "read is a number, as in read > 10"), ("mem > 99%", "mem takes no %; only cpu and delay do"),
        ("mem > 99 %", "mem takes no %; only cpu and delay do"),
        ("(" * 40 + "cpu > 1" + ")" * 40, "too many brackets"),
    ],
)  # fmt: skip
def test_an_invalid_filter_has_a_reason_and_hides_nothing(text: str, trouble: str) -> None:
    found = parse_filter(text)
    assert found.trouble == trouble
    assert found.matches(READER)


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        *(("^pyth", True), ("lr=3", True), ("train.py|x", True), ("[", False)),
        *(("77", True), ("^77$", True), ("78", False), ("^7$", False)),
    ],
)
def test_text_without_a_field_name_is_a_regular_expression_or_plain_text(text: str, matches: bool) -> None:
    found = parse_filter(text)
    assert (found.is_query, found.trouble) == (False, "")
    assert found.matches(READER) is matches


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("user:root name:python", "write user = root and name ~ python"),
        ("root python", "to combine words: user = root and name ~ python"),
        ("host:port", "to combine words: user = root and name ~ python"),
        ("nam = python", "nam: did you mean name?"),
        ("python", ""), ("lr=9", ""), ("--workers=9", ""), ("user = nobody", ""), ("(", ""), ("?", ""),
    ],
)  # fmt: skip
def test_a_filter_without_a_match_gets_a_hint(text: str, hint: str) -> None:
    assert hint_for(text) == hint
    footer = process_rows(made(), UTC._replace(pattern=text), 80, 4)[-1].text
    assert (f" 0 of 10 match; {hint}" in footer) == bool(hint)


def test_the_example_of_a_filter_is_a_valid_one() -> None:
    example = parse_filter(EXAMPLE)
    assert (example.is_query, example.trouble) == (True, "")


@given(st.text(alphabet="readucpunotsx ()<>=!~'\"10Mk.%-", max_size=40))
def test_any_text_is_a_filter(text: str) -> None:
    assert parse_filter(text).matches(READER) in (True, False, None)


def test_only_matching_rows_are_listed() -> None:
    one = made()
    assert labels(one, UTC._replace(pattern="read > 3M")) == []
    assert labels(one, UTC._replace(pattern="read > 1M")) == ["worker x4"]
    assert labels(one, UTC._replace(pattern="cpu > 75")) == ["worker", "spinner"]
    assert labels(one, UTC._replace(pattern="io = 0 and user = root")) == ["sleeper", "kworker"]
    assert labels(one, UTC._replace(pattern="user = eve")) == ["secret"]
    assert labels(one, UTC._replace(pattern="user = eve and io = 0")) == []
    (folded,) = groups(one, UTC._replace(pattern="delay >= 50"))
    assert len(folded.keys) == 2


def test_a_row_with_a_blocked_thread_is_listed_by_its_state() -> None:
    one = made()
    table = one.snapshot.processes.value
    assert table is not None
    (sleeper,) = (key for key, info in table.info.items() if info.name == "sleeper")
    table = table._replace(threads={sleeper: ThreadLook((("D", 1),), ())})
    one = one._replace(snapshot=one.snapshot._replace(processes=one.snapshot.processes._replace(value=table)))
    assert labels(one, UTC._replace(pattern="state = D and user = root")) == ["sleeper"]


def test_the_footer_has_the_number_of_matches_or_the_mistake() -> None:
    one = made()
    assert process_rows(one, UTC._replace(pattern="read > 1M"), 80, 4)[-1].text.startswith(" 4 of 10 match read > 1M")
    incomplete = process_rows(one, UTC._replace(pattern="read >"), 80, 4)[-1]
    assert incomplete.text.startswith(" filter a value is missing after read >")


@pytest.mark.parametrize("pattern", ["train", "name = train"])
@pytest.mark.parametrize("tree", [False, True])
def test_the_footer_counts_matches_without_their_ancestors(pattern: str, tree: bool) -> None:
    def footer(only_active: bool, count: int = 5) -> str:
        view = UTC._replace(pattern=pattern, tree=tree, only_active=only_active)
        return process_rows(made(*procs, count=count), view, 80, 9)[-1].text.rstrip()

    reader = Proc(30, "train", ppid=20, read=MIB)
    procs = (Proc(1, "init"), Proc(20, "sh"), reader, Proc(40, "sh"), Proc(50, "train"))
    assert footer(only_active=False) == f" 2 of 5 match {pattern}"
    assert footer(only_active=True) == f" 2 of 5 match, 1 active: {pattern}"
    assert footer(only_active=True, count=1) == f" 2 of 5 match {pattern}"


HOSTILE = ("x", "a" * 30_000 + "!")
"""A command line with which a regular expression with nested repeats would never finish."""


@pytest.mark.parametrize(
    "text",
    [
        *("(a+)+$", "(a|a)*$", "(?:a*)*b", "((a{1,30}){1,30}){1,30}b", "a*a*b", "a*a*a*a*a*b", r"(a)\1*b"),
        *("(a*)*" * 40, ".*.*=x", "command ~ '(a+)+$'", "name ~ '(x+x+)+y' or command !~ '(a|aa)+$'", "a" * 5000),
    ],
)
def test_no_expression_takes_long(text: str) -> None:
    info = ProcessInfo("x" * 15, HOSTILE, "alice", 1000)
    one = Subject(ProcessKey(1, 1), info, UNKNOWN_PROCESS_RATES, None, 4096)
    began = time.thread_time()
    parse_filter(text).matches(one)
    assert time.thread_time() - began < 3


@pytest.mark.parametrize("text", ["a.*!", "^x$", "a{3,}!?", "[a*+]!", r"\(?a", "(a|b)c?", "aaa!"])
def test_common_expressions_work(text: str) -> None:
    info = ProcessInfo("x", ("x", "aaa!"), "alice", 1000)
    one = Subject(ProcessKey(1, 1), info, UNKNOWN_PROCESS_RATES, None, 4096)
    assert parse_filter(text).matches(one) is True
