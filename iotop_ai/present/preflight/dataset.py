"""A dataset in words, and the forecast of how busy its storage can keep a GPU."""

from __future__ import annotations

from iotop_ai.model.preflight.dataset import DATASET, MOST_OF_A_FILE, Dataset, Decoding, Demand, Forecast
from iotop_ai.model.preflight.report import Report
from iotop_ai.present.text.line import plain
from iotop_ai.present.text.units import UNKNOWN, amount, brief, count, percent, plural, rate, rate_bytes


def speed(bytes_per_s: float | None) -> str:
    """A rate in words: "418 MB/s", "9.4 MB/s", "2.9 GB/s"."""
    if bytes_per_s is not None and bytes_per_s < 9.95 * rate_bytes(2):
        return f"{brief(bytes_per_s / rate_bytes(2))} MB/s"
    return " ".join(rate(bytes_per_s))


def dataset_text(report: Report) -> list[str]:
    """The dataset's files, how much of them is in memory, and how long they take to decode."""
    found = report.dataset
    if found is None:
        return []
    if not found.files:
        return ["? the dataset has no file with content", *_left_out(found)]
    least = "" if found.complete else "at least "
    sizes = f"10 % up to {amount(found.p10_bytes)}, half up to {amount(found.p50_bytes)}"
    sizes += f", 90 % up to {amount(found.p90_bytes)}, the largest {amount(found.most_bytes)}"
    out = [f"dataset: {least}{plural(found.files, 'file')}, {amount(found.size_bytes)}; {sizes}"]
    share = "unknown to this user" if found.resident_ratio is None else f"{percent(found.resident_ratio)} %"
    fits = {True: "it fits into", False: "it does not fit into", None: "unknown whether it fits into"}
    room = f"{fits[found.fits(report.room_bytes)]} the {amount(report.room_bytes)} of memory left here"
    out.append(f"in the page cache: {share} of {plural(found.sampled, 'sampled file')}; {room}")
    out += _left_out(found)
    if found.read_in_part and any(one.name == DATASET for one in report.results):
        most = amount(MOST_OF_A_FILE)
        out.append(f"of larger files, the first {most} are read: their rows count parts, the forecast whole files")
    if found.past:
        verb = "is" if found.cold == 1 else "are"
        few = f"only {plural(found.cold, 'sampled file')} {verb} not in memory, so the others" if found.cold else ""
        out.append(f"{few or 'its files are in memory, so they'} were read past the page cache")
    return out + _decoding_text(report.decoding, any(one.name == DATASET for one in report.results))


def _left_out(found: Dataset) -> list[str]:
    out = []
    if found.unreadable:
        out.append(f"{plural(found.unreadable, 'entry')} of the dataset could not be read".replace("entrys", "entries"))
    if found.elsewhere:
        out.append(f"{plural(found.elsewhere, 'folder')} on other filesystems left out")
    if found.linked_folders:
        out.append(f"{plural(found.linked_folders, 'link')} to folders left out")
    if found.holes:
        out.append(f"not read: {plural(found.holes, 'sampled file')} with holes, which cost no reading")
    return out


def _decoding_text(decoding: Decoding, read: bool) -> list[str]:
    if decoding.why:
        return [f"? decoding is not measured: {plain(decoding.why)}"] if read else []
    if decoding.file_s is None:
        return [f"? none of {decoding.failed} pictures could be decoded"] if decoding.failed else []
    failed = f", {decoding.failed} could not be decoded" if decoding.failed else ""
    return [f"decoding: {brief(1000 * decoding.file_s)} ms of CPU a file ({plain(decoding.decoder)}){failed}"]


def forecast_text(report: Report) -> list[str]:
    """The forecast: "forecast: 8 workers at 240 samples/s need 412 MB/s; this storage gives 96 MB/s: expect 23 % of the
    GPU"; [] if no forecast was asked for.
    """
    demand, found = report.demand, report.forecast
    if demand is None:
        return []
    workers = plural(demand.workers, "worker") if demand.workers else "the training process itself"
    needed = speed(demand.samples_per_s * demand.sample_bytes) if demand.sample_bytes else UNKNOWN
    text = f"forecast: {workers} at {count(demand.samples_per_s)} samples/s {_needs(demand)} {needed}"
    if found is None:
        return [f"{text}; ? what the storage gives was not measured"]
    most = "at most " if report.decoding.unmeasured else ""
    out = [f"{text}; {_given(demand, found)}: expect {most}{percent(found.first)} % of the GPU"]
    if found.later is not None and percent(found.later) != percent(found.first):
        out[0] += f" in the first epoch, then {percent(found.later)} % from memory"
    if found.workers is not None:
        out.append(f"{plural(found.workers, 'worker')} would keep the GPU busy")
    return out


def _needs(demand: Demand) -> str:
    return "needs" if demand.workers < 2 else "need"


def _given(demand: Demand, found: Forecast) -> str:
    if found.bound == "decode":
        cores = min(demand.cores, float(max(1, demand.workers)))
        on = "1 core" if cores == 1 else f"{round(cores, 1):g} cores"
        return f"decoding on {on} gives {count(found.samples_per_s)} samples/s"
    if found.samples_per_s == float("inf"):
        return "all of it is in memory"
    return f"this storage gives {speed(found.samples_per_s * demand.sample_bytes)}"
