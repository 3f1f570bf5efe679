"""A process that has imported the program, and forks itself for each run of the program.

Starting Python and importing the program takes more CPU time than most runs of the program.
"""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import pkgutil
import selectors
import socket
import sys
import threading
import time
import traceback
from importlib import import_module
from typing import Any, NoReturn

import iotop_ai
from iotop_ai.cli.main import main

RARE = ("iotop_ai.tui", "iotop_ai.train")
"""The packages that are not imported in advance, because only a screen or a training process needs them."""
OUTPUT_LOST = 120
"""The exit status that Python has when its last output cannot be written."""
NUMBER_BYTES = 8
"""The number of bytes of a pid or an exit status."""


def serve(client: socket.socket) -> None:
    """Run the program once for each request, until the client has ended.

    A request is the words, the environment and the folder of a run, with four files: those that become its standard
    streams, and one that gets two numbers, its pid at the start and its exit status at the end.
    """
    for module in pkgutil.walk_packages(iotop_ai.__path__, "iotop_ai."):
        if not module.name.startswith(RARE) and not module.name.endswith("__main__"):
            import_module(module.name)
    gc.freeze()  # otherwise a garbage collection in a child would copy the pages of all these modules
    with selectors.DefaultSelector() as events:
        events.register(client, selectors.EVENT_READ)
        while True:
            for event, _ in events.select():
                if event.data:
                    events.unregister(event.fd)
                    end(event.fd, *event.data)
                else:
                    request, files, _, _ = socket.recv_fds(client, 1 << 20, 4)
                    if not request:
                        return
                    events.register(*begin(request, files))


def begin(request: bytes, files: list[int]) -> tuple[int, int, tuple[int, int]]:
    """Begin a run. Return a file that becomes readable when the run ends, and what ``end`` needs then."""
    pid = os.fork()
    if pid == 0:
        run(json.loads(request), files[:3])
    for file in files[:3]:
        os.close(file)
    os.write(files[3], pid.to_bytes(NUMBER_BYTES, "big"))
    return os.pidfd_open(pid), selectors.EVENT_READ, (pid, files[3])


def end(process: int, pid: int, answer: int) -> None:
    """Write the exit status of a run that has ended."""
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with contextlib.suppress(BrokenPipeError):  # the test may have ended
        os.write(answer, code.to_bytes(NUMBER_BYTES, "big", signed=True))
    os.close(answer)
    os.close(process)


def run(request: dict[str, Any], files: list[int]) -> NoReturn:
    """Run the program as if it had been started with these words, environment, folder and streams, and end."""
    code: object = 1
    try:
        for number, file in enumerate(files):
            os.dup2(file, number)
        os.closerange(3, 1000)
        sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
        os.environ.clear()
        os.environ.update(request["environment"])
        time.tzset()
        os.chdir(request["folder"])
        sys.argv = ["iotop-ai", *request["words"]]
        try:
            code = main(request["words"])
        except SystemExit as end:
            code = end.code or 0
            if isinstance(code, str):
                print(code, file=sys.stderr)
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()
        logging.shutdown()
        try:
            sys.stdout.flush()
        except OSError:
            code = OUTPUT_LOST
            raise
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code if isinstance(code, int) else 1)  # Python's own end would free each module, page by page


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        serve(channel)
