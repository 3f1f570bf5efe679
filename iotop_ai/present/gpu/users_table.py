"""The users of the GPUs: a row for each user, then a row for each process."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.frame import Frame
from iotop_ai.present.gpu.groups import Gpu, gpus, number_runs
from iotop_ai.present.gpu.process_table import NAME_CELLS, PROCESS_COLUMNS, process_row, process_slots
from iotop_ai.present.gpu.users import GpuUser, gpu_users
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.line import Cell, Line, Span, cut, place, row
from iotop_ai.present.text.table import Column, head, place_columns
from iotop_ai.present.text.units import UNKNOWN, size

USER_COLUMNS = (
    Column("gpus", "GPUs", 8, 0, 12, left=True),
    Column("mem", "mem", 7, 0, 9),
    Column("count", "processes", 11, 0),
)
_GPU_COLUMN = Column("gpu", "GPU", 5, 0, 6, left=True)
_COLUMNS = (_GPU_COLUMN, *(column._replace(drop=0) if column.id == "user" else column for column in PROCESS_COLUMNS))
"""The columns of the processes; the user's column is never dropped."""


class _Use(NamedTuple):
    """The use of one GPU by one process. gpu: the GPU's number."""

    gpu: int
    user: GpuUser


def user_rows(frame: Frame, view: View, width: int, height: int) -> list[Line]:
    """The users, then the processes, both sorted by memory, the largest first; [] without room."""
    if height < 2:
        return []
    uses: list[_Use] = []
    unlisted: list[Gpu] = []
    for gpu in gpus(frame, view):
        users = None if gpu.state is None else gpu_users(frame, view, gpu.state)
        if users is None or gpu.state is None:
            unlisted.append(gpu)
        else:
            uses += [_Use(gpu.state.number, user) for user in users]
    out = _users(width, uses)
    if not uses:
        text = "no process is on a GPU" if not unlisted else "? the driver does not list the processes"
        out.append(row(width, [Span(f" {text}", "unsure" if unlisted else "dim")]))
        return out[:height]
    # A GPU without a state is left out: its own row says why it does not answer.
    numbers = number_runs(gpu.state.number for gpu in unlisted if gpu.state is not None)
    note: list[Line] = []
    if numbers and height > 2:
        text = f" ? GPU {numbers}: the driver does not list the processes"
        note = [row(width, [Span(cut(text, width), "unsure")])]
    most = max(2, height // 2) - len(note)  # the processes need the other half
    if len(out) > most >= 3:  # with less room, the first user is worth more than the number of the others
        out = [*out[: most - 1], row(width, [Span(f" {len(out) - most + 1} more", "dim")])]
    out = [*out[:most], *note]
    return [*out, *_processes(width, uses, height - len(out))]


def _users(width: int, uses: list[_Use]) -> list[Line]:
    slots = place_columns(USER_COLUMNS, NAME_CELLS, min(width - 1, 60))
    by_user: dict[str, list[_Use]] = {}
    for use in uses:
        by_user.setdefault(use.user.user, []).append(use)
    out = [head(width, "users of GPUs", slots)]
    for name, own_uses in sorted(by_user.items(), key=lambda item: (-_memory(item[1]), item[0])):
        numbers = number_runs({use.gpu for use in own_uses})
        texts = {
            "gpus": numbers,
            "mem": _memory_text(own_uses),
            "count": str(len({use.user.process.pid for use in own_uses})),
        }
        label = "not visible from here" if name == UNKNOWN else name
        figures = [slot.cell(texts[slot.column.id]) for slot in slots]
        out.append(place(width, Cell(1, cut(label, NAME_CELLS - 2)), *figures))
    return out


def _memory(uses: list[_Use]) -> int:
    return sum(use.user.process.memory_bytes or 0 for use in uses)


def _memory_text(uses: list[_Use]) -> str:
    all_known = all(use.user.process.memory_bytes is not None for use in uses)
    return size(_memory(uses)) if all_known else UNKNOWN


def _processes(width: int, uses: list[_Use], height: int) -> list[Line]:
    if height < 2:
        return []
    slots = process_slots(_COLUMNS, width)
    out = [head(width, "processes on GPUs", slots)]
    uses = sorted(uses, key=lambda use: (-(use.user.process.memory_bytes or 0), use.gpu, use.user.process.pid))
    fit = height - 1 if len(uses) <= height - 1 else height - 2
    out += [process_row(width, slots, user, gpu=str(number)) for number, user in uses[: max(0, fit)]]
    if len(uses) > fit:
        out.append(row(width, [Span(f" {len(uses) - max(0, fit)} more", "dim")]))
    return out[:height]
