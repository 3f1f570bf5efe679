"""The fast NamedTuple behaves like the one of the typing module."""

from __future__ import annotations

import copy
import inspect
import pickle
import typing
from typing import Annotated, Generic, TypeVar, get_args, get_origin, get_type_hints

import pytest

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.metric import Metric, metrics_of

T = TypeVar("T")


class Ours(NamedTuple):
    """Text."""

    name: str
    size: int = 3
    """A field's docstring."""
    rest: tuple[int, ...] = ()

    @property
    def doubled(self) -> int:
        """Twice the size."""
        return self.size * 2


class Theirs(typing.NamedTuple):
    """Text."""

    name: str
    size: int = 3
    rest: tuple[int, ...] = ()


class Filled(NamedTuple, Generic[T]):
    """A generic record."""

    value: T | None = None


class Annotations(NamedTuple):
    """Fields with annotations of every form."""

    filled: Filled[int] = Filled()
    share: Annotated[float | None, Metric("ratio", "A share.")] = None


def test_values_methods_and_signature_equal_those_of_typing() -> None:
    ours, theirs = Ours("a", rest=(1,)), Theirs("a", rest=(1,))
    assert ours == theirs == ("a", 3, (1,))
    assert hash(ours) == hash(theirs)
    assert repr(ours) == repr(theirs).replace("Theirs", "Ours")
    assert (ours.name, ours.size, ours.rest, ours.doubled) == ("a", 3, (1,), 6)
    assert ours._asdict() == theirs._asdict()
    assert ours._replace(size=5) == theirs._replace(size=5)
    assert type(ours._replace(size=5)) is Ours
    assert Ours._make(["b", 1, ()]) == Theirs._make(["b", 1, ()])
    assert Ours._fields == Theirs._fields
    assert Ours._field_defaults == Theirs._field_defaults
    assert Ours.__doc__ == "Text."
    assert (Ours.__module__, Ours.__qualname__) == (__name__, "Ours")
    assert str(inspect.signature(Ours).parameters.keys()) == str(inspect.signature(Theirs).parameters.keys())
    assert get_type_hints(Ours) == get_type_hints(Theirs)
    match ours:
        case Ours(name, size):
            assert (name, size) == ("a", 3)


def test_a_record_is_immutable_and_can_be_copied() -> None:
    ours = Ours("a")
    with pytest.raises(AttributeError):
        ours.size = 4  # type: ignore[misc]
    with pytest.raises(AttributeError):
        ours.other = 4  # type: ignore[attr-defined]
    assert copy.deepcopy(ours) == ours
    again = pickle.loads(pickle.dumps(ours))
    assert (type(again), again) == (Ours, ours)


@pytest.mark.parametrize("kind", [Ours, Theirs])
def test_wrong_arguments_are_refused(kind: typing.Any) -> None:
    for wrong in (lambda: kind(), lambda: kind("a", 1, (), 2), lambda: kind("a", other=1), lambda: kind._make(["a"])):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(ValueError, match="other"):
        kind("a")._replace(other=1)


def test_a_field_without_a_default_may_not_follow_one_with_a_default() -> None:
    with pytest.raises(TypeError):

        class Wrong(NamedTuple):  # type: ignore[misc]
            first: int = 1
            second: int


def test_a_record_may_be_generic() -> None:
    assert Filled[int].__args__ == (int,)  # type: ignore[attr-defined]
    assert Filled.__parameters__ == (T,)  # type: ignore[attr-defined]
    assert Filled(3).value == 3
    assert Filled[int]() == (None,)


def test_annotations_are_read_as_in_the_typing_module() -> None:
    hints = get_type_hints(Annotations)
    assert get_origin(hints["filled"]) is Filled
    assert get_args(hints["filled"]) == (int,)
    assert get_args(get_type_hints(Filled)["value"]) == (T, type(None))
    assert hints["share"] == float | None
    assert metrics_of(Annotations) == {"share": Metric("ratio", "A share.")}


def test_a_record_may_have_hundreds_of_fields() -> None:
    names = [f"field_{i}" for i in range(300)]
    made = type(NamedTuple)("Wide", (NamedTuple,), {"__annotations__": dict.fromkeys(names, "int")})
    wide = made(*range(300))
    assert [getattr(wide, name) for name in names] == list(range(300))
