"""The number of samples in a batch, for the shapes that loaders return."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Iterator
from typing import Any

import pytest

from iotop_ai.preflight.loader.run_child import MessageWriter, measure, sample_counter, samples_in


def array(*shape: int) -> Any:
    """An object that has a shape, like a tensor."""
    return type("Tensor", (), {"shape": shape})()


def zipped(count: int, *, targets_first: bool = False) -> Any:
    """The batch of torchvision's detection reference, tuple(zip(*batch)), of pictures and their boxes."""
    pairs = [(array(3, 480, 640), {"boxes": array(5, 4)}) for _ in range(count)]
    return tuple(zip(*[one[::-1] if targets_first else one for one in pairs], strict=True))


def boxes(count: int) -> Any:
    """The targets of a detection batch: five boxes for each sample."""
    return tuple({"boxes": array(5, 4)} for _ in range(count))


class Ragged:
    """A nested tensor, as torch makes it for samples of different sizes."""

    @property
    def shape(self) -> Any:
        """Fail, as torch does."""
        raise RuntimeError("NestedTensorImpl doesn't support sizes")


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
        (None, 1),
        (object(), 32),
        ([object()] * 20, 20),
        (Ragged(), 32),
        ([Ragged(), array(20)], 20),
        ({"graph": object()}, 32),
        ({"graph": object(), "label": array(20)}, 20),
        ((object(), array(20)), 20),
        ((object(), {"label": array(20)}), 20),
        ((object(), ["a text", "a text"], array(20)), 20),
        ((object(), boxes(20)), 20),
        ((object(), boxes(32)), 32),
        ((object(), object()), 32),
        ((7, object()), 32),
        (({"split": "train"}, object()), 32),
        ([object()] * 32, 32),
        (((object(),) * 20, (7,) * 20), 20),
    ],
)
def test_the_samples_of_a_batch_are_counted_in_each_shape(batch: Any, samples: int) -> None:
    assert samples_in(batch, 32) == samples


@pytest.mark.parametrize(
    ("batch", "samples"),
    [(object(), 1), ({"graph": object()}, 1), ([object()] * 20, 20), ((object(), array(20)), 20)],
)
def test_without_a_batch_size_an_object_of_unknown_content_is_one_sample(batch: Any, samples: int) -> None:
    assert samples_in(batch, None) == samples


class Loader:
    """A loader of 10 equal batches. fields: the attributes of a DataLoader that it has."""

    def __init__(self, batch: Any, **fields: Any) -> None:
        self.batch = batch
        self.__dict__.update(fields)

    def __iter__(self) -> Iterator[Any]:
        return iter([self.batch] * 10)


class Messages(MessageWriter):
    """Keeps the messages instead of writing them."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def send(self, **fields: Any) -> None:
        self.sent.append(fields)


def samples_of(loader: Any, kind: str, argument_names: list[str], stages: tuple[str, ...] = ()) -> float:
    """The samples in a batch of this loader, for a configuration with a batch size of 32."""
    messages = Messages()
    request = {"workers": 0, "batch_size": 32, "seconds": 9.0, "one_epoch": True}
    measure(loader, request, sample_counter(loader, kind, argument_names, list(stages), request), messages)
    done = messages.sent[-1]
    return float(done["samples"] / done["batches"])


PICTURES = (array(256, 3, 224, 224), array(256))


def sampler(**fields: Any) -> Any:
    return type("Sampler", (), fields)()


@pytest.mark.parametrize(
    ("loader", "samples"),
    [
        (Loader(PICTURES, batch_size=256), 256),  # the factory has a batch size of its own
        (Loader(array(5000, 3), batch_size=256), 256),
        (Loader(PICTURES, batch_size=None, batch_sampler=sampler()), 256),
        (Loader([(array(3, 8, 8), 1)] * 64, batch_size=None, batch_sampler=sampler(batch_size=64)), 64),
        (Loader(PICTURES, batch_size=None, batch_sampler=None), 256),  # the dataset yields batches
        (Loader({"image": array(64, 3, 8, 8), "label": [7] * 64}, batch_size=None, batch_sampler=None), 64),
        (Loader((array(3, 224, 224), 7), batch_size=None, batch_sampler=None), 1),  # each batch is a sample
        (Loader((array(3, 224, 224), array()), batch_size=None, batch_sampler=None), 1),
        (Loader({"input_ids": array(128), "labels": array(128)}, batch_size=None, batch_sampler=None), 1),
        (Loader((array(3, 8, 8), {"boxes": array(5, 4), "labels": array(5)}), batch_size=None, batch_sampler=None), 1),
        (Loader((array(512, 512, 3), array(512, 512)), batch_size=None, batch_sampler=None), 1),  # a mask
        (Loader((array(64, 3, 8, 8), array(64, 8, 8)), batch_size=None, batch_sampler=None), 64),
        (Loader((array(64, 128), array(64)), batch_size=None, batch_sampler=None), 64),
        (Loader(array(16), batch_size=None, batch_sampler=None), 1),
        (Loader(["a text", 1], batch_size=None, batch_sampler=None), 1),
        (Loader(object(), batch_size=64), 64),  # a batch of graphs
        (Loader(object(), batch_size=None, batch_sampler=sampler(batch_size=64)), 64),
        (Loader(object(), batch_size=None, batch_sampler=None), 1),
    ],
)
def test_a_data_loader_counts_with_its_own_batch_size(loader: Any, samples: int) -> None:
    for argument_names in (["num_workers"], ["batch_size", "num_workers"]):  # **kwargs may be ignored
        assert samples_of(loader, "torch", argument_names) == samples


def test_other_loaders_count_with_the_requested_batch_size_if_they_take_it() -> None:
    assert samples_of(Loader(PICTURES), "iterable", ["num_workers"]) == 256
    assert samples_of(Loader(PICTURES, batch_size=128), "iterable", ["num_workers"]) == 128
    assert samples_of(Loader(array(5000, 3)), "iterable", ["batch_size", "num_workers"]) == 32
    assert samples_of(Loader(PICTURES), "tensorflow", ["num_parallel_calls"], ("Prefetch", "Batch")) == 256
    one = (array(224, 224, 3), array())
    assert samples_of(Loader(one), "tensorflow", ["num_parallel_calls"], ("ParallelMap",)) == 1
