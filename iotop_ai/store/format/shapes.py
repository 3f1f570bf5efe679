"""Converts records to JSON by their type hints, and back: whole, or only the changes since the previous line.

A NamedTuple without tables becomes an array in field order, without the defaults at its end. A NamedTuple with a table
(a mapping or a set), and every Reading and Rated, becomes an object by field name, without the fields that have their
default. The change of a NamedTuple is an object with the fields that changed.

A mapping becomes an object, and a set becomes a sorted array of keys. Their change is an object without empty parts:
``{"+": {key: value}, "-": [key]}`` for a mapping and ``{"+": [key], "-": [key]}`` for a set. Keys that are records are
joined with "/". Numbers are written as they are, never as differences.
"""

from __future__ import annotations

import collections.abc
import types
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from functools import cache
from itertools import compress
from operator import is_not, ne
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from iotop_ai.model.counter import LEAST_INT, MOST_INT
from iotop_ai.model.process.change_tracking import changed, counterparts, removed
from iotop_ai.store.format.key_text import KeyText, key_text
from iotop_ai.store.format.scalars import ShapeError, checked_scalar
from iotop_ai.store.format.size_limits import MOST_ENTRIES, MOST_ENTRIES_OF, check_size

SAME = object()
"""Stands for a value without a change, and for a default or earlier value that is missing."""


class Shape:
    """The JSON form of the values of one type.

    table: whether the value is or may contain a table; a change then writes a whole value as {"=": whole}
    partial: whether a change may contain only a part of the value, as an object. A whole value in a change is then an
        array, or {"=": whole} if ``table``.
    verbatim: whether the value is its own JSON (a tuple is an array) and need not be copied
    """

    table = False
    partial = False
    verbatim = False

    def dump(self, value: Any) -> Any:
        """The JSON for a value."""
        return value

    def load(self, raw: Any) -> Any:
        """The value for its JSON. Raises ShapeError."""
        return raw

    def change(self, value: Any, before: Any) -> Any:
        """The JSON for the change since ``before``, or SAME."""
        return SAME if value is before or value == before else self.dump(value)

    def apply(self, raw: Any, before: Any) -> Any:
        """The value that results from applying a change to ``before``."""
        return self.load(raw)


class Scalar(Shape):
    """An int, float, str or bool. The JSON for a float may be an int, but not the reverse."""

    verbatim = True

    def __init__(self, kind: type) -> None:
        self.kind = kind

    def load(self, raw: Any) -> Any:
        """The scalar, checked to be of the declared type; an int for a float is converted."""
        if type(raw) is self.kind:
            return checked_scalar(raw)
        if self.kind is float and type(raw) is int:
            return float(checked_scalar(raw))
        raise ShapeError(f"{self.kind.__name__} expected")


class Choice(Shape):
    """An Enum, written as its value."""

    def __init__(self, kind: type[Enum]) -> None:
        self.kind = kind

    def dump(self, value: Any) -> Any:
        """The value of the member."""
        return value.value

    def load(self, raw: Any) -> Any:
        """The member with this value."""
        try:
            return self.kind(raw)
        except ValueError:
            raise ShapeError(f"not a {self.kind.__name__}") from None


class Maybe(Shape):
    """None, or a value of another shape."""

    def __init__(self, inner: Shape) -> None:
        self.inner = inner
        self.table = inner.table
        self.partial = inner.partial
        self.verbatim = inner.verbatim

    def dump(self, value: Any) -> Any:
        """null, or the JSON for the value."""
        return None if value is None else self.inner.dump(value)

    def load(self, raw: Any) -> Any:
        """None, or the value."""
        return None if raw is None else self.inner.load(raw)

    def change(self, value: Any, before: Any) -> Any:
        """The change of the value, or the whole value if it was None before."""
        if value is None or before is None:
            if value is before:
                return SAME
            whole = self.dump(value)
            return whole if value is None or not self.inner.table else {"=": whole}
        return self.inner.change(value, before)

    def apply(self, raw: Any, before: Any) -> Any:
        """None, a whole value, or the result of applying a change to ``before``."""
        if raw is None:
            return None
        if self.inner.table and type(raw) is dict and raw.keys() == {"="}:
            return self.inner.load(raw["="])
        if before is None and self.inner.partial and type(raw) is dict:
            raise ShapeError("a change of a missing value")
        return self.inner.apply(raw, before)


