"""A ``NamedTuple`` like that of typing, but cheap to define: the program defines more than 160 of them at start-up.

With typing.NamedTuple, the first frame would appear 36 to 50 ms later: the definitions would take 177 of 445 million
instructions. For each class, typing checks every annotation, and ``collections.namedtuple`` compiles a constructor and
creates six methods and a descriptor per field. Here annotations stay strings (``typing.get_type_hints`` resolves them
on demand), constructors with the same number of fields share one compiled body, and all classes share methods and
descriptors. Type checkers see the class of typing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["NamedTuple"]

if TYPE_CHECKING:
    from typing import NamedTuple
else:
    from operator import itemgetter
    from types import FunctionType

    try:
        from _collections import _tuplegetter
    except ImportError:  # an interpreter other than CPython; collections has the same fallback

        def _tuplegetter(index, doc):
            return property(itemgetter(index), doc=doc)

    _getters = []
    _indexes = {}

    def _descriptors(fields):
        """Return the (name, descriptor) pairs of the fields. All classes share one descriptor per index."""
        missing = range(len(_getters), len(fields))
        _getters.extend(_tuplegetter(index, f"Field number {index}.") for index in missing)
        return zip(fields, _getters, strict=False)

    _SCOPE = {"_new": tuple.__new__, "__builtins__": {}}
    _bodies = {}

    def _constructor(fields, defaults):
        """Return the function ``lambda _cls, a, b: tuple.__new__(_cls, (a, b))`` for these fields."""
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
            """Return a record of the items of an iterable. Raises TypeError for a wrong number of items."""
            record = tuple.__new__(cls, iterable)
            if len(record) != len(cls._fields):
                raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(record)}")
            return record

        def _replace(self, /, **changes):
            """Return a copy with some values changed. Raises ValueError for an unknown field."""
            cls = type(self)
            indexes = _indexes.get(cls)
            if indexes is None:
                indexes = _indexes[cls] = {name: index for index, name in enumerate(cls._fields)}
            values = [*self]
            try:
                for name in changes:
                    values[indexes[name]] = changes[name]
            except KeyError:
                unknown = [name for name in changes if name not in indexes]
                raise ValueError(f"Got unexpected field names: {unknown!r}") from None
            return tuple.__new__(cls, values)

        __replace__ = _replace

        def _asdict(self):
            """Return a dict of the fields' values."""
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self):
            values = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
            return f"{type(self).__name__}({values})"

        def __getnewargs__(self):
            return tuple(self)

    class _Maker(type):
        """The metaclass of NamedTuple; it turns each subclass into a tuple with a descriptor for each field."""

        def __new__(cls, name, bases, space):
            if not bases:
                return super().__new__(cls, name, bases, space)
            fields = tuple(space["__annotations__"])
            defaults = {field: space.pop(field) for field in fields if field in space}
            if tuple(defaults) != fields[len(fields) - len(defaults) :]:
                raise TypeError(f"{name}: a field without a default follows one with a default")
            space |= _descriptors(fields)
            space["__slots__"] = ()
            space["_fields"] = space["__match_args__"] = fields
            space["_field_defaults"] = defaults
            space["__new__"] = _constructor(fields, tuple(defaults.values()) or None)
            return type(name, tuple(_Record if base is NamedTuple else base for base in bases), space)

    class NamedTuple(metaclass=_Maker):
        """A tuple with named fields, like ``typing.NamedTuple``."""
