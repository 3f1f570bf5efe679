"""Short JSON text is read as json does."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotop_ai.model.json_text import loads
from tests.cli.program import PLAIN, TOP

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@given(values, st.booleans(), st.sampled_from(["", " ", "\n\t "]))
def test_what_json_writes_is_read(value: Any, ascii_only: bool, around: str) -> None:
    text = around + json.dumps(value, ensure_ascii=ascii_only) + around
    raw = text.encode("utf-8", "surrogatepass")
    try:
        raw.decode()
    except UnicodeDecodeError:
        return
    assert loads(raw) == json.loads(raw)


BROKEN = [
    b"",
    b" ",
    b"{",
    b"{} {}",
    b"[1,]",
    b'{"a" 1}',
    b"nul",
    b"\xff",
    b'"\n"',
    b"NaN",
    b"[-Infinity]",
    b"1 x",
]


@pytest.mark.parametrize("raw", BROKEN)
def test_what_is_no_json_is_a_value_error(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        loads(raw)


@pytest.mark.parametrize("raw", BROKEN)
def test_where_json_is_not_loaded_it_is_the_same_error(raw: bytes) -> None:
    code = (
        "import sys; from iotop_ai.model.json_text import loads; assert 'json' not in sys.modules; "
        f"assert loads(b'[1]') == [1]\ntry: loads({raw!r})\nexcept ValueError: print('told')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=TOP, env=PLAIN, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("told\n", "")


def test_what_is_too_deep_ends_in_an_error_and_no_crash() -> None:
    with pytest.raises(RecursionError):
        loads(b"[" * 100_000)


def test_figures_keep_their_kind() -> None:
    found = loads(b'[1, 1.0, -0.0, 1e400, true, "\\u00e9\\ud83d\\ude00"]')
    assert [type(value) for value in found] == [int, float, float, float, bool, str]
    assert math.isinf(found[3])
    assert found[5] == "é😀"
