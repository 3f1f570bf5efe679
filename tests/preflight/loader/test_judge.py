"""The reason why a configuration failed, from how it ended. Messages are those of Python 3.11 and torch 2.13."""

from __future__ import annotations

import pytest

from iotop_ai.model.preflight.loader.outcome import LoaderProcess, Outcome
from iotop_ai.preflight.loader.judge import failure_of, user_frame

CHAINED = """Traceback (most recent call last):
  File "/env/lib/python3.11/site-packages/torch/utils/data/_utils/signal_handling.py", line 73, in handler
    _error_if_any_worker_fails()
RuntimeError: DataLoader worker (pid 15229) is killed by signal: Killed.

The above exception was the direct cause of the following exception:
"""
BUS = (
    "DataLoader worker (pid 7) is killed by signal: Bus error. It is possible that dataloader's workers are out of "
    "shared memory. Please try to raise your shared memory limit."
)
FROM_WORKER = """Caught KeyError in DataLoader worker process 0.
Original Traceback (most recent call last):
  File "/env/lib/python3.11/site-packages/torch/utils/data/_utils/fetch.py", line 54, in <listcomp>
    data = [self.dataset[idx] for idx in possibly_batched_index]
  File "/home/me/data.py", line 43, in __getitem__
    return {}["missing"]
KeyError: 'missing'
"""
READ = """Traceback (most recent call last):
  File "/home/me/torch_project/data.py", line 12, in __getitem__
    return pickle.load(file)
EOFError: Ran out of input
"""
CUDA_ERROR = """CUDA error: device-side assert triggered
CUDA kernel errors might be asynchronously reported at some other API call.
Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.
"""
IN_LIBRARY = READ.replace("/home/me", "/env/lib/python3.11/site-packages")
STARTED = READ.replace(
    "EOFError", '  File "/usr/lib/python3.11/multiprocessing/popen_spawn_posix.py", line 62, in _launch\nEOFError'
)
PASSED_ON = "Caught EOFError in DataLoader worker process 0.\nOriginal "
NO_SPACE = "unable to write to file </torch_7_1_0>: No space left on device (28)"
UNEXPECTED = "DataLoader worker (pid(s) 15229) exited unexpectedly"


@pytest.mark.parametrize(
    ("trace", "free", "kind"),
    [
        (READ, 24 << 30, "error"),
        (READ, None, "error"),
        (f"RuntimeError: {NO_SPACE}", 24 << 30, "shm"),
        ("RuntimeError: unable to open file </torch_7_1_0>: Too many open files (24)", 24 << 30, "error"),
        ("RuntimeError: unable to open file </torch_7_1_0>: Cannot allocate memory (12)", None, "shm"),
    ],
)
def test_dev_shm_is_reported_as_full_only_for_the_message_of_torch(trace: str, free: int | None, kind: str) -> None:
    text = trace.splitlines()[-1].partition(": ")[2]
    found = failure_of(Outcome("batches", error="X", text=text, trace=trace, shm_bytes=free, least_shm_free_bytes=free))
    assert found.kind == kind


@pytest.mark.parametrize(
    ("container", "remedy"),
    [("", "mount -o remount"), ("lxc", "mount -o remount"), ("docker", "docker run --shm-size=8g, or --ipc=host;")],
)
def test_the_remedy_of_a_full_dev_shm_fits_the_container(container: str, remedy: str) -> None:
    found = failure_of(Outcome("batches", error="RuntimeError", text=BUS, least_shm_free_bytes=0, container=container))
    assert found.remedy.startswith(remedy)


def test_an_error_of_several_lines_is_shown_by_its_first_line() -> None:
    found = failure_of(Outcome("batches", error="RuntimeError", text=CUDA_ERROR))
    assert found.text == "RuntimeError: CUDA error: device-side assert triggered"
    from_worker = FROM_WORKER.replace("KeyError: 'missing'\n", f"RuntimeError: {CUDA_ERROR}")
    found = failure_of(Outcome("batches", error="RuntimeError", text=from_worker))
    assert found.text == "RuntimeError: CUDA error: device-side assert triggered (data.py:43 in __getitem__)"


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        (Outcome("start", "fork", trace=READ), "EOFError: Ran out of input (data.py:12 in __getitem__)"),
        (Outcome("batches", "fork", trace=READ, workers=2), "EOFError: Ran out of input (data.py:12 in __getitem__)"),
        (
            Outcome("start", "fork", text=PASSED_ON + READ, workers=2),
            "EOFError: Ran out of input (data.py:12 in __getitem__)",
        ),
        (Outcome("start", "fork", text=PASSED_ON + IN_LIBRARY, workers=2), "EOFError: Ran out of input"),
        (Outcome("start", "fork", trace=IN_LIBRARY), "EOFError: Ran out of input"),
        (Outcome("start", "spawn", trace=STARTED), ""),
        (Outcome("batches", "fork", trace=IN_LIBRARY, workers=2), ""),
    ],
)
def test_a_broken_pipe_is_not_the_users_error(outcome: Outcome, text: str) -> None:
    """text: the text of the error; "" for a broken pipe."""
    found = failure_of(outcome._replace(error="EOFError", text=outcome.text or "Ran out of input"))
    assert (found.kind, found.text) == ("error", text) if text else found.kind == "broken_pipe"


