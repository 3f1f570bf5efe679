"""The stand-ins for typing's names mean the same to whoever reads annotations at run time."""

from __future__ import annotations

import typing

from iotop_ai.model.metric import Metric, metrics_of
from iotop_ai.model.record import NamedTuple
from iotop_ai.model.typed import TYPE_CHECKING, Annotated, Any, Generic, Protocol, TypeVar, cast

A = TypeVar("A")
B = TypeVar("B")


class Pair(NamedTuple, Generic[A, B]):
    """A record of two kinds."""

    first: A | None = None
    second: tuple[B, ...] = ()


class Holds(NamedTuple):
    """What is annotated in all ways."""

    pair: Pair[int, str] = Pair()
    share: Annotated[float | None, Metric("ratio", "Of something.")] = None


class Reads(Protocol[A]):
    """A shape that others have."""

    def read(self) -> A:
        """Anything."""
        ...


def test_a_record_of_kinds_tells_them_as_typing_does() -> None:
    hint = typing.get_type_hints(Holds)["pair"]
    assert typing.get_origin(hint) is Pair
    assert typing.get_args(hint) == (int, str)
    assert Pair.__parameters__ == (A, B)
    assert typing.get_args(typing.get_type_hints(Pair)["first"]) == (A, type(None))
    assert Pair[int, str](3) == Pair(3) == (3, ())


def test_what_is_annotated_is_found() -> None:
    assert metrics_of(Holds) == {"share": Metric("ratio", "Of something.")}
    assert typing.get_type_hints(Holds)["share"] == float | None


def test_checkers_alone_see_typing() -> None:
    assert not TYPE_CHECKING
    assert cast(Any, 5) == 5

    class Source(Reads[int]):
        def read(self) -> int:
            return 1

    assert Source().read() == 1
