"""A short JSON text read as ``json.loads`` does, by the scanner in C that json has below: what a start reads is small,
and to load json and its patterns for it would be a fortieth of the time until something is on the screen.
"""

from __future__ import annotations

from iotop_ai.model.typed import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from json import loads as loads
else:
    try:
        from _json import make_scanner
    except ImportError:  # as in json: another interpreter
        from json import loads
    else:
        _BLANK = " \t\n\r"

        class _How:
            """What json's own decoder tells the scanner."""

            strict = True
            object_hook = object_pairs_hook = None
            parse_float, parse_int = float, int

            @staticmethod
            def parse_constant(name: str) -> Any:
                """NaN and the infinities, which nothing of ours writes."""
                raise ValueError(f"{name} is no figure")

        _scan = make_scanner(_How)

        def loads(raw: bytes) -> Any:
            """The value of UTF-8 text. Raises ValueError for what is no JSON, RecursionError for what is too deep."""
            text = raw.decode().strip(_BLANK)
            try:
                value, end = _scan(text, 0)
            except (StopIteration, SystemError):  # the latter where Python 3.11 has no json loaded to name its error
                end = -1
            if end == len(text):
                return value
            from json import loads as explained

            return explained(raw)
