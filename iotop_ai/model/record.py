"""``NamedTuple`` as typing has it, made in well under half the time: a start makes more than a hundred of them.

typing makes a checked object of each annotation, which it compiles where it is a string, and asks nothing of it. Here
an annotation stays the string that ``from __future__ import annotations`` leaves, and ``typing.get_type_hints`` reads
it when somebody wants to know. A type checker sees typing's own class, and a record with type variables uses that one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["NamedTuple"]

if TYPE_CHECKING:
    from typing import NamedTuple
else:
    from collections import namedtuple

    _NOT_TAKEN = ("__module__", "__annotations__", "__dict__", "__weakref__")

    class _Maker(type):
        def __new__(cls, name, bases, space):
            if not bases:
                return super().__new__(cls, name, bases, space)
            hints = space["__annotations__"]
            defaults = [space[field] for field in hints if field in space]
            made = namedtuple(name, hints, defaults=defaults, module=space["__module__"])
            made.__annotations__ = hints
            for key, value in space.items():
                if key not in hints and key not in _NOT_TAKEN:
                    setattr(made, key, value)
            return made

    class NamedTuple(metaclass=_Maker):
        """A tuple with named fields: see ``typing.NamedTuple``."""
