"""``with Monitor("run.iotop.jsonl") as m:`` records the machine during training, and reports why training is slow."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import warnings
from typing import TYPE_CHECKING, Any, AsyncIterable, Callable, Iterable, Sequence, TypeVar, overload

from iotop_ai.model.clean import clean
from iotop_ai.model.errors import UnknownError
from iotop_ai.train import steps
from iotop_ai.train.answers import Breakdown, Verdict
from iotop_ai.train.distributed import ranks
from iotop_ai.train.program import program
from iotop_ai.train.recorder import Recorder, record_command

if TYPE_CHECKING:
    from types import TracebackType

F = TypeVar("F", bound="Callable[..., Any]")
T = TypeVar("T")

ANSWER_S = 5.0
"""The longest wait for an answer of the recorder, in seconds, unless the caller gives another."""
END_S = 25.0
"""The longest wait for the recorder to end, in seconds. It is longer than the recorder's own wait for its disk."""
_SUFFIX = ".iotop.jsonl"
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class MonitorWarning(RuntimeWarning):
    """The recorder could not be started, or it has ended early. The training goes on."""


class Monitor:
    """Records the whole machine from ``__enter__`` to ``__exit__``, in a separate process.

    path: the file to record into; None for HOST-TIME.iotop.jsonl in the current folder. An existing file is kept, and
    the recording goes to NAME-2; ``path`` names that file once the recorder has answered. interval: the seconds between
    two Snapshots. program: the path of iotop-ai, if it is installed in another environment; the variable
    IOTOP_AI_PROGRAM may name it instead. options: further flags of ``iotop-ai record``, as a list, or as one string in
    shell syntax. every_rank: whether each process of distributed training records; by default only the first process on
    each machine does, and the others send their steps to it.

    IOTOP_AI=0 in the environment switches the recording off. A Monitor never raises an error because of the recorder.
    If the recorder fails, ``error`` and a MonitorWarning give the reason.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        interval: float = 1.0,
        program: str = "",
        options: str | Sequence[str] = (),
        every_rank: bool = False,
    ) -> None:
        self._requested_path = self.path = "" if path is None else os.fsdecode(path)
        if self._requested_path:
            with contextlib.suppress(UnknownError):  # ``start`` reports the error
                self._requested_path = self.path = _absolute(self._requested_path)
        self.error = ""
        self._program, self._interval, self._options = program, interval, options
        self._every_rank = every_rank
        self._recorder: Recorder | None = None
        self._last_status: dict[str, Any] = {}

    def __enter__(self) -> Monitor:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        steps.mark_error(error, self.mark)
        self.stop()

    def start(self) -> None:
        """Start the recorder. Does nothing if it runs already, if IOTOP_AI is 0, or if another rank records."""
        if self._recorder is not None or os.environ.get("IOTOP_AI") == "0":
            return
        if not self._every_rank and (ranks(os.environ)["local_rank"] or 0) > 0:
            return
        self._last_status, self.error = {}, ""
        try:
            path = _absolute(self._requested_path or _default_name())
            command = record_command(program(self._program, os.environ), path, self._interval, _words(self._options))
            self._recorder = Recorder(command)
        except Exception as error:  # whatever the error is, the training goes on
            self._fail(str(error))
            return
        self.path = path
        steps.COUNTER.listeners.append(self._recorder.send)
        steps.COUNTER.own_sockets.add(f"{self._recorder.pid}.sock")

    def stop(self) -> None:
        """Send the last steps, then let the recorder take a last Snapshot and end."""
        steps.COUNTER.send()
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return
        try:
            steps.COUNTER.listeners.remove(recorder.send)
        except ValueError:  # another thread ends the recorder, or this is a forked child, which must not end it
            return
        try:
            code = recorder.end(END_S)
        finally:
            steps.COUNTER.own_sockets.discard(f"{recorder.pid}.sock")
        self._keep(recorder)
        if code != 0 and not self.error:
            self._fail(recorder.reason())

    def step(self) -> None:
        """Count a finished training step."""
        steps.COUNTER.step()

    def mark(self, text: str) -> None:
        """Mark this moment in the recording, and on every other monitor of this user."""
        steps.mark(text)

    @overload
    def watch(self, loader: Iterable[T]) -> steps.Watched[T]: ...
    @overload
    def watch(self, loader: AsyncIterable[T]) -> steps.WatchedAsync[T]: ...

    def watch(self, loader: Any) -> Any:
        """Wrap the loader like ``iotop_ai.watch``, so that the wait for each batch is measured."""
        return steps.watch(loader)

    def verdict(self, wait: float = ANSWER_S) -> Verdict | None:
        """Return the verdict on the last minute of the training; None if the recorder has not answered.

        After the end of the recording, this is the last verdict.

        wait: the longest time to wait for the answer, in seconds. 0 returns the newest known answer and requests the
        next one.
        """
        return Verdict.of(self._status(wait).get("verdict"))

    def breakdown(self, wait: float = ANSWER_S) -> Breakdown | None:
        """Return how this process's job has spent its time so far; None before that is known.

        wait: as in ``verdict``.
        """
        return Breakdown.of(self._status(wait))

    def _status(self, wait: float) -> dict[str, Any]:
        recorder = self._recorder
        if recorder is not None and recorder.send in steps.COUNTER.listeners:  # not in a forked child
            if wait > 0:
                steps.COUNTER.send()
                recorder.ask(wait)
            else:
                recorder.poll()
            if self._recorder in (recorder, None):  # otherwise another thread has begun a second run
                self._keep(recorder)
            # ``stop`` in another thread clears ``_recorder`` before it ends the recorder, so ``ended`` is read first.
            if recorder.ended and self._recorder is recorder and not self.error:
                self._fail(recorder.reason())
        return self._last_status

    def _keep(self, recorder: Recorder) -> None:
        self._last_status = recorder.status or self._last_status
        path = self._last_status.get("path")
        self.path = path if path and isinstance(path, str) else self.path

    def _fail(self, why: str) -> None:
        self.error = clean(why)
        with contextlib.suppress(ValueError, MonitorWarning):  # standard error is closed, or warnings are errors
            warnings.warn(f"iotop-ai does not record: {self.error}", MonitorWarning, stacklevel=_level_of_caller())


def _level_of_caller() -> int:
    """Return the stack level of the first frame outside this package, counted from the caller of this function."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    return level


