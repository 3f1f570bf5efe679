"""The facts that the rules read, for the screens that show more than the verdict."""

from __future__ import annotations

from iotop_ai.diagnosis.facts.gather import Facts, gather
from iotop_ai.model.frame import Frame
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.frame_cache import cached_per_frame


@cached_per_frame
def rule_facts(frame: Frame, view: View) -> Facts:
    """The facts of the window that ends with the Frame. Its ``carry`` is the memory of the rules."""
    return gather(frame.snapshot, frame.history, carry=frame.carry)
