"""The sentences about a GPU, its faults, and its context: idle time, main process, and jobs on the other GPUs."""

from __future__ import annotations

from iotop_ai.model.frame import Frame
from iotop_ai.model.gpu.detail import GpuDetail
from iotop_ai.present.gpu.groups import Gpu, gpus
from iotop_ai.present.gpu.meaning import FAULTS, IDLE, GpuContext, Meaning, health, meanings
from iotop_ai.present.gpu.users import gpu_users, owner_text
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.frame_cache import cache_part, cached_per_frame
from iotop_ai.present.text.panel import reason_spans


def detail_of(frame: Frame, uuid: str) -> GpuDetail | None:
    """The GPU's figures that are read rarely, such as its memory errors; None when unknown."""
    reading = (frame.snapshot.gpu_slow.value or {}).get(uuid)
    return None if reading is None else reading.value


def gpu_sentences(frame: Frame, view: View, gpu: Gpu) -> list[Meaning]:
    """All sentences about one GPU, the most severe first; if the GPU cannot be read, only the reason."""
    if gpu.state is None:
        reading = gpu.reading
        text = "".join(span.text for span in reason_spans(reading._replace(remedy="")))
        return [Meaning("unread", text, "bad", "" if view.mode == "replay" else reading.remedy)]
    return meanings(gpu.state, gpu.rates, detail_of(frame, gpu.uuid), gpu_context(frame, view, gpu))


_Fault = tuple[GpuDetail | None, tuple[int | None, int | None], str]
"""(the GPU's detail, (its last Xid, its recovery action), the text of the fault that these show, "" for none)."""


def _fault_cache() -> dict[str, _Fault]:
    """An empty cache of the faults by UUID."""
    return {}


@cached_per_frame
def gpu_faults(frame: Frame, view: View) -> dict[str, str]:
    """The first fault that ``health`` finds on each GPU that answers, by UUID: "1 of 18 NVLinks down". GPUs without a
    fault are left out.
    """
    fault_cache = cache_part(view, _fault_cache)  # every Frame needs the faults, but they rarely change
    out: dict[str, str] = {}
    for gpu in gpus(frame, view):
        if gpu.state is None:
            continue
        detail, figures = detail_of(frame, gpu.uuid), (gpu.state.last_xid, gpu.state.recovery)
        cached = fault_cache.get(gpu.uuid)
        if cached is None or cached[0] is not detail or cached[1] != figures:
            sentences = health(gpu.state, detail)
            text = next((s.text for s in sentences if s.token == "bad" and s.id in FAULTS), "")
            cached = fault_cache[gpu.uuid] = detail, figures, text
        if cached[2]:
            out[gpu.uuid] = cached[2]
    return out


def gpu_context(frame: Frame, view: View, gpu: Gpu) -> GpuContext:
    """The facts that the sentences about a GPU need besides the GPU's own figures."""
    jobs = _job_of_each_gpu(frame, view)
    own_job = next((job for uuid, job in jobs if uuid == gpu.uuid), "")
    other_jobs = [job for uuid, job in jobs if uuid != gpu.uuid and job]
    names = sorted(set(other_jobs))
    text = ""
    if names and not own_job:
        gpus_text = f"{len(other_jobs)} of {len(jobs)} GPUs"
        text = f"{names[0]} uses {gpus_text}" if len(names) == 1 else f"{len(names)} jobs use {gpus_text}"
    return GpuContext(
        used_gpus=sum(1 for _, job in jobs if job),
        idle_s=idle_seconds(frame, view, gpu.uuid),
        owner="" if gpu.state is None else owner_text(frame, view, gpu.state),
        others=text,
    )


def idle_seconds(frame: Frame, view: View, uuid: str) -> float | None:
    """The seconds for which the GPU's utilisation has been below 5 %, as far back as the samples reach; None when the
    GPU is busy or its utilisation is unknown.
    """
    since: int | None = None
    for sample in reversed((*view.past, *frame.history)):
        rates = (sample.gpu.value or {}).get(uuid)
        if rates is None or rates.busy_ratio is None or rates.busy_ratio >= IDLE:
            break
        since = sample.at_ns
    return None if since is None else (frame.sample.at_ns - since) / 1e9


@cached_per_frame
def _job_of_each_gpu(frame: Frame, view: View) -> tuple[tuple[str, str], ...]:
    """(UUID, job) of each GPU. job: the job of the compute process with the most memory; if it has no job, its user and
    name; "" without a compute process.
    """
    out = []
    for gpu in gpus(frame, view):
        processes = () if gpu.state is None else gpu_users(frame, view, gpu.state) or ()
        main_user = next((user for user in processes if user.process.kind != "graphics"), None)
        out.append((gpu.uuid, "" if main_user is None else main_user.job or f"{main_user.user} {main_user.name}"))
    return tuple(out)
