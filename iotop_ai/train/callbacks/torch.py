"""Records a plain training loop, in PyTorch or any other library: ``with TrainingLoop(path) as loop:``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable, TypeVar

from iotop_ai.train import steps
from iotop_ai.train.callbacks.session import TrainingSession

if TYPE_CHECKING:
    from types import TracebackType

T = TypeVar("T")


class TrainingLoop:
    """Records a loop, writes each new verdict into the log, and gives metrics to loggers.

    ``for batch in loop(loader)`` measures the wait for each batch, and ``loop.step()`` counts a finished training step.
    path, session: the arguments of ``TrainingSession``, such as writer=SummaryWriter().
    """

    def __init__(self, path: Any = None, **session: Any) -> None:
        self.session = TrainingSession(path, **session)
        self.steps = 0

    def __enter__(self) -> TrainingLoop:
        self.session.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        steps.mark_error(error)
        self.session.end()

    def __call__(self, loader: Iterable[T]) -> steps.Watched[T]:
        """Wrap the loader like ``iotop_ai.watch``, so that the wait for each batch is measured."""
        return steps.watch(loader)

    def step(self) -> None:
        """Count a finished training step."""
        self.steps += 1
        self.session.step(self.steps)
