"""The threads that read one process in full. Reading may wait for a lock or the memory map of the process, which must
not block the screen.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from textual.message import Message

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.io.trust import invoking_user
from iotop_ai.collectors.io.with_timeout import BackgroundWorker
from iotop_ai.collectors.process.detail import DetailReader
from iotop_ai.model.process.detail import ProcessDetail
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.process.stack import PythonCode
from iotop_ai.model.reading import Reading
from iotop_ai.store.format.secrets import variable_redacted


class DetailRead(Message):
    """The details of a process. Identity and environment are pending if they were not read this time."""

    def __init__(self, detail: ProcessDetail) -> None:
        self.detail = detail
        super().__init__()


class CodeRead(Message):
    """The lines of Python that a process executes, or the reason why they are unknown."""

    def __init__(self, key: ProcessKey, code: Reading[PythonCode]) -> None:
        self.key = key
        self.code = code
        super().__init__()


class DetailThreads:
    """Reads a process on several threads, so that a part that has to wait does not delay the others.

    post_message: posts a message to the screen that shows the process.
    """

    def __init__(self, root: Root, post_message: Callable[[Message], bool]) -> None:
        uids = (os.geteuid(), invoking_user(os.environ))
        self._reader = DetailReader(root, Clock(), frozenset(uid for uid in uids if uid is not None))
        self._post_message = post_message
        self._changing, self._whole = BackgroundWorker("process"), BackgroundWorker("process-whole")
        self._code = BackgroundWorker("process-code")

    def read(self, key: ProcessKey) -> bool:
        """Read the parts that change from second to second; returns False while the previous read is still running."""
        return self._changing.submit(lambda: self._post(self._reader.read_changing(key)))

    def read_whole(self, key: ProcessKey, uid: int | None) -> bool:
        """Read all parts; returns False while the previous read is still running. uid: the process's user."""
        return self._whole.submit(lambda: self._post(self._reader.read(key, uid)))

    def read_code(self, key: ProcessKey, uid: int | None) -> bool:
        """Sample the stacks of the process for a few seconds; returns False while the previous sampling is still
        running.
        """

        def sample() -> None:
            self._post_message(CodeRead(key, self._reader.read_code(key, uid)))

        return self._code.submit(sample)

    def close(self) -> None:
        """End the threads, each after its current read."""
        self._code.close()
        self._changing.close()
        self._whole.close()
        self._reader.close()

    def _post(self, detail: ProcessDetail) -> None:
        environ = detail.environ
        if environ.value is not None:
            # Secrets must not leave this thread.
            hidden = tuple((name, variable_redacted(name, value)) for name, value in environ.value)
            detail = detail._replace(environ=environ._replace(value=hidden))
        self._post_message(DetailRead(detail))
