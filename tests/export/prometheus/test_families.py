"""The text of the labels of a series."""

from iotop_ai.export.prometheus.families import LONGEST_LABEL, label_text


def test_long_values_that_differ_at_their_ends_give_different_labels() -> None:
    one, other = (label_text((("mount", "/mnt/" + 150 * "x" + end),)) for end in "ab")
    assert one != other
    assert len(one) == len(other) == len('{mount=""}') + LONGEST_LABEL
    assert label_text((("mount", "/data"),)) == '{mount="/data"}'
