"""Finds out why a configuration failed, from the way in which it ended. Pure: takes an Outcome, returns a Failure."""

from __future__ import annotations

import re
import signal

from iotop_ai.model.clean import clean
from iotop_ai.model.preflight.loader.outcome import LoaderProcess, Outcome
from iotop_ai.model.preflight.loader.run import Failure
from iotop_ai.preflight.environment.judge_host import larger_shm

SHM_WORDS = re.compile(r"(?:out of|insufficient|allocate) shared memory|</torch_\d.*>.*")
"""Matches torch's messages about a full /dev/shm: "unable to write to file </torch_812_4>: No space left"."""
NO_SPACE = "No space left on device"
CUDA_WORDS = "Cannot re-initialize CUDA in forked subprocess"
_PICKLE = re.compile(r"PicklingError|[Cc]annot pickle|Can't pickle|Can't get local object")
_UNPICKLE = re.compile(r"Can't get attribute|UnpicklingError")
_SIGNAL = re.compile(r"killed by signal: ([\w ]+?)\.\s")
_PIPE_ERRORS = ("BrokenPipeError", "EOFError", "ConnectionResetError")
_START_PATH = "/multiprocessing/popen_"
"""This text in a traceback shows that a process was being started."""
_FRAME = re.compile(r'File "([^"]+)", line (\d+),? in (\S+)')
_LIBRARY_PATHS = ("/site-packages/", "/dist-packages/", "/lib/python3", "<")
_PHASES = {"import": "importing the module", "build": "running the factory", "start": "starting the workers"}
SHM_FULL, SHM_ROOM = 1 << 20, 1 << 30
"""With fewer free bytes than the first, /dev/shm counts as full. With more than the second, it has enough room."""


def failure_of(outcome: Outcome) -> Failure:
    """Return the reason for the failure. The more specific reasons are tried first."""
    if outcome.refused:
        remedy = "a batch_size up to the size of the dataset, or drop_last=False" if outcome.empty else ""
        return Failure("empty" if outcome.empty else "refused", clean(outcome.refused), remedy)
    output = f"{outcome.error}: {outcome.text}\n{outcome.trace}\n{outcome.stderr}"
    for judge in (
        _shared_memory_failure,
        _cuda_failure,
        _pickle_failure,
        _killed_worker_failure,
        _broken_pipe_failure,
        _crash_failure,
        _hang_failure,
    ):
        failure = judge(outcome, output)
        if failure is not None:
            return failure
    frame = user_frame(outcome.trace + outcome.text)
    # The message of an error that torch passes on from a worker already names the error's type.
    error = "" if "Original Traceback" in outcome.text else clean(outcome.error)
    text = ": ".join(filter(None, (error, message_line(outcome.text))))
    return Failure("error", f"{text} ({frame})" if frame else text)


def _shared_memory_failure(outcome: Outcome, output: str) -> Failure | None:
    is_full = outcome.least_shm_free_bytes is not None and outcome.least_shm_free_bytes < SHM_FULL
    has_room = outcome.least_shm_free_bytes is not None and outcome.least_shm_free_bytes > SHM_ROOM
    has_bus_error = any(_signal_of(process) == signal.SIGBUS for process in outcome.processes) or "Bus error" in output
    words = SHM_WORDS.search("\n".join(line for line in output.splitlines() if not line.lstrip().startswith('File "')))
    # torch attributes every bus error to shared memory, but a mapped file that was truncated causes a bus error too.
    if not ((is_full and has_bus_error) or (words and (not has_room or NO_SPACE in words.group()))):
        return None
    size = "" if outcome.shm_bytes is None else f" of {outcome.shm_bytes >> 20} MB"
    text = f"/dev/shm{size} is full: workers pass batches through it"
    fewer = "fewer workers, a smaller prefetch_factor or batch"
    return Failure("shm", text, f"{larger_shm(outcome.container)}; else {fewer}")


def _cuda_failure(outcome: Outcome, output: str) -> Failure | None:
    if CUDA_WORDS not in output:
        return None
    return Failure(
        "cuda",
        "CUDA is used before the workers are forked, so they cannot use it",
        'use no CUDA in the dataset, or multiprocessing_context="spawn"',
    )


def _pickle_failure(outcome: Outcome, output: str) -> Failure | None:
    if outcome.start not in ("spawn", "forkserver") or outcome.phase != "start":
        return None
    if _PICKLE.search(f"{outcome.error}: {outcome.text}"):
        message = message_line(outcome.text)
        text = f"{outcome.start} cannot send the dataset to a worker: {message}"
        remedy = (
            "define functions and classes at module level, open files in __getitem__ or worker_init_fn, or start "
            "workers by fork"
        )
        return Failure("pickle", text, remedy)
    if match := _UNPICKLE.search(output):
        line = next((line for line in output.splitlines() if match.group() in line), match.group())
        return Failure(
            "pickle",
            f"a worker cannot rebuild the dataset: {clean(line.strip(), 200)}",
            "define functions and classes at the top level of an importable module, not in __main__",
        )
    return None


def _killed_worker_failure(outcome: Outcome, output: str) -> Failure | None:
    ended = [process for process in outcome.processes if process.worker and process.exit_status]
    match = _SIGNAL.search(f"{outcome.text} {outcome.trace} ")
    name = match.group(1) if match else ""
    if not name and "exited unexpectedly" not in outcome.text and not ended:
        return None
    if not name and ended and (number := _signal_of(ended[0])):
        name = signal_name(number)
    if name:
        text = f"a worker was killed by a signal: {clean(name)}"
    else:
        code = f" with exit code {ended[0].exit_status >> 8}" if ended and ended[0].exit_status else ""
        last = last_line(outcome.stderr)
        text = f"a worker ended{code}{f': {last}' if last else ''}"
    waits = f"; the loader waited {outcome.silent_s:.0f} s for it" if outcome.silent_s else ""
    killed = name in ("Killed", "SIGKILL")
    remedy = "memory is the usual reason: fewer workers, or see dmesg for the OOM killer" if killed else ""
    return Failure("killed", text + waits, remedy)