class Several(Shape):
    """A union of scalars that JSON distinguishes, such as ``str | float``."""

    verbatim = True

    def __init__(self, kinds: tuple[type, ...]) -> None:
        self.kinds = kinds

    def load(self, raw: Any) -> Any:
        """The scalar, checked."""
        if type(raw) in self.kinds:
            return checked_scalar(raw)
        if float in self.kinds and type(raw) is int:
            return float(checked_scalar(raw))
        raise ShapeError("another kind of scalar")


def _most_entries(item: Shape) -> int:
    """The maximum number of entries in a table of these items. A Reading or Maybe counts as its inner type."""
    while isinstance(item, Maybe) or (isinstance(item, Group) and "value" in item.fields):
        item = item.inner if isinstance(item, Maybe) else item.fields["value"]
    kind = item.kind if isinstance(item, Group | Record) else None
    return MOST_ENTRIES_OF.get(kind.__name__, MOST_ENTRIES) if kind is not None else MOST_ENTRIES


class Row(Shape):
    """A tuple of any length whose items have one type, or a tuple with a type for each item."""

    def __init__(self, kinds: tuple[Shape, ...], any_length: bool) -> None:
        self.kinds = kinds
        self.any_length = any_length
        self.most = _most_entries(kinds[0]) if any_length else len(kinds)
        self.verbatim = all(kind.verbatim for kind in kinds)

    def dump(self, value: Any) -> Any:
        """The array of the items."""
        if self.verbatim:
            return value
        if self.any_length:
            return [self.kinds[0].dump(v) for v in value]
        return [shape.dump(v) for shape, v in zip(self.kinds, value, strict=True)]

    def load(self, raw: Any) -> Any:
        """The tuple for an array."""
        if type(raw) is not list or (not self.any_length and len(raw) != len(self.kinds)):
            raise ShapeError("an array expected")
        if self.any_length:
            check_size(raw, self.most)
            return tuple(self.kinds[0].load(v) for v in raw)
        return tuple(shape.load(v) for shape, v in zip(self.kinds, raw, strict=True))


def _unequal(value: Mapping[Any, Any], before: Mapping[Any, Any]) -> Iterable[Any]:
    """Like ``changed``, but for scalars, which may be equal without being the same object."""
    return compress(value, map(ne, value.values(), counterparts(value, before)))


class Table(Shape):
    """A mapping whose keys are written as text."""

    table = True
    partial = True

    def __init__(self, key: KeyText, item: Shape) -> None:
        self.key = key
        self.item = item
        self.most = _most_entries(item)
        self.differing = _unequal if isinstance(item, Scalar) else changed

    def dump(self, value: Any) -> Any:
        """The object with an entry for each key."""
        dump, text = self.item.dump, self.key.dump
        if self.item.verbatim:
            return dict(zip(map(text, value), value.values(), strict=True))
        return {text(k): dump(v) for k, v in value.items()}

    def load(self, raw: Any) -> Any:
        """The dict for an object."""
        if type(raw) is not dict:
            raise ShapeError("an object expected")
        check_size(raw, self.most)
        load, key = self.item.load, self.key.load
        return {key(k): load(v) for k, v in raw.items()}

    def change(self, value: Any, before: Any) -> Any:
        """The new and changed entries, and the removed keys."""
        if value is before or not (value or before):
            return SAME
        get, text = before.get, self.key.dump
        item = self.item
        added: dict[str, Any] = {}
        # ``differing`` treats a missing key as None, which is also a possible value of a Maybe.
        for key in value if isinstance(item, Maybe) else self.differing(value, before):
            new, old = value[key], get(key, SAME)
            if old is new:
                continue
            if old is SAME:
                added[text(key)] = {"=": item.dump(new)} if item.table else item.dump(new)
            else:
                part = item.change(new, old)
                if part is not SAME:
                    added[text(key)] = part
        dropped = [text(key) for key in removed(value, before)]
        if not added and not dropped:
            return SAME
        out: dict[str, Any] = {}
        if added:
            out["+"] = added
        if dropped:
            out["-"] = dropped
        return out

    def apply(self, raw: Any, before: Any) -> Any:
        """The dict that results from applying a change to ``before``."""
        if type(raw) is not dict:
            raise ShapeError("an object expected")
        out = dict(before)
        item, key = self.item, self.key.load
        for text in raw.get("-", ()):
            out.pop(key(text), None)
        for text, value in raw.get("+", {}).items():
            k = key(text)
            if item.table and type(value) is dict and value.keys() == {"="}:
                out[k] = item.load(value["="])
            elif item.partial and type(value) is dict:
                if k not in out:
                    raise ShapeError("a change of a missing value")
                out[k] = item.apply(value, out[k])
            elif item.table and value is not None:
                raise ShapeError("an object expected")
            else:
                out[k] = item.load(value)
        check_size(out, self.most)
        return out


