"""Fixtures of the GPU tests: the fake library, which is built once, and processes that read from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.rigs.nvml import build
from tests.rigs.nvml.asker import Asker


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def asker(tmp_path: Path) -> Iterator[Callable[..., Asker]]:
    started: list[Asker] = []

    def start(library: Path | None, **keywords: Any) -> Asker:
        started.append(Asker(tmp_path, library, **keywords))
        return started[-1]

    yield start
    for one in started:
        one.close()
