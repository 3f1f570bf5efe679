"""The parser of answers: what Prometheus sends, and what another server may send."""

from __future__ import annotations

import contextlib
import json
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iotop_ai.fleet import answer
from iotop_ai.fleet.answer import BadAnswerError, error_text, number, parse_matrix, parse_vector


def vector(*result: object) -> bytes:
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": list(result)}}).encode()


def test_an_instant_answer_is_parsed() -> None:
    body = vector(
        {"metric": {"instance": "gpu07:9743"}, "value": [1763856000.5, "0.25"]},
        {"metric": {"instance": "\x1b]0;owned\x07[/x]"}, "value": [1763856000.5, "NaN"]},
    )
    found = parse_vector(body)
    assert found.at_s == 1763856000.5
    assert [(one.label("instance"), one.value) for one in found.series] == [
        ("gpu07:9743", 0.25),
        ("�]0;owned�[/x]", None),
    ]
    assert found.series[0].label("device") == ""


def test_a_range_answer_is_parsed() -> None:
    body = json.dumps(
        {
            "status": "success",
            "data": {"resultType": "matrix", "result": [{"metric": {}, "values": [[1, "2"], [16, "+Inf"]]}]},
        }
    ).encode()
    (series,) = parse_matrix(body)
    assert series.points == ((1.0, 2.0), (16.0, None))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe",
        b"<html>login</html>",
        b"[]",
        b"null",
        b"[" * 200_000,
        b"9" * 10_000,
        b'{"status":"success"}',
        b'{"status":"success","data":{"resultType":"matrix","result":[]}}',
        b'{"status":"success","data":{"resultType":"vector","result":{}}}',
        vector(1),
        vector({"metric": {}}),
        vector({"metric": {}, "value": [1]}),
        vector({"metric": {"a": 1}, "value": [1, "1"]}),
        vector({"metric": [], "value": [1, "1"]}),
        vector({"metric": {str(n): "" for n in range(65)}, "value": [1, "1"]}),
    ],
)
def test_garbage_raises_bad_answer_error(body: bytes) -> None:
    with pytest.raises(BadAnswerError, match="the answer"):
        parse_vector(body)


@pytest.mark.parametrize("at", [1e300, 1.7e12, -1, "NaN", None, []])
def test_a_time_that_is_not_in_seconds_raises_bad_answer_error(at: object) -> None:
    with pytest.raises(BadAnswerError, match="the answer's time is not Unix time in seconds"):
        parse_vector(vector({"metric": {}, "value": [at, "1"]}))


def test_the_message_of_the_server_is_shown() -> None:
    body = b'{"status":"error","errorType":"bad_data","error":"parse \\u001b error"}'
    assert error_text(body) == "parse � error"
    with pytest.raises(BadAnswerError, match="parse � error"):
        parse_vector(body)
    assert error_text(b"<html>") == ""


@pytest.mark.parametrize("value", ["NaN", "-Inf", "1e999", "1.7e308", "-1e20", "x", "", None, True, [], {}])
def test_a_value_that_is_not_a_figure_is_unknown(value: object) -> None:
    assert number(value) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["status", "data", "result", "resultType", "metric", "value"]), inner)
    ),
    max_leaves=12,
)


# an example may take seconds on a loaded machine
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(JSON)
def test_any_json_is_parsed_or_is_a_bad_answer_error(value: object) -> None:
    with contextlib.suppress(BadAnswerError):
        parse_vector(json.dumps({"status": "success", "data": {"resultType": "vector", "result": value}}).encode())


@pytest.mark.parametrize("entry", [b"{}", b"[]", b"0.5", b'"ab"', b'{"a":0}'])
def test_an_answer_of_many_values_takes_little_memory(entry: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer, "MOST_SERIES", 1000)
    values = b",".join([entry] * 100_000)
    body = b'{"status":"success","data":{"resultType":"vector","result":[' + values + b"]}}"
    tracemalloc.start()
    try:
        with pytest.raises(BadAnswerError, match="the answer is too large"):
            parse_vector(body)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_an_answer_of_the_largest_fleet_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer, "MOST_SERIES", 1000)
    labels = {"instance": "gpu0001:9743", "pid": "1", "script": "train.py", "unit": "{a,b}", "bucket": "data_disk"}
    one = json.dumps({"metric": labels, "value": [1763856000.5, "0.25"]}).encode()
    head = b'{"status":"success","data":{"resultType":"vector","result":['
    assert len(parse_vector(head + b",".join([one] * 900) + b"]}}").series) == 900
