"""The benchmark of real training stacks: the trainer's clock, its GPU, its object store, and the score."""

from __future__ import annotations

import argparse
import http.client
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from iotop_ai.model.verdict_class import CLASS_SPECS
from tests.rigs.nvml.c_library import machine
from tests.scenarios.stacks.account import true_wait
from tests.scenarios.stacks.case import CPU, DISK, HEALTHY, MIXED, RANK, Case
from tests.scenarios.stacks.cases import CASES
from tests.scenarios.stacks.clock import COLLECTIVE, KINDS, LAYOUT, SAVE, STATES, STEP, WAIT, Clock, halves, read
from tests.scenarios.stacks.data import fill_from_cache
from tests.scenarios.stacks.fed import FED
from tests.scenarios.stacks.gpu import Gpus
from tests.scenarios.stacks.install import STACKS, VARIABLE, install, why_no_stack
from tests.scenarios.stacks.places import SERVER
from tests.scenarios.stacks.play import CARD, cpu_seconds_of_others, truth_of
from tests.scenarios.stacks.report import UNSEEN_PAGE, document, line, summary
from tests.scenarios.stacks.run import matching_cases
from tests.scenarios.stacks.score import account_outcome, false_alarm, false_ok, outcome, scored, true_cause, wilson
from tests.scenarios.stacks.unseen import UNSEEN

HERE = Path(__file__).parent / "scenarios/stacks"


def arguments(path: Path, **more: Any) -> argparse.Namespace:
    usual = {"clock": path, "rank": 0, "step": 0.02, "kind": "sleep", "loss": 0.5, "serial": False, "seconds": 0.6}
    return argparse.Namespace(**{**usual, **more})


def slow_loader(seconds: float) -> Iterator[int]:
    number = 0
    while True:
        time.sleep(seconds)
        yield number
        number += 1


@pytest.mark.parametrize("kind", KINDS)
def test_the_clock_distinguishes_waits_from_steps(tmp_path: Path, kind: str) -> None:
    clock = Clock(arguments(tmp_path / "clock", kind=kind))
    begun, stepped_s = time.monotonic(), 0.0
    for _ in clock.batches(slow_loader(0.06)):
        before = time.monotonic()
        clock.compute()
        stepped_s += time.monotonic() - before
    waited_s = time.monotonic() - begun - stepped_s
    truth = read(tmp_path / "clock", time.monotonic_ns())
    assert truth is not None
    assert truth.seconds[WAIT] == pytest.approx(waited_s, abs=0.08)
    assert truth.seconds[STEP] == pytest.approx(stepped_s, abs=0.08)
    assert truth.batches >= 2


def test_a_wait_that_still_lasts_is_counted(tmp_path: Path) -> None:
    clock = Clock(arguments(tmp_path / "clock"))
    clock.wait()
    later = read(tmp_path / "clock", time.monotonic_ns() + 5_000_000_000)
    assert later is not None
    assert later.seconds[WAIT] == pytest.approx(5.0, abs=0.5)


def test_before_the_trainer_has_begun_there_is_no_state(tmp_path: Path) -> None:
    assert read(tmp_path / "clock", 0) is None
    (tmp_path / "clock").write_bytes(b"short")
    assert read(tmp_path / "clock", 0) is None


def wait_for(conf: Path, key: str, least: float) -> dict[str, str]:
    found: dict[str, str] = {}
    for _ in range(100):
        found = dict(line.split("=", 1) for line in conf.read_text().splitlines())
        if key in found and float(found[key]) >= least:
            return found
        time.sleep(0.05)
    raise AssertionError(f"{key} does not reach {least}: {found.get(key)}")


