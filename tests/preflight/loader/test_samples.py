"""The number of samples in a batch, for the shapes that loaders return."""

from __future__ import annotations

from collections import UserDict
from typing import Any

import pytest

from iotop_ai.preflight.loader.run_child import samples_in


def array(*shape: int) -> Any:
    """An object that has a shape, like a tensor."""
    return type("Tensor", (), {"shape": shape})()


def zipped(count: int, *, targets_first: bool = False) -> Any:
    """The batch of torchvision's detection reference, tuple(zip(*batch)), of pictures and their boxes."""
    pairs = [(array(3, 480, 640), {"boxes": array(5, 4)}) for _ in range(count)]
    return tuple(zip(*[one[::-1] if targets_first else one for one in pairs], strict=True))


@pytest.mark.parametrize(
    ("batch", "samples"),
    [
        (array(32, 3, 224, 224), 32),
        ([array(32, 3, 8, 8), array(32)], 32),
        ([array(5, 3, 8, 8), array(5)], 5),
        ([[array(5, 8), array(5, 8)], array(5)], 5),
        ({"input_ids": array(32, 128)}, 32),
        (UserDict(input_ids=array(7, 128)), 7),
        (zipped(32), 32),
        (zipped(32, targets_first=True), 32),
        (zipped(5), 5),
        (zipped(5, targets_first=True), 5),
        ([(array(3, 8, 8), 1)] * 32, 32),
        (["a text"] * 20, 20),
        ([{"text": "a text"}] * 20, 20),
        ({"split": "train", "image": array(20, 3, 8, 8)}, 20),
        ({"weight": array(), "image": array(20, 3, 8, 8)}, 20),
        ({"prompt": "a text", "answer": "a text"}, 1),
        ([["a", "word"]] * 32, 32),
        (array(64, 3), 32),
        (array(), 1),
        ([], 1),
        (object(), 1),
    ],
)
def test_the_samples_of_a_batch_are_counted_in_each_shape(batch: Any, samples: int) -> None:
    assert samples_in(batch, 32) == samples
