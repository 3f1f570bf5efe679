"""A series that is drawn as a line of braille dots."""

from __future__ import annotations

from iotop_ai.present.text.braille import GAP
from iotop_ai.present.text.curve import curve, curve_text, level_dots, linear, logarithmic


def test_a_step_is_connected_and_every_value_above_zero_has_a_dot() -> None:
    assert curve_text([1.0, 16.0], 16.0, 4) == ["⢸", "⢸", "⢸", "⡸"]
    assert curve_text([0.01, 0.01], 16.0, 4) == [" ", " ", " ", "⣀"]


def test_zero_is_blank_and_an_unknown_value_is_a_gap() -> None:
    assert curve_text([0.0, 0.0, None, None, None, 16.0], 16.0, 4) == ["  ⠈", "   ", "   ", f" {GAP} "]


def test_equal_ratios_are_equal_steps_of_a_logarithmic_scale() -> None:
    level = logarithmic(0.1, 1000.0, 5)
    assert [level(v) for v in (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0, 5000.0)] == [1, 1, 6, 11, 15, 20, 20]


def test_a_level_is_a_line_across_every_cell_at_its_height() -> None:
    assert level_dots(2, 4, linear(16.0, 4)(8.0)) == [[0, 0], [0, 0], [1, 1], [0, 0]]
    assert curve([8.0, 8.0], 4, linear(16.0, 4))[2] == [9]