@pytest.mark.parametrize(("state", "watts"), [(STEP, 590_000), (COLLECTIVE, 95_000)])
def test_the_gpu_is_busy_during_the_steps_of_the_trainer(tmp_path: Path, state: int, watts: int) -> None:
    conf, path = tmp_path / "conf", tmp_path / "clock"
    machine(conf, [CARD])
    clock = Clock(arguments(path))
    with Gpus(conf, [path], tmp_path / "truth"):
        clock.enter(state)
        busy = wait_for(conf, "gpu0.util", 95)
        assert watts * 0.9 < float(busy["gpu0.power_mw"]) <= watts * 1.1
        clock.enter(SAVE)
        time.sleep(1.3)
        idle = dict(line.split("=", 1) for line in conf.read_text().splitlines())
    assert float(idle["gpu0.util"]) == 0.0
    times = [int(one.split(":")[0]) for one in idle["gpu0.samples"].split(",")]
    assert times == sorted(times)
    assert 100_000 < (times[-1] - times[0]) / (len(times) - 1) < 400_000
    rows = [json.loads(row) for row in (tmp_path / "truth").read_text().splitlines()]
    assert rows[-1]["ranks"][0]["save"] > 0.5


@pytest.fixture
def store(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    (tmp_path / "shard-0").write_bytes(bytes(range(256)) * 4000)
    command = [sys.executable, str(SERVER), str(tmp_path), "20", "2e6", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = server.stdout.readline().split()[-1]
        yield f"127.0.0.1:{port}", tmp_path
        server.kill()


def test_the_object_store_answers_range_requests_slowly(store: tuple[str, Path]) -> None:
    connection = http.client.HTTPConnection(store[0])
    connection.request("GET", "/bucket/shard-0", headers={"Range": "bytes=256-511"})
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (206, bytes(range(256)))
    began = time.monotonic()
    connection.request("GET", "/bucket/shard-0")
    assert len(connection.getresponse().read()) == 1_024_000
    assert 0.3 < time.monotonic() - began < 3.0
    connection.request("HEAD", "/bucket/none")
    assert connection.getresponse().status == 404


def test_the_object_store_lists_its_keys(store: tuple[str, Path]) -> None:
    connection = http.client.HTTPConnection(store[0])
    connection.request("GET", "/bucket?list-type=2&prefix=shard")
    assert b"<Key>shard-0</Key>" in connection.getresponse().read()


def test_a_dataset_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "stacks"))
    written: list[str] = []

    def write(folder: Path) -> None:
        written.append(folder.name)
        (folder / "shard").write_text("data")

    for number in range(2):
        target = tmp_path / str(number)
        target.mkdir()
        fill_from_cache(target, "key", write)
        assert (target / "shard").read_text() == "data"
    assert len(written) == 1


def states(**shares: float) -> dict[str, Any]:
    return {"seconds": 30.0, "shares": {**dict.fromkeys(STATES, 0.0), **shares}}


@pytest.mark.parametrize(
    ("wait", "verdict", "expected"),
    [
        (0.5, "storage_read", "right"),
        (0.5, "loader_serial", "acceptable"),
        (0.5, "cpu_prep", "wrong"),
        (0.5, "unknown", "unknown"),
        (0.5, "gpu_bound", "wrong"),
        (0.07, "healthy", "acceptable"),
        (0.03, "healthy", "right"),
        (0.03, "storage_read", "acceptable"),
        (0.03, "cpu_prep", "wrong"),
    ],
)
def test_a_verdict_is_scored_by_the_truth(wait: float, verdict: str, expected: str) -> None:
    assert outcome(DISK, states(wait=wait), verdict) == expected


def test_a_neighbour_may_be_named_if_there_is_one() -> None:
    assert outcome(CPU, states(wait=0.5), "noisy_neighbour", 0.3) == "acceptable"
    assert outcome(CPU, states(wait=0.5), "noisy_neighbour", 0.1) == "wrong"
    assert outcome(DISK, states(wait=0.5), "noisy_neighbour", 0.3) == "wrong"


def test_a_verdict_that_names_the_slow_rank_is_right() -> None:
    assert outcome(RANK, states(wait=0.2), "cpu_prep", text="rank 1 waits for data 19 % of the time") == "right"
    assert outcome(RANK, states(wait=0.2), "cpu_prep", text="2 of 2 GPUs wait for data") == "acceptable"
    assert outcome(RANK, states(wait=0.2), "storage_read", text="rank 1 waits for data") == "wrong"
    assert outcome(RANK, states(wait=0.2), "imbalance") == "right"


