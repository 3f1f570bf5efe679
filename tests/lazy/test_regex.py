import importlib
import pkgutil
import re

import pytest

import iotop_ai
from iotop_ai.lazy.regex import pattern


def test_a_lazy_pattern_behaves_like_a_compiled_one() -> None:
    later, now = pattern(r"(\d+)-(?P<rest>x*)", re.IGNORECASE), re.compile(r"(\d+)-(?P<rest>x*)", re.IGNORECASE)
    for _ in range(2):
        assert later.match("12-XX").groupdict() == now.match("12-XX").groupdict()  # type: ignore[union-attr]
        assert later.sub("y", "a 1-x b") == now.sub("y", "a 1-x b")
        assert (later.pattern, later.flags, later.groups) == (now.pattern, now.flags, now.groups)
    assert [m[0] for m in pattern(rb"a+").finditer(b"aabaa")] == [b"aa", b"aa"]


def test_an_invalid_pattern_fails_at_its_first_use() -> None:
    wrong = pattern("(")
    with pytest.raises(re.error):
        wrong.match("")
    with pytest.raises(AttributeError):
        wrong.__fspath__()  # type: ignore[attr-defined]


def test_every_pattern_of_the_program_compiles() -> None:
    kind = type(pattern(""))
    found = 0
    for info in pkgutil.walk_packages(iotop_ai.__path__, "iotop_ai."):
        # callbacks can only be imported if their framework is installed
        left_out = ("iotop_ai.tui", "iotop_ai.__main__", "iotop_ai.train.callbacks.")
        if info.name.startswith(left_out):
            continue
        for value in vars(importlib.import_module(info.name)).values():
            if type(value) is kind:
                assert value.pattern is not None  # type: ignore[attr-defined]
                found += 1
    assert found > 20
