"""``NamedTuple`` as typing has it, made in a fifth of the time: a start makes more than a hundred and fifty of them.

typing makes a checked object of each annotation, and ``collections.namedtuple`` compiles a constructor and makes six
methods and a descriptor a field anew for each class. Here an annotation stays the string that ``from __future__ import
annotations`` leaves (``typing.get_type_hints`` reads it when somebody wants to know), constructors of as many fields
share one compiled body, and methods and descriptors are the same objects in all classes. A type checker sees typing's
own class.
"""

from __future__ import annotations

from iotop_ai.model.typed import TYPE_CHECKING

__all__ = ["NamedTuple"]

if TYPE_CHECKING:
    from typing import NamedTuple
else:
    from operator import itemgetter
    from types import FunctionType

    try:
        from _collections import _tuplegetter
    except ImportError:  # as in collections: another interpreter

        def _tuplegetter(place, doc):
            return property(itemgetter(place), doc=doc)

    _getters = []
    _places = {}

    def _of_fields(fields):
        """Each field's descriptor; the one at a place is the same in all records."""
        more = range(len(_getters), len(fields))
        _getters.extend(_tuplegetter(place, f"Field number {place}.") for place in more)
        return zip(fields, _getters, strict=False)

    _SCOPE = {"_new": tuple.__new__, "__builtins__": {}}
    _bodies = {}

    def _constructor(fields, defaults):
        """As ``lambda _cls, a, b: tuple.__new__(_cls, (a, b))``."""
        count = len(fields)
        if count not in _bodies:
            names = "".join(f"f{i}," for i in range(count))
            _bodies[count] = eval(f"lambda _cls,{names}: _new(_cls, ({names}))").__code__
        code = _bodies[count].replace(co_varnames=("_cls", *fields), co_name="__new__", co_qualname="__new__")
        return FunctionType(code, _SCOPE, "__new__", defaults)

    class _Record(tuple):
        __slots__ = ()

        @classmethod
        def _make(cls, iterable):
            """A record of an iterable's items, in order. Raises TypeError when they are too few or too many."""
            made = tuple.__new__(cls, iterable)
            if len(made) != len(cls._fields):
                raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
            return made

        def _replace(self, /, **changes):
            """A new record with other values. Raises ValueError for a field that it does not have."""
            kind = type(self)
            places = _places.get(kind)
            if places is None:
                places = _places[kind] = {name: place for place, name in enumerate(kind._fields)}
            values = [*self]
            try:
                for name in changes:
                    values[places[name]] = changes[name]
            except KeyError:
                unknown = [name for name in changes if name not in places]
                raise ValueError(f"Got unexpected field names: {unknown!r}") from None
            return tuple.__new__(kind, values)

        __replace__ = _replace

        def _asdict(self):
            """A dict of the fields' values."""
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self):
            values = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
            return f"{type(self).__name__}({values})"

        def __getnewargs__(self):
            return tuple(self)

    class _Maker(type):
        def __new__(cls, name, bases, space):
            if not bases:
                return super().__new__(cls, name, bases, space)
            fields = tuple(space["__annotations__"])
            defaults = {field: space.pop(field) for field in fields if field in space}
            if tuple(defaults) != fields[len(fields) - len(defaults) :]:
                raise TypeError(f"{name}: a field without a default follows one with a default")
            space |= _of_fields(fields)
            space["__slots__"] = ()
            space["_fields"] = space["__match_args__"] = fields
            space["_field_defaults"] = defaults
            space["__new__"] = _constructor(fields, tuple(defaults.values()) or None)
            return type(name, tuple(_Record if base is NamedTuple else base for base in bases), space)

    class NamedTuple(metaclass=_Maker):
        """A tuple with named fields: see ``typing.NamedTuple``."""
