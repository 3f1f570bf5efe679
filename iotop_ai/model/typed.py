"""What ``typing`` has for annotations, without loading it: a start would wait for a module that checkers alone read.

A type checker sees typing's own. At run time annotations are text, so that stand-ins do, which cost nothing to make;
``hints_of`` reads through them when somebody wants to know.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
"""Checkers take a name like this for True."""

if TYPE_CHECKING:
    from typing import Annotated as Annotated
    from typing import Any as Any
    from typing import Generic as Generic
    from typing import Protocol as Protocol
    from typing import TypeVar as TypeVar
    from typing import cast as cast
else:
    from types import GenericAlias

    Any = object

    def cast(_kind, value):
        """The value as it is."""
        return value

    class Annotated:
        """As typing's, of which it makes one."""

        def __class_getitem__(cls, parts):
            from typing import Annotated as Real

            return Real[parts]

    class TypeVar:
        """A name for any type."""

        def __init__(self, name, *_kinds, **_limits):
            self.__name__ = name

        def __or__(self, other):
            from typing import Union

            return Union[self, other]  # noqa: UP007 - this is what makes one of ``|``

    class Generic:
        """A base that may be given types. ``__parameters__``: of the class, what they stand for."""

        __slots__ = ()
        __parameters__ = ()
        __class_getitem__ = classmethod(GenericAlias)

        def __init_subclass__(cls):
            for base in cls.__dict__.get("__orig_bases__", ()):
                if getattr(base, "__origin__", None) is Generic:
                    cls.__parameters__ = base.__args__

    Protocol = Generic


def hints_of(record: type) -> dict[str, Any]:
    """Field name to type of a record, ``Annotated`` ones with all that is said; as ``typing.get_type_hints``.

    A module's LATER names the modules from which its annotations alone take names: they are loaded here.
    """
    from importlib import import_module
    from typing import get_type_hints

    names: dict[str, Any] = {}
    for later in getattr(sys.modules[record.__module__], "LATER", ()):
        names |= vars(import_module(later))
    return get_type_hints(record, localns=names, include_extras=True)
