"""The line of ``why --stack``: where the job's trainer is in its code."""

from __future__ import annotations

from iotop_ai.cli.commands.common_verdict import print_status
from iotop_ai.collectors.base import Unavailable
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.process.python_code import SECONDS, read_python_code
from iotop_ai.model.frame import Frame
from iotop_ai.present.job.verdict_words import current_job
from iotop_ai.present.process.code import code_text
from iotop_ai.present.verdict.plain_text import LABEL


def code_line(root: Root, frame: Frame) -> str:
    """Of the first training process of the verdict's job; the reason where that is not known."""
    return f"{'code':<{LABEL}}{_text(root, frame)}"


def _text(root: Root, frame: Frame) -> str:
    job = current_job(frame)
    if job is None:
        return "unknown: no training job is seen"
    key = job.ranks[0].key if job.ranks else job.key
    print_status(f"py-spy looks at pid {key.pid} for {SECONDS} s ...")
    try:
        return code_text(read_python_code(root, key.pid, job.uid))
    except Unavailable as lack:
        return f"unknown: {lack.reason}{f' ({lack.remedy})' if lack.remedy else ''}"