@pytest.mark.parametrize(("read_s", "verdict"), [(3.0, "storage_read"), (1.0, "cpu_prep")])
def test_the_longer_half_of_a_mixed_loader_is_the_cause(read_s: float, verdict: str) -> None:
    truth = {**states(wait=0.4), "halves": {"read": read_s, "decode": 2.0}}
    cause = true_cause(MIXED, truth)
    assert (cause.label, outcome(cause, truth, verdict)) == (verdict, "right")
    other = {"storage_read": "cpu_prep", "cpu_prep": "storage_read"}[verdict]
    assert outcome(cause, truth, other) == "acceptable"
    assert account_outcome(cause, truth, {cause.parts[0]: 0.3, cause.parts[1]: 0.1}) == "right"
    assert true_cause(MIXED, states(wait=0.4)) == MIXED
    assert true_cause(DISK, truth) == DISK


LOADERS = """
import os, sys
from pathlib import Path
from tests.scenarios.stacks.clock import Halves
halves = Halves(Path(sys.argv[1]))
halves.add(1_000_000_000, 500_000_000)
if os.fork():
    os.wait()
halves.add(2_000_000_000, 0)
"""


def test_the_halves_of_all_loader_processes_are_added_up(tmp_path: Path) -> None:
    clock = tmp_path / "clock"
    assert halves(clock) == (0, 0)
    subprocess.run([sys.executable, "-c", LOADERS, str(clock)], check=True, cwd=HERE.parents[2])
    assert halves(clock) == (5.0, 0.5)


def test_a_healthy_job_that_lost_time_is_scored_as_short_of_cpu() -> None:
    healthy = next(name for name, case in CASES.items() if case.cause is HEALTHY)
    lossy, fine = record(healthy, "healthy", 0.2), record(healthy, "healthy", 0.02)
    causes = {name: case.cause for name, case in CASES.items()}
    assert [run.result for run in scored([lossy, fine], causes)] == ["wrong", "right"]
    assert [run.is_false_ok for run in scored([lossy, fine], causes)] == [True, False]


def test_false_alarms_and_false_oks_are_counted_separately() -> None:
    assert false_alarm(HEALTHY, states(wait=0.01), "cpu_prep")
    assert not false_alarm(HEALTHY, states(wait=0.01), "gpu_bound")
    assert not false_alarm(DISK, states(wait=0.6), "cpu_prep")
    assert false_ok(DISK, states(wait=0.6), "healthy")
    assert not false_ok(DISK, states(wait=0.07), "healthy")
    assert not false_ok(DISK, states(wait=0.6), "unknown")


@pytest.mark.parametrize(
    ("account", "expected"),
    [
        ({"compute": 0.4, "data_cpu": 0.5, "data_disk": 0.1}, "right"),
        ({"compute": 0.4, "data_cpu": 0.1, "data_disk": 0.5}, "wrong"),
        ({"compute": 0.4, "unexplained": 0.6}, "unknown"),
        ({"compute": 0.98, "data_cpu": 0.02}, "wrong"),
        ({"compute": 0.1, "startup": 0.9}, "wrong"),
    ],
)
def test_a_time_account_is_scored_by_its_largest_lost_share(account: dict[str, float], expected: str) -> None:
    assert account_outcome(CPU, states(wait=0.6), account) == expected


def test_intervals_are_those_of_wilson() -> None:
    low, high = wilson(8, 10)
    assert (round(low, 3), round(high, 3)) == (0.490, 0.943)
    assert wilson(0, 0) == (0.0, 1.0)


def row(at: float, wait: float, pid: int = 7) -> dict[str, Any]:
    rank = {**dict.fromkeys(STATES, 0.0), "wait": wait, "step": at - wait, "batches": int(at), "pid": pid}
    return {"at": at, "ranks": [rank]}


