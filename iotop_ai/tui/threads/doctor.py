"""The thread that searches once for the problems that doctor would find (limits, links, clocks). It only reads."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from textual.message import Message

from iotop_ai.collectors.io.root import Root
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.present.screen.view import Problem

log = logging.getLogger(__name__)


class ProblemsFound(Message):
    """The problems that were found, the worst first."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        self.problems = problems
        super().__init__()


def search_once(root: Root, snapshot: Snapshot, post_message: Callable[[Message], bool]) -> None:
    """Start the thread. It only reads, does not run programs, and ends within a few milliseconds."""

    def search() -> None:
        from iotop_ai.preflight.environment.host import read_host_facts
        from iotop_ai.preflight.environment.judge_host import judge_host
        from iotop_ai.preflight.environment.judge_machine import judge_machine
        from iotop_ai.present.preflight.doctor_line import problems_of

        try:
            facts = read_host_facts(root, check_permission=False)
            checks = (*judge_host(facts, snapshot.host.container), *judge_machine(snapshot, facts))
        except Exception:  # the screen works without the problems
            log.exception("looking for problems of this machine failed")
            return
        if problems := problems_of(checks):
            post_message(ProblemsFound(problems))

    try:
        threading.Thread(target=search, name="doctor", daemon=True).start()
    except RuntimeError as error:  # this user has too many threads
        log.info("the search for problems did not start: %s", error)
