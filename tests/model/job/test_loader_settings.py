"""The settings of a loader: which messages are accepted, and which option of a command line sets the workers."""

from __future__ import annotations

from typing import Any

import pytest

from iotop_ai.model.job.loader_settings import LoaderSettings, settings_of, workers_option


def test_valid_settings_are_accepted_and_others_are_unknown() -> None:
    sent = {"num_workers": 4, "prefetch_factor": 2, "pin_memory": True, "persistent_workers": False}
    assert settings_of(sent) == LoaderSettings(4, 2, True, False)
    hostile: dict[str, Any] = {"num_workers": -1, "prefetch_factor": True, "pin_memory": "yes", "persistent_workers": 1}
    assert settings_of(hostile) is None
    assert settings_of({**hostile, "num_workers": 0}) == LoaderSettings(workers=0)
    assert settings_of({**sent, "num_workers": 10**9, "more": []}) == LoaderSettings(None, 2, True, False)


@pytest.mark.parametrize("value", [None, [], "4", 4, {}])
def test_anything_else_holds_no_settings(value: Any) -> None:
    assert settings_of(value) is None


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("python train.py --num-workers 4 --epochs 90", "--num-workers"),
        ("python train.py --num_workers=4", "--num_workers"),
        ("python main.py -a resnet50 -j 4 /data", "-j"),
        ("python run.py --dataloader_num_workers 4", "--dataloader_num_workers"),
        ("python train.py --workers 4", "--workers"),
        ("python train.py data.num_workers=4", "data.num_workers"),
        ("python train.py +data.loader.num_workers=4", "+data.loader.num_workers"),
        ("main.py fit --data.init_args.num_workers=4", "--data.init_args.num_workers"),
        ("python train.py --n-workers 4 --loader-workers 4", "--n-workers"),
        ("python train.py --num-workers 8", ""),
        ("python train.py --num-workers", ""),
        ("python train.py num_workers 4", ""),
        ("python train.py --batch-size 4 --max-workers-cpu 4", ""),
        ("python train.py workers/4 4", ""),
        ("python train.py", ""),
        ("", ""),
    ],
)
def test_the_option_counts_only_with_the_number_of_workers_that_exist(line: str, option: str) -> None:
    assert workers_option(line.split(), 4) == option


def test_the_option_that_is_obeyed_is_found_behind_another() -> None:
    assert workers_option(["train.py", "--workers", "8", "--num-workers", "4"], 4) == "--num-workers"