class Members(Shape):
    """A frozenset of keys."""

    table = True
    partial = True

    def __init__(self, key: KeyText) -> None:
        self.key = key

    def dump(self, value: Any) -> Any:
        """The sorted array of the keys' texts."""
        return sorted(self.key.dump(v) for v in value)

    def load(self, raw: Any) -> Any:
        """The set for an array."""
        if type(raw) is not list:
            raise ShapeError("an array expected")
        check_size(raw, MOST_ENTRIES)
        return frozenset(self.key.load(v) for v in raw)

    def change(self, value: Any, before: Any) -> Any:
        """The added and the removed members."""
        if value is before or value == before:
            return SAME
        out = {}
        if value - before:
            out["+"] = sorted(self.key.dump(v) for v in value - before)
        if before - value:
            out["-"] = sorted(self.key.dump(v) for v in before - value)
        return out

    def apply(self, raw: Any, before: Any) -> Any:
        """The set that results from applying a change to ``before``."""
        if type(raw) is not dict:
            raise ShapeError("an object expected")
        load = self.key.load
        out: frozenset[Any] = (before - {load(v) for v in raw.get("-", ())}) | {load(v) for v in raw.get("+", ())}
        check_size(out, MOST_ENTRIES)
        return out


class Record(Shape):
    """A NamedTuple without tables, written as an array. Fields that a file does not have get their defaults.

    least: the number of fields without a default, which every array contains
    plain: whether each changed field is written as its new value
    deep: the indexes of the fields that ``dump`` converts
    ints: for each field, whether it is an int
    counters: the indexes of the int fields, by name
    """

    partial = True

    def __init__(self, kind: Any, fields: tuple[Shape, ...]) -> None:
        self.kind = kind
        self.fields = fields
        self.positions = {name: i for i, name in enumerate(kind._fields)}
        self.defaults = tuple(kind._field_defaults.get(name, SAME) for name in kind._fields)
        self.least = sum(default is SAME for default in self.defaults)
        self.verbatim = self.least == len(fields) and all(f.verbatim for f in fields)
        self.plain = all(f.verbatim and not f.partial for f in fields)
        self.deep = tuple(i for i, f in enumerate(fields) if not f.verbatim)
        scalars = [f.inner if isinstance(f, Maybe) else f for f in fields]
        self.ints = tuple(isinstance(f, Scalar) and f.kind is int for f in scalars)
        self.counters = {name: i for name, i in self.positions.items() if self.ints[i]}

    def dump(self, value: Any) -> Any:
        """The array in field order, without the defaults at its end."""
        if self.verbatim:
            return value
        length, defaults = len(value), self.defaults
        while length > self.least and value[length - 1] == defaults[length - 1]:
            length -= 1
        out = list(value[:length])
        for i in self.deep:
            if i < length:
                out[i] = self.fields[i].dump(out[i])
        return out

    def load(self, raw: Any) -> Any:
        """The record for an array; fields that a newer writer added at its end are ignored."""
        if type(raw) is not list or len(raw) < self.least:
            raise ShapeError(f"{self.kind.__name__} expected")
        # This fast path is for counters, because most values are counters.
        values = [
            v if is_int and type(v) is int and LEAST_INT <= v <= MOST_INT else shape.load(v)
            for v, shape, is_int in zip(raw, self.fields, self.ints, strict=False)
        ]
        return self.kind(*values)

    def change(self, value: Any, before: Any) -> Any:
        """The object with the fields that changed."""
        if value is before or value == before:
            return SAME
        if self.plain:
            return dict(compress(zip(self.positions, value, strict=True), map(ne, value, before)))
        fields = self.fields
        out = {}
        for (name, i), new, old in zip(self.positions.items(), value, before, strict=True):
            if new is not old and new != old:
                out[name] = fields[i].change(new, old)
        return out

    def apply(self, raw: Any, before: Any) -> Any:
        """The record that results from applying changed fields to ``before``; an array is a whole record."""
        if type(raw) is not dict:
            return self.load(raw)
        values = list(before)
        counters, positions = self.counters, self.positions
        for name, part in raw.items():
            # This fast path is for counters, because most changes are changes of counters.
            if type(part) is int and name in counters and LEAST_INT <= part <= MOST_INT:
                values[counters[name]] = part
            elif name in positions:
                i = positions[name]
                values[i] = self.fields[i].apply(part, values[i])
        return tuple.__new__(self.kind, values)


