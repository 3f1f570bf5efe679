from __future__ import annotations

import json
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotop_ai.export.field_names import IOSTAT_COLUMNS, IOSTAT_KEYS, device_terms, iostat_object, rounded
from iotop_ai.model.block.counters import UNKNOWN_BLOCK_RATES, block_rates_of
from tests.export.make import AFTER, BEFORE

COMBINED = {"await", "areq-sz", "in_flight"}


def test_the_figures_are_those_of_iostat() -> None:
    assert iostat_object(block_rates_of(BEFORE, AFTER, 2.0)) == {
        "r/s": 200.0,
        "w/s": 0.0,
        "d/s": 0.0,
        "f/s": 5.0,
        "rkB/s": 12800.0,
        "wkB/s": 0.0,
        "dkB/s": 0.0,
        "rrqm/s": 50.0,
        "wrqm/s": 0.0,
        "drqm/s": 0.0,
        "rrqm": 20.0,
        "wrqm": 0.0,
        "drqm": 0.0,
        "r_await": 80.0,
        "w_await": None,
        "d_await": None,
        "f_await": 4.0,
        "rareq-sz": 64.0,
        "wareq-sz": None,
        "dareq-sz": None,
        "aqu-sz": 16.0,
        "util": 75.0,
        "await": 80.0,
        "areq-sz": 64.0,
        "in_flight": 3,
    }


def test_an_unknown_figure_is_null_everywhere() -> None:
    assert set(iostat_object(UNKNOWN_BLOCK_RATES).values()) == {None}


def test_every_key_and_column_is_declared_beside_its_field() -> None:
    assert set(IOSTAT_KEYS) == set(device_terms())
    assert set(IOSTAT_COLUMNS) == set(device_terms()) - COMBINED


@pytest.mark.skipif(not shutil.which("iostat"), reason="iostat is not installed")
def test_the_keys_are_those_that_iostat_prints_on_this_machine() -> None:
    answer = subprocess.run(["iostat", "-x", "-o", "JSON"], capture_output=True, check=True, text=True).stdout
    disks = json.loads(answer)["sysstat"]["hosts"][0]["statistics"][0]["disk"]
    if not disks:
        pytest.skip("iostat sees no device")
    printed = [key for key in disks[0] if key != "disk_device"]
    assert printed == list(IOSTAT_KEYS[: len(printed)])
    assert set(IOSTAT_KEYS[len(printed) :]) == COMBINED


@given(st.floats(min_value=1e-12, max_value=1e15))
def test_rounding_keeps_six_digits_and_never_makes_a_zero(value: float) -> None:
    result = rounded(value)
    assert result
    assert abs(result - value) <= 1e-5 * value