def _broken_pipe_failure(outcome: Outcome, output: str) -> Failure | None:
    starting = _START_PATH in outcome.trace
    from_user_code = "Original Traceback" in outcome.text or user_frame(outcome.trace + outcome.text)
    # The user's code may raise these errors too, as pickle.load() does for an empty file.
    if outcome.error not in _PIPE_ERRORS or not (starting or (outcome.workers and not from_user_code)):
        return None
    lines = [line for line in outcome.stderr.splitlines() if line.strip()]
    why = clean(lines[-1].strip(), 200) if lines else "it printed nothing"
    text = f"{outcome.error}: a worker ended while it was {'started' if outcome.phase == 'start' else 'used'}: {why}"
    return Failure(
        "broken_pipe", text, 'the main module needs if __name__ == "__main__" around the code that starts the run'
    )


def _crash_failure(outcome: Outcome, output: str) -> Failure | None:
    if outcome.returncode is None or outcome.error:
        return None
    during = _PHASES.get(outcome.phase, "reading batches")
    if outcome.returncode < 0:
        name = signal_name(-outcome.returncode)
        remedy = "memory is the usual reason: see dmesg for the OOM killer" if name == "SIGKILL" else ""
        return Failure("crash", f"the loader's own process was killed by {name} while {during}", remedy)
    last = last_line(outcome.stderr)
    return Failure(
        "crash",
        f"the loader's own process ended with exit code {outcome.returncode} while {during}"
        f"{f': {last}' if last else ''}",
    )


def _hang_failure(outcome: Outcome, output: str) -> Failure | None:
    if not outcome.silent_s:
        return None
    missing = "no batch" if outcome.phase in ("start", "batches") else f"{_PHASES[outcome.phase]} did not end"
    spins = outcome.busy_cores is not None and outcome.busy_cores > 0.5
    text = f"hangs: {missing} for {outcome.silent_s:.0f} s"
    workers = [process for process in outcome.processes if process.worker]
    # A worker that is in the user's code is more informative than a worker that waits for work.
    ordered = sorted(workers or outcome.processes, key=lambda process: (process.state != "D", not process.frame))
    if ordered:
        first = ordered[0]
        more = f"; {len(workers)} workers in all" if len(workers) > 1 else ""
        text += f"; {'worker' if first.worker else 'process'} {first.pid} {activity_text(first)}{more}"
    if spins:
        text += f"; it uses {outcome.busy_cores:.1f} cores"
    return Failure("hang", text, _hang_remedy(outcome, ordered))


def _hang_remedy(outcome: Outcome, ordered: list[LoaderProcess]) -> str:
    """Return the remedy for a hang; "" if the cause is unknown. ordered: the processes, the most informative first."""
    if ordered and ordered[0].state == "D":
        return "the storage does not answer: iotop-ai check PATH"
    if outcome.start == "fork" and ordered and ordered[0].worker:
        return "it may wait for a lock that a thread held at the fork: try --start spawn"
    return ""


def activity_text(process: LoaderProcess) -> str:
    """Return what a process of the loader does, in words: "sleeps in data.py:12 in __getitem__ (futex_wait_queue)"."""
    if process.exit_status is not None:
        number = _signal_of(process)
        return f"was killed by {signal_name(number)}" if number else f"ended with exit code {process.exit_status >> 8}"
    word = {"D": "waits for storage", "R": "runs", "T": "is stopped"}.get(process.state, "sleeps")
    kernel = f" ({process.wchan})" if process.wchan not in ("", "0") else ""
    return f"{word}{f' in {process.frame}' if process.frame else ''}{kernel}"


def user_frame(text: str, *, last: bool = True) -> str:
    """Return the innermost frame of the user's code, such as "data.py:12 in __getitem__"; "" if there is none.

    last: whether the innermost frame is the last one, as in a traceback, or the first one, as in a stack of
    faulthandler.
    """
    frames = _FRAME.findall(text)
    own = [frame for frame in frames if not any(part in frame[0] for part in _LIBRARY_PATHS)]
    if not own:
        return ""
    path, line, name = own[-1 if last else 0]
    return clean(f"{path.rpartition('/')[2]}:{line} in {name}", 120)


def message_line(text: str) -> str:
    """Return the first line of an error's message, cleaned.

    Further lines hold advice, as in CUDA errors. In a text that torch passes on from a worker, the message follows the
    frames.
    """
    lines = text.splitlines()
    places = [at for at, line in enumerate(lines) if _FRAME.search(line)] if "Original Traceback" in text else []
    after = lines[places[-1] + 1 :] if places else lines
    return next((clean(line.strip(), 200) for line in after if line.strip() and not (places and line[0] == " ")), "")


def last_line(text: str) -> str:
    """Return the last line that holds text, cleaned; "" if there is none."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return clean(lines[-1], 200) if lines else ""


def _signal_of(process: LoaderProcess) -> int:
    return 0 if process.exit_status is None else process.exit_status & 0x7F


def signal_name(number: int) -> str:
    """Return the name of a signal, such as "SIGKILL"."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
