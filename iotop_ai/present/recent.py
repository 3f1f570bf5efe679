"""What block devices did in a Frame's history, added up: kept from Frame to Frame, of which each adds one Sample."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from operator import is_

from iotop_ai.model.block import IDLE_BLOCK_RATES, BlockKey, BlockRates
from iotop_ai.model.frame import Frame
from iotop_ai.model.reading import Rated
from iotop_ai.model.sample import Sample

_Rates = Rated[Mapping[BlockKey, BlockRates]]


class _Did:
    """One device, a value for each Sample of the history, oldest first.

    queue_s: request-seconds; active: whether it did anything; both nothing where the device was not read anew.
    read, write: bytes a second, 0 where unknown. newest: the turn in which it was last seen not to rest.
    """

    __slots__ = ("active", "newest", "queue_s", "read", "write")

    def __init__(self, length: int) -> None:
        self.queue_s: deque[float] = deque([0.0] * length)
        self.active: deque[bool] = deque([False] * length)
        self.read: deque[float] = deque([0.0] * length)
        self.write: deque[float] = deque([0.0] * length)
        self.newest = 0


class _Recent:
    """The devices that did something in a history."""

    def __init__(self) -> None:
        self.history: Sequence[Sample] = ()
        self.samples: list[_Rates] = []
        self.did: dict[BlockKey, _Did] = {}
        self._turn = 0

    def follow(self, samples: list[_Rates]) -> None:
        """Become what these Samples tell: the one or two that are new are added, unless it is another history."""
        gone = len(self.samples) + 1 - len(samples)
        if samples and 0 <= gone <= 1 and all(map(is_, self.samples[gone:], samples)):
            for did in self.did.values() if gone else ():
                for column in (did.queue_s, did.active, did.read, did.write):
                    column.popleft()
            self._add(samples[-1], len(samples) - 1)
        elif len(samples) != len(self.samples) or not all(map(is_, self.samples, samples)):
            self.did = {}
            for i, rated in enumerate(samples):
                self._add(rated, i)
        self.samples = samples

    def _add(self, rated: _Rates, length: int) -> None:
        """Take in one Sample behind ``length`` others."""
        self._turn += 1
        seconds = rated.seconds or 0.0
        for key, rates in (rated.value or {}).items():
            if rates is not IDLE_BLOCK_RATES:
                did = self.did.get(key)
                if did is None:
                    did = self.did[key] = _Did(length)
                did.newest = self._turn
                did.queue_s.append((rates.queue_size or 0.0) * seconds if rated.renewed else 0.0)
                did.active.append(rates.active and rated.renewed)
                did.read.append(rates.read_bytes_per_s or 0.0)
                did.write.append(rates.write_bytes_per_s or 0.0)
        for key, did in list(self.did.items()):
            if did.newest < self._turn - length:
                del self.did[key]
            elif did.newest < self._turn:
                did.queue_s.append(0.0)
                did.active.append(False)
                did.read.append(0.0)
                did.write.append(0.0)


_RECENT = _Recent()


def _recent(frame: Frame) -> dict[BlockKey, _Did]:
    if _RECENT.history is not frame.history:
        _RECENT.follow([sample.block for sample in frame.history])
        _RECENT.history = frame.history
    return _RECENT.did


def did(frame: Frame) -> tuple[dict[str, float], set[str]]:
    """(request-seconds, who did anything) by kernel name, over the history; who rested is not there."""
    queue: dict[str, float] = {}
    found = _recent(frame)
    for key, one in found.items():
        queue[key.name] = queue.get(key.name, 0.0) + sum(one.queue_s)
    return queue, {key.name for key, one in found.items() if any(one.active)}


def direction(frame: Frame, key: BlockKey) -> str:
    """read or write: what the device did more of in the history."""
    one = _recent(frame).get(key)
    return "write" if one is not None and sum(one.write) > sum(one.read) else "read"
