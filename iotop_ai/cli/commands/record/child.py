"""The recorded command: starts it, forwards signals, waits for its end and passes its exit code on."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue

from iotop_ai.cli.options.wrong_words import RECORDING_SUFFIXES
from iotop_ai.cli.start.environment import callers_environment
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import UsageError
from iotop_ai.store.format.redact import COMMAND_REDACTORS

NOT_FOUND, NOT_RUNNABLE = 127, 126
"""The exit codes of a shell for a command that does not exist, and for one that cannot run."""
LONGEST_TEXT = 120
"""The maximum number of characters of a command line in the recording."""


class NotStarted(UsageError):  # noqa: N818 - its exit codes are those of a shell
    """The command could not be started. exit_code: the code that a shell returns in this case."""

    def __init__(self, name: str, error: OSError) -> None:
        if not name:  # for a shell it does not exist; exec would try to run the first folder of PATH and get EACCES
            super().__init__("cannot run '': the command is empty")
            self.exit_code = NOT_FOUND
            return
        hint = f"; to record into it: -o {clean(name)}" if name.endswith((*RECORDING_SUFFIXES, ".gz", ".zst")) else ""
        super().__init__(f"cannot run {clean(name)}: {error.strerror}{hint}")
        self.exit_code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_RUNNABLE


def exec_command(argv: Sequence[str]) -> int:
    """Replace this process with the command; never return. Raises NotStarted."""
    # Python ignores these signals, and exec would leave them ignored in the command.
    handlers = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGPIPE, signal.SIGXFSZ)}
    try:
        os.execvpe(argv[0], list(argv), callers_environment())
    except OSError as error:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        raise NotStarted(argv[0], error) from None


def redacted_text(argv: Sequence[str], level: str) -> str:
    """Return the command line, redacted at the given level and shortened to LONGEST_TEXT."""
    redact = COMMAND_REDACTORS.get(level)
    return clean(" ".join(argv if redact is None else redact(tuple(argv))), LONGEST_TEXT)


class RecordedCommand:
    """A running command. It belongs to our process group, so that the terminal's keys reach it too.

    It inherits our caller's descriptors, such as those of ``<(...)`` and of make's jobserver; Python marks our
    own close-on-exec. Raises NotStarted.

    unblock: called in the child process to unblock signals before the command runs. on_end: called on another thread
    with the exit code, or with the negative number of the signal that ended the command.
    """

    def __init__(self, argv: Sequence[str], unblock: Callable[[], None], on_end: Callable[[int], None]) -> None:
        self._on_end = on_end
        started: SimpleQueue[subprocess.Popen[bytes] | None] = SimpleQueue()
        # Where no thread can start, no command may start either, because nothing would wait for it.
        self._thread = threading.Thread(target=self._wait, args=(started,), name="command", daemon=True)
        self._thread.start()
        try:
            # preexec_fn is safe here, because ``unblock`` needs no lock that another thread may hold.
            self._child = subprocess.Popen(list(argv), preexec_fn=unblock, close_fds=False, env=callers_environment())
        except OSError as error:
            started.put(None)
            raise NotStarted(argv[0], error) from None
        started.put(self._child)

    @property
    def pid(self) -> int:
        """The child's pid."""
        return self._child.pid

    def forward(self, number: signal.Signals) -> None:
        """Send a signal to the command if it still runs.

        Raises PermissionError for another user's process, such as sudo.
        """
        self._child.send_signal(number)

    def code(self) -> int:
        """Wait for the child's end; return its exit code as a shell reports it, which is 128 + n after signal n."""
        self._thread.join()
        code = self._child.returncode
        return code if code >= 0 else 128 - code

    def _wait(self, started: SimpleQueue[subprocess.Popen[bytes] | None]) -> None:
        child = started.get()
        if child is not None:
            self._on_end(child.wait())
