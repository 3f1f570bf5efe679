"""The settings of a DataLoader go with the totals to every monitor."""

from __future__ import annotations

from typing import Any

import pytest

import iotop_ai
from iotop_ai.train import steps
from iotop_ai.train.steps import Message, StepCounter


@pytest.fixture
def messages(monkeypatch: pytest.MonkeyPatch) -> list[Message]:
    """The messages of a counter without a monitor."""
    monkeypatch.setenv("IOTOP_AI_SOCKET", "")
    counter, found = StepCounter(), []
    counter.listeners.append(found.append)
    monkeypatch.setattr(steps, "COUNTER", counter)
    return found


class DataLoader(list[int]):
    """A loader with the name and the settings of PyTorch's."""

    __module__ = "torch.utils.data.dataloader"
    num_workers, prefetch_factor, pin_memory, persistent_workers = 4, 2, True, False


class Stateful(DataLoader):
    """A loader of another package that extends PyTorch's, such as torchdata's."""

    __module__ = "torchdata.stateful_dataloader"


class Prepared(list[int]):
    """A loader that holds a DataLoader, such as Accelerate's."""

    base_dataloader = DataLoader([1])


class Broken(list[int]):
    """A loader of which another attribute raises."""

    @property
    def base_dataloader(self) -> None:
        raise RuntimeError("no attribute for you")


@pytest.mark.parametrize(
    "loader", [DataLoader([1, 2]), Stateful([1, 2]), Prepared([1, 2]), iotop_ai.watch(Stateful([1]))]
)
def test_the_settings_of_a_dataloader_are_sent_with_the_totals(loader: Any, messages: list[Message]) -> None:
    for _ in iotop_ai.watch(loader):
        pass
    for _ in iotop_ai.watch([3]):  # such as a validation that has no DataLoader
        pass
    settings = {"num_workers": 4, "prefetch_factor": 2, "pin_memory": True, "persistent_workers": False}
    assert [message["loader"] for message in messages] == [settings, settings]


def test_another_loader_has_no_settings(messages: list[Message]) -> None:
    assert list(iotop_ai.watch([1])) == [1]
    (message,) = messages
    assert "loader" not in message


def test_a_loader_whose_attributes_raise_is_still_iterated(messages: list[Message]) -> None:
    assert list(iotop_ai.watch(Broken([1, 2]))) == [1, 2]
    assert "loader" not in messages[-1]
