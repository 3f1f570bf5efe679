"""Which option of a command line sets the number of loader workers."""

from __future__ import annotations

import pytest

from iotop_ai.model.job.programs import workers_option


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
