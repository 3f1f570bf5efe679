"""Checks of the start method of workers, of the main guard and of notebooks, based on the script's facts.

Sources: https://docs.python.org/3/library/multiprocessing.html#the-spawn-and-forkserver-start-methods (each process
imports the main module again), https://docs.pytorch.org/docs/stable/notes/multiprocessing.html#cuda-in-multiprocessing
(CUDA does not survive a fork).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from iotop_ai.model.preflight.environment.check import Check, State
from iotop_ai.model.preflight.environment.host import HostFacts
from iotop_ai.model.preflight.environment.python import PythonFacts
from iotop_ai.model.preflight.environment.script import FORK, ScriptFacts

OK, WARN, FAIL, UNKNOWN = State


def judge_script(python: PythonFacts, host: HostFacts, script: ScriptFacts | None) -> Iterator[Check]:
    """Yield checks of how worker processes start, and of what would stop them.

    script: the facts about the training script; None if the user did not name one.
    """
    yield from _kernels(python)
    if script is not None and script.error:
        yield Check("python", "script", UNKNOWN, f"{script.path}: {script.error}")
        script = None
    method = (script.method if script is not None else "") or python.start_method
    if not method:
        return
    origin = "set by the script" if script is not None and script.method else "the default of this Python"
    yield Check("python", "start method", OK, f"workers start by {method}, {origin}")
    notebook = host.jupyter if script is None else script.notebook
    if notebook and method != FORK:
        yield from _in_notebook(method, script)
    elif script is not None and not notebook:
        yield _guard(method, script)
    if script is not None and script.cuda and script.workers and method == FORK:
        text = f"{script.cuda}, and workers are forked: CUDA cannot be used in a forked process"
        yield Check("python", "CUDA in workers", FAIL, text, "move tensors to the GPU in the training loop")


def _guard(method: str, script: ScriptFacts) -> Check:
    if not script.unguarded:
        return Check("python", "main guard", OK, "importing the script starts no process")
    if method == FORK:
        text = f"{script.unguarded} runs on import, which {FORK} allows; spawn and forkserver do not"
        return Check("python", "main guard", OK, text)
    text = (
        f"{script.unguarded} runs on import, and each worker started by {method} imports the script: the worker fails"
    )
    return Check("python", "main guard", FAIL, text, 'put it below: if __name__ == "__main__":')


def _in_notebook(method: str, script: ScriptFacts | None) -> Iterator[Check]:
    remedy = (
        "move the Dataset into a .py file and import it, or torch.utils.data.DataLoader(multiprocessing_context='fork')"
    )
    if script is None:
        text = f"workers start by {method}: they cannot load a class or function that a cell defines"
        yield Check("python", "notebook", WARN, text, remedy)
    elif script.workers and script.datasets:
        text = f"workers start by {method}: they cannot load {script.datasets[0]}, which a cell defines"
        yield Check("python", "notebook", FAIL, text, remedy)


def _kernels(python: PythonFacts) -> Iterator[Check]:
    for name, program in python.lost_kernels[:3]:
        text = f"it starts {program}, which does not exist"
        yield Check("python", f"Jupyter kernel {name}", WARN, text, f"jupyter kernelspec remove {shlex.quote(name)}")
