"""What stands around a GPU: how long it has been idle, who holds it, what the others do."""

from __future__ import annotations

from iotop_ai.model.frame import Frame
from iotop_ai.model.gpu_detail import GpuDetail
from iotop_ai.present.gpu_groups import Gpu, gpus
from iotop_ai.present.gpu_meaning import IDLE, Around, Meaning, meanings
from iotop_ai.present.gpu_people import owner, users
from iotop_ai.present.memo import once_a_frame
from iotop_ai.present.panel import why_not
from iotop_ai.present.view import View


def detail_of(frame: Frame, uuid: str) -> GpuDetail | None:
    """Its slow figures; None while they are unknown."""
    reading = (frame.snapshot.gpu_slow.value or {}).get(uuid)
    return None if reading is None else reading.value


def said(frame: Frame, view: View, gpu: Gpu) -> list[Meaning]:
    """What there is to say about it, the gravest first; why it cannot be read, when it cannot."""
    if gpu.state is None:
        reading = gpu.reading
        text = "".join(span.text for span in why_not(reading._replace(remedy="")))
        return [Meaning("unread", text, "bad", reading.remedy)]
    return meanings(gpu.state, gpu.rates, detail_of(frame, gpu.uuid), around(frame, view, gpu))


def around(frame: Frame, view: View, gpu: Gpu) -> Around:
    """The surroundings of one GPU."""
    others = _jobs(frame, view)
    own = next((job for uuid, job in others if uuid == gpu.uuid), "")
    busy_others = [job for uuid, job in others if uuid != gpu.uuid and job]
    names = sorted(set(busy_others))
    text = ""
    if names and not own:
        used = f"{len(busy_others)} of {len(others)} GPUs"
        text = f"{names[0]} uses {used}" if len(names) == 1 else f"{len(names)} jobs use {used}"
    return Around(
        used=sum(1 for _, job in others if job),
        idle_s=idle_seconds(frame, view, gpu.uuid),
        owner="" if gpu.state is None else owner(frame, view, gpu.state),
        others=text,
    )


def idle_seconds(frame: Frame, view: View, uuid: str) -> float | None:
    """For how long it has been at 0 to 5 %, as far as samples reach; None when it is not, or is unknown."""
    since: int | None = None
    for sample in reversed((*view.past, *frame.history)):
        rates = (sample.gpu.value or {}).get(uuid)
        if rates is None or rates.busy_ratio is None or rates.busy_ratio >= IDLE:
            break
        since = sample.at_ns
    return None if since is None else (frame.sample.at_ns - since) / 1e9


@once_a_frame
def _jobs(frame: Frame, view: View) -> tuple[tuple[str, str], ...]:
    """UUID and the job, else the owner, of who computes on it; "" nobody."""
    out = []
    for gpu in gpus(frame, view):
        listed = (
            [] if gpu.state is None else [u for u in users(frame, view, gpu.state) or () if _computes(u.process.kind)]
        )
        job = ""
        if listed:
            job = listed[0].job or f"{listed[0].user} {listed[0].name}"
        out.append((gpu.uuid, job))
    return tuple(out)


def _computes(kind: str) -> bool:
    return kind != "graphics"