def test_the_truth_of_a_period_is_the_difference_of_two_counters() -> None:
    rows = [row(float(at), at * 0.25) for at in range(30)]
    truth = truth_of(rows, 10.0, 20.0)
    assert truth["shares"]["wait"] == pytest.approx(0.25)
    assert truth["shares"]["step"] == pytest.approx(0.75)
    assert truth["steps"] == 10
    assert true_wait(rows, 10.0, 20.0) == pytest.approx(0.25)
    assert true_wait(rows, 25.0, 35.0) is None


def record(name: str, verdict: str, wait: float, **more: Any) -> dict[str, Any]:
    usual = {"stack": CASES[name].stack, "options": ["--kind", "sleep"], "others": 0.1, "text": "", "errors": [0.02]}
    judged = {"rules": 20, "confidence": 0.8, "data_stall_ratio": 0.5, "account": None, "classes": {}, "other_jobs": 0}
    return {"name": name, "verdict": verdict, "truth": states(wait=wait), **usual, **judged, **more}


def test_the_page_counts_every_run() -> None:
    names = list(CASES)[:2]
    causes = {name: case.cause for name, case in CASES.items()}
    account = {"compute": 0.5, "data_disk": 0.45, "unexplained": 0.05}
    runs = scored(
        [record(names[0], "storage_read", 0.5, account=account), record(names[1], "idle", 0.5, other_jobs=1, rules=21)],
        causes,
    )
    assert [run.result for run in runs] == ["right", "wrong"]
    page = document(runs, ["Ray: no Ray"], "python -m tests.scenarios.stacks.run")
    assert "| all | 1, 0, 1, 0 | 50 % (9-91 %) | 0, 1 |" in page
    assert "- Ray: no Ray" in page
    assert f"| {names[1]} \\* |" in page
    assert "| 100 % (21-100 %) | 5 %, 5 % |" in "\n".join(summary(runs))
    assert line(runs[0]).startswith("right ")
    assert "this is not a held-out test" in page
    assert "The rules (versions 20 and 21) were made before" in document(runs, [], "", UNSEEN_PAGE)


@pytest.mark.parametrize("case", [*CASES.values(), *UNSEEN.values(), *FED.values()], ids=(*CASES, *UNSEEN, *FED))
def test_a_case_names_only_what_exists(case: Case) -> None:
    assert case.stack in STACKS
    assert (HERE / case.script).exists()
    known = {*CLASS_SPECS, "host_bound"}
    assert {case.cause.label, *case.cause.also} <= known
    assert not case.cause.lost or case.cause.lost in STATES


def test_at_least_a_third_of_the_losses_are_small() -> None:
    losses = [float(c.options[c.options.index("--loss") + 1]) for c in CASES.values() if "--loss" in c.options]
    lossy = [loss for loss in losses if loss > 0]
    assert sum(0.03 <= loss <= 0.3 for loss in lossy) * 3 >= len(lossy)


def test_a_word_selects_cases() -> None:
    assert set(matching_cases(["tf.data"])) == {name for name in CASES if name.startswith("tf.data")}
    assert len(matching_cases(None)) == len(CASES)
    with pytest.raises(ValueError, match="no case has 'nothing such'"):
        matching_cases(["nothing such"])


@pytest.mark.slow
def test_an_environment_is_created_and_then_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.scenarios.stacks import install as module

    monkeypatch.setenv(VARIABLE, str(tmp_path))
    monkeypatch.setattr(module, "STACKS", {"small": module.Stack((), ("json",))})
    assert "--only small" in why_no_stack("small")
    install("small")
    assert why_no_stack("small") == ""


def test_the_cpu_time_of_the_trainer_does_not_count_as_that_of_others() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        others_before, begun = cpu_seconds_of_others(busy.pid), time.monotonic()
        ticks = psutil.Process(busy.pid).cpu_times().user
        time.sleep(1.5)
        own = psutil.Process(busy.pid).cpu_times().user - ticks
        others, took = cpu_seconds_of_others(busy.pid) - others_before, time.monotonic() - begun
        busy.kill()
    assert own > 0.1
    assert -0.1 <= others <= (psutil.cpu_count() or 1) * took - own + 0.2


def test_the_state_fits_its_file() -> None:
    assert LAYOUT.size == 8 * (len(STATES) + 5)
