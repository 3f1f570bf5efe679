"""The kinds of objects that a factory returns."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from iotop_ai.preflight.loader.run_child import loader_of


class Dataset:
    """Stands in for torch.utils.data.Dataset."""


class IterableDataset(Dataset):
    """Stands in for torch.utils.data.IterableDataset."""

    def __iter__(self) -> Iterator[Any]:
        return iter([])


class DataLoader:
    """Stands in for torch.utils.data.DataLoader."""

    def __init__(self, dataset: Any, **keywords: Any) -> None:
        self.dataset, self.keywords = dataset, keywords


class WebLoader(IterableDataset):
    """Stands in for webdataset's WebLoader: a pipeline whose first stage is a DataLoader."""

    def __init__(self) -> None:
        self.pipeline = [DataLoader(IterableDataset()), lambda batches: batches]


class Wrapper(IterableDataset):
    """An iterable dataset that reads from a DataLoader."""

    def __init__(self) -> None:
        self.loader = DataLoader(IterableDataset())


@pytest.fixture(autouse=True)
def _torch(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("torch.utils.data")
    module.__dict__.update(Dataset=Dataset, IterableDataset=IterableDataset, DataLoader=DataLoader)
    monkeypatch.setitem(sys.modules, "torch.utils.data", module)


def request(workers: int) -> dict[str, Any]:
    return {"workers": workers, "batch_size": 8, "pin": False, "prefetch": None, "start": ""}


@pytest.mark.parametrize("made", [WebLoader(), Wrapper()])
def test_an_iterable_dataset_that_reads_from_a_data_loader_is_the_loader(made: Any) -> None:
    names = ["batch_size", "num_workers"]
    assert loader_of(made, names, request(2)) == (made, "iterable", names)


@pytest.mark.parametrize("dataset", [IterableDataset(), Dataset()])
def test_another_dataset_gets_a_data_loader(dataset: Any) -> None:
    loader, kind, names = loader_of(dataset, ["num_workers"], request(2))
    assert (loader.dataset, kind, names) == (dataset, "torch", ["batch_size", "num_workers", "persistent_workers"])
