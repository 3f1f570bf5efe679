"""What the rules look at, worked out once a Frame for the screens that show more than the verdict."""

from __future__ import annotations

from iotop_ai.diagnosis.facts import Facts, gather
from iotop_ai.model.frame import Frame
from iotop_ai.present.memo import once_a_frame
from iotop_ai.present.view import View


def facts(frame: Frame, view: View) -> Facts:
    """The facts of the window that ends with the Frame."""
    return _facts(frame, _ANY)


_ANY = View()


@once_a_frame
def _facts(frame: Frame, view: View) -> Facts:
    return gather(frame.snapshot, frame.history, carry=frame.carry)