class Elsewhere(Shape):
    """A field that is written elsewhere in the line, so that it never appears in a change."""

    def change(self, value: Any, before: Any) -> Any:
        """SAME, whatever the values are."""
        return SAME


class Group(Shape):
    """A NamedTuple that contains tables, or may contain them like a Reading; written as an object by field name.

    compared_count: the number of fields, from the first on, that a change compares; None for all
    """

    table = True
    partial = True

    def __init__(self, kind: Any, fields: tuple[Shape, ...], compared_count: int | None = None) -> None:
        self.kind = kind
        self.compared = tuple(zip(kind._fields, fields, strict=True))[:compared_count]
        self.fields = dict(zip(kind._fields, fields, strict=True))
        self.positions = {name: i for i, name in enumerate(kind._fields)}
        self.defaults = tuple(kind._field_defaults.get(name, SAME) for name in kind._fields)

    def dump(self, value: Any) -> Any:
        """The object with the fields that do not have their default."""
        return {name: shape.dump(v) for name, shape, v in self.non_defaults(value)}

    def non_defaults(self, value: Any) -> Iterator[tuple[str, Shape, Any]]:
        """The (name, shape, value) of each field that does not have its default."""
        rows = zip(self.fields.items(), value, self.defaults, strict=True)
        return ((name, shape, v) for (name, shape), v, default in rows if v is not default and v != default)

    def load(self, raw: Any) -> Any:
        """The record for an object; unknown fields are ignored."""
        if type(raw) is not dict:
            raise ShapeError(f"{self.kind.__name__} expected")
        try:
            return self.kind(**{name: shape.load(raw[name]) for name, shape in self.fields.items() if name in raw})
        except TypeError:
            raise ShapeError(f"{self.kind.__name__} expected") from None

    def change(self, value: Any, before: Any) -> Any:
        """The object with the fields that changed."""
        if value is before:
            return SAME
        out = {}
        rows = zip(self.compared, value, before, strict=False)
        for (name, shape), new, old in compress(rows, map(is_not, value, before)):
            changed = shape.change(new, old)
            if changed is not SAME:
                out[name] = changed
        return out or SAME

    def apply(self, raw: Any, before: Any) -> Any:
        """The record that results from applying changed fields to ``before``."""
        if type(raw) is not dict:
            raise ShapeError(f"{self.kind.__name__} expected")
        values = list(before)
        for name, part in raw.items():
            if name in self.fields:
                i = self.positions[name]
                values[i] = self.fields[name].apply(part, values[i])
        return tuple.__new__(self.kind, values)


@cache
def shape_of(hint: Any) -> Shape:
    """The Shape for a type hint, built once per hint. Raises TypeError for an unsupported type."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return shape_of(args[0])
    if hint in (int, float, str, bool):
        return Scalar(hint)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return Choice(hint)
    if origin in (Union, types.UnionType):
        rest = tuple(a for a in args if a is not type(None))
        inner = shape_of(rest[0]) if len(rest) == 1 else Several(rest)
        return Maybe(inner) if len(rest) < len(args) else inner
    if origin is tuple:
        any_length = len(args) == 2 and args[1] is Ellipsis
        return Row((shape_of(args[0]),) if any_length else tuple(map(shape_of, args)), any_length)
    if origin in (dict, Mapping, collections.abc.Mapping):
        return Table(key_text(args[0]), shape_of(args[1]))
    if origin is frozenset:
        return Members(key_text(args[0]))
    kind = origin or hint
    if hasattr(kind, "_fields"):
        hints = get_type_hints(kind, include_extras=True)
        type_args = dict(zip(getattr(kind, "__parameters__", ()), args, strict=False))
        fields = tuple(shape_of(_fill(hints[name], type_args)) for name in kind._fields)
        return Group(kind, fields) if type_args or any(f.table for f in fields) else Record(kind, fields)
    raise TypeError(f"no shape for {hint!r}")


def _fill(hint: Any, type_args: Mapping[Any, Any]) -> Any:
    """The hint with the type arguments instead of the type variables."""
    if isinstance(hint, TypeVar):
        return type_args[hint]
    if type_args and get_origin(hint) in (Union, types.UnionType):
        return Union[tuple(_fill(a, type_args) for a in get_args(hint))]  # noqa: UP007 - built from parts
    return hint