def _default_name() -> str:
    import time

    return f"{os.uname().nodename.partition('.')[0]}-{time.strftime('%Y%m%dT%H%M%S')}{_SUFFIX}"


def _words(options: str | Sequence[str]) -> Sequence[str]:
    if not isinstance(options, str):
        return tuple(options)
    import shlex  # imported here, because it is slow

    return shlex.split(options)


def _absolute(path: str) -> str:
    try:
        # LINK/.. is the parent of the link's target; abspath would return the parent of the link.
        return os.path.join(os.getcwd(), path) if ".." in path.split("/") else os.path.abspath(path)
    except OSError as error:
        raise UnknownError(f"the current folder: {error.strerror}") from None


@overload
def monitored(path: F) -> F: ...
@overload
def monitored(path: str | os.PathLike[str] | None = None, **options: Any) -> Callable[[F], F]: ...


def monitored(path: Any = None, **options: Any) -> Any:
    """Record while the decorated function runs: ``@monitored`` or ``@monitored("run.iotop.jsonl", interval=2)``.

    The function may be ``async`` or a generator. The arguments are those of ``Monitor``.
    """
    if callable(path):
        return monitored()(path)

    def decorate(function: F) -> F:
        import inspect

        def run(*arguments: Any, **named: Any) -> Any:
            with Monitor(path, **options):
                return function(*arguments, **named)

        async def run_async(*arguments: Any, **named: Any) -> Any:
            with Monitor(path, **options):
                return await function(*arguments, **named)

        def run_generator(*arguments: Any, **named: Any) -> Any:
            with Monitor(path, **options):
                return (yield from function(*arguments, **named))

        async def run_async_generator(*arguments: Any, **named: Any) -> Any:
            with Monitor(path, **options):
                inner = function(*arguments, **named)
                try:
                    item = await _first_item(inner)
                    while True:
                        try:
                            sent = yield item
                        except GeneratorExit:
                            raise
                        except BaseException as error:
                            item = await inner.athrow(error)
                        else:
                            item = await inner.asend(sent)
                except StopAsyncIteration:
                    return
                finally:
                    await inner.aclose()

        wrapper: Callable[..., Any] = run
        if inspect.iscoroutinefunction(function):
            wrapper = run_async
        elif inspect.isgeneratorfunction(function):
            wrapper = run_generator
        elif inspect.isasyncgenfunction(function):
            wrapper = run_async_generator
        return functools.wraps(function)(wrapper)  # type: ignore[return-value]

    return decorate


def _first_item(inner: Any) -> Any:
    """Begin an asynchronous generator without the event loop's hooks, and return the awaitable of its first item.

    An event loop that ends closes every generator that its hooks have registered. The wrapper closes ``inner`` itself.
    """
    hooks = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(None, None)
    try:
        return inner.__anext__()
    finally:
        sys.set_asyncgen_hooks(*hooks)