@pytest.mark.parametrize(
    ("outcome", "kind", "text"),
    [
        (
            Outcome("start", error="RuntimeError", text=UNEXPECTED, trace=CHAINED),
            "killed",
            "a worker was killed by a signal: Killed",
        ),
        (
            Outcome("start", error="RuntimeError", text=UNEXPECTED, stderr="Fatal Python error: x\n"),
            "killed",
            "a worker ended: Fatal Python error: x",
        ),
        (
            Outcome("batches", error="RuntimeError", text=BUS, shm_bytes=16 << 20, least_shm_free_bytes=4 << 20),
            "shm",
            "/dev/shm of 16 MB is full: workers pass batches through it",
        ),
        (  # torch blames shared memory also if a mapped file was truncated
            Outcome("batches", error="RuntimeError", text=BUS, shm_bytes=32 << 30, least_shm_free_bytes=31 << 30),
            "killed",
            "a worker was killed by a signal: Bus error",
        ),
        (
            Outcome(
                "batches",
                error="RuntimeError",
                text=NO_SPACE,
                shm_bytes=None,
            ),
            "shm",
            "/dev/shm is full: workers pass batches through it",
        ),
        (
            Outcome("start", "spawn", error="AttributeError", text="Can't pickle local object 'f.<locals>.<lambda>'"),
            "pickle",
            "spawn cannot send the dataset to a worker: Can't pickle local object 'f.<locals>.<lambda>'",
        ),
        (
            Outcome("start", "forkserver", error="TypeError", text="cannot pickle '_io.BufferedReader' object"),
            "pickle",
            "forkserver cannot send the dataset to a worker: cannot pickle '_io.BufferedReader' object",
        ),
        (
            Outcome("batches", "fork", error="TypeError", text="cannot pickle 'generator' object"),
            "error",
            "TypeError: cannot pickle 'generator' object",
        ),
        (
            Outcome(
                "start",
                "spawn",
                error="EOFError",
                stderr="AttributeError: Can't get attribute 'D' on <module '__main__'>\n",
            ),
            "pickle",
            "a worker cannot rebuild the dataset: AttributeError: Can't get attribute 'D' on <module '__main__'>",
        ),
        (
            Outcome(
                "start",
                "spawn",
                error="BrokenPipeError",
                text="[Errno 32] Broken pipe",
                stderr="ImportError: no x\n",
                workers=2,
            ),
            "broken_pipe",
            "BrokenPipeError: a worker ended while it was started: ImportError: no x",
        ),
        (
            Outcome(
                "start",
                "fork",
                error="RuntimeError",
                text="Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use",
            ),
            "cuda",
            "CUDA is used before the workers are forked, so they cannot use it",
        ),
        (Outcome("batches", returncode=-9), "crash", "the loader's own process was killed by SIGKILL while reading"),
        (Outcome("import", returncode=3, stderr="no licence\n"), "crash", "the loader's own process ended with exit"),
        (Outcome("build", refused="it returns int"), "refused", "it returns int"),
        (Outcome("start", error="RuntimeError", text=FROM_WORKER), "error", "KeyError: 'missing' (data.py:43 in"),
        (
            Outcome(
                "batches",
                silent_s=30,
                processes=(LoaderProcess(1, False, "S"), LoaderProcess(7, True, "Z", exit_status=9)),
            ),
            "killed",
            "a worker was killed by a signal: SIGKILL; the loader waited 30 s for it",
        ),
        (
            Outcome("start", silent_s=30, processes=(LoaderProcess(7, True, "D", "folio_wait_bit", "data.py:3 in f"),)),
            "hang",
            "hangs: no batch for 30 s; worker 7 waits for storage in data.py:3 in f (folio_wait_bit)",
        ),
        (
            Outcome("import", silent_s=120, processes=(LoaderProcess(1, False, "R"),), busy_cores=1.0),
            "hang",
            "hangs: importing the module did not end for 120 s; process 1 runs; it uses 1.0 cores",
        ),
        (Outcome("batches", silent_s=30), "hang", "hangs: no batch for 30 s"),
    ],
)
def test_each_outcome_has_its_reason(outcome: Outcome, kind: str, text: str) -> None:
    found = failure_of(outcome)
    assert found.kind == kind
    assert found.text.startswith(text)


def test_control_characters_of_a_message_are_removed() -> None:
    found = failure_of(Outcome("start", error="ValueError", text="\x1b]0;owned\x07"))
    assert found.text.isprintable()


def test_the_innermost_line_of_the_users_code_is_named() -> None:
    assert user_frame(FROM_WORKER) == "data.py:43 in __getitem__"
    assert user_frame('  File "/usr/lib/python3.11/queue.py", line 171 in get\n') == ""
    stack = "".join(f'  File "{path}", line 2 in f\n' for path in ("/usr/lib/python3.11/queue.py", "/a.py", "/b.py"))
    assert user_frame(stack, last=False) == "a.py:2 in f"


def test_an_exception_without_a_message_is_named() -> None:
    trace = 'File "/home/alice/data.py", line 3, in make\n    assert paths\n'
    found = failure_of(Outcome("build", error="AssertionError", trace=trace))
    assert (found.kind, found.text) == ("error", "AssertionError (data.py:3 in make)")
