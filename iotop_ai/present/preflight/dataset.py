"""A dataset in words, and the forecast of how busy its storage can keep a GPU."""

from __future__ import annotations

from iotop_ai.model.preflight.dataset import (
    DATASET,
    LEAST_CACHED,
    MOST_BYTES_PER_FILE,
    Dataset,
    Decoding,
    Demand,
    Forecast,
)
from iotop_ai.model.preflight.report import Report
from iotop_ai.model.preflight.storage import Measured, is_uneven
from iotop_ai.present.text.line import plain
from iotop_ai.present.text.units import UNKNOWN, amount, brief, count, percent, plural, rate, rate_bytes


def speed(bytes_per_s: float | None) -> str:
    """A rate in words: "418 MB/s", "9.4 MB/s", "2.9 GB/s"."""
    if bytes_per_s is not None and bytes_per_s < 9.95 * rate_bytes(2):
        return f"{brief(bytes_per_s / rate_bytes(2))} MB/s"
    return " ".join(rate(bytes_per_s))


def dataset_text(report: Report) -> list[str]:
    """The dataset's files, how much of them is in memory, and how long they take to decode."""
    dataset = report.dataset
    if dataset is None:
        return []
    if not dataset.files:
        return ["? the dataset has no file with content", *_left_out(dataset)]
    least = "" if dataset.complete else "at least "
    sizes = f"10 % up to {amount(dataset.p10_bytes)}, half up to {amount(dataset.p50_bytes)}"
    sizes += f", 90 % up to {amount(dataset.p90_bytes)}, the largest {amount(dataset.most_bytes)}"
    out = [f"dataset: {least}{plural(dataset.files, 'file')}, {amount(dataset.size_bytes)}; {sizes}"]
    share = "unknown to this user" if dataset.resident_ratio is None else f"{percent(dataset.resident_ratio)} %"
    fits = {True: "it fits into", False: "it does not fit into", None: "unknown whether it fits into"}
    room = f"{fits[dataset.fits(report.room_bytes)]} the {amount(report.room_bytes)} of memory left here"
    out.append(f"in the page cache: {share} of {plural(dataset.sampled, 'sampled file')}; {room}")
    out += _left_out(dataset)
    was_read = any(result.name == DATASET for result in report.results)
    if dataset.read_in_part and was_read:
        most = amount(MOST_BYTES_PER_FILE)
        counts = "the table counts such parts, the forecast whole files"
        out.append(f"only the first {most} of larger files are read: {counts}")
    out += [_uneven_text(result, dataset) for result in report.results if is_uneven(result, dataset)]
    if dataset.past:
        verb = "is" if dataset.cold == 1 else "are"
        cause = "its files are in memory, so they"
        if dataset.cold:
            cause = f"only {plural(dataset.cold, 'sampled file')} {verb} not in memory, so the others"
        out.append(f"{cause} were read past the page cache")
    return out + _decoding_text(report.decoding, was_read)


def _uneven_text(read: Measured, dataset: Dataset) -> str:
    sizes = f"{amount(read.mean_file_bytes)}, those of the dataset {amount(dataset.mean_read_bytes)}"
    readers = plural(read.depth, "reader")
    return f"? the files read by {readers} average {sizes}: this row's rates are not those of an epoch"


def _left_out(dataset: Dataset) -> list[str]:
    out = []
    if dataset.unreadable:
        entries = plural(dataset.unreadable, "entry").replace("entrys", "entries")
        out.append(f"{entries} of the dataset could not be read")
    if dataset.elsewhere:
        out.append(f"{plural(dataset.elsewhere, 'folder')} on other filesystems left out")
    if dataset.linked_folders:
        out.append(f"{plural(dataset.linked_folders, 'link')} to folders left out")
    if dataset.holes:
        out.append(f"not read: {plural(dataset.holes, 'sparse file')} in the sample, whose holes need no I/O")
    return out


def _decoding_text(decoding: Decoding, was_read: bool) -> list[str]:
    if decoding.why:
        return [f"? decoding is not measured: {plain(decoding.why)}"] if was_read else []
    if decoding.file_s is None:
        return [f"? none of {decoding.failed} pictures could be decoded"] if decoding.failed else []
    failed = f", {decoding.failed} could not be decoded" if decoding.failed else ""
    return [f"decoding: {brief(1000 * decoding.file_s)} ms of CPU a file ({plain(decoding.decoder)}){failed}"]


def forecast_text(report: Report) -> list[str]:
    """The forecast: "forecast: 8 workers at 240 samples/s need 412 MB/s; this storage gives 96 MB/s: expect 23 % of the
    GPU"; [] if no forecast was asked for.
    """
    demand, forecast = report.demand, report.forecast
    if demand is None:
        return []
    workers = plural(demand.workers, "worker") if demand.workers else "the training process itself"
    needed = speed(demand.samples_per_s * demand.sample_bytes) if demand.sample_bytes else UNKNOWN
    text = f"forecast: {workers} at {count(demand.samples_per_s)} samples/s {_needs(demand)} {needed}"
    if forecast is None:
        return [f"{text}; ? {why_no_forecast(report)}"]
    share = f"{percent(forecast.first)} % of the GPU"
    if forecast.at_least and report.decoding.unmeasured:
        share = f"{UNKNOWN} % of the GPU"
    elif forecast.at_least or report.decoding.unmeasured:
        share = f"at {'least' if forecast.at_least else 'most'} {share}"
    out = [f"{text}; {_supply(demand, forecast)}: expect {share}"]
    if forecast.later is not None and percent(forecast.later) != percent(forecast.first):
        out[0] += f" in the first epoch, then {percent(forecast.later)} % from memory"
    if forecast.most is not None:
        most = f"at most {percent(forecast.most)} %, if all that is cached stays in memory until it is read"
        out.append(f"the dataset does not fit into memory: the forecast counts nothing as cached; {most}")
    elif forecast.at_least:
        out.append("reading from memory was not measured: the forecast counts all files as read from the storage")
    if forecast.workers is not None:
        out.append(f"{plural(forecast.workers, 'worker')} would keep the GPU busy")
    return out


def why_no_forecast(report: Report) -> str:
    """Why a forecast that was asked for is missing."""
    dataset = report.dataset
    if dataset is not None and not dataset.files:
        return "the dataset has no file with content"
    if dataset is not None and any(is_uneven(one, dataset) for one in report.results):
        return "the dataset's file sizes vary too much to tell how fast the storage is"
    return "what the storage gives was not measured"


def _needs(demand: Demand) -> str:
    return "needs" if demand.workers < 2 else "need"


def _supply(demand: Demand, forecast: Forecast) -> str:
    if forecast.bound == "decode":
        cores = min(demand.cores, float(max(1, demand.workers)))
        cores_text = "1 core" if cores == 1 else f"{round(cores, 1):g} cores"
        return f"decoding on {cores_text} gives {count(forecast.samples_per_s)} samples/s"
    source = "this storage gives" if forecast.cached < LEAST_CACHED else "storage and memory give"
    source = "memory gives" if forecast.cached >= 1.0 else source
    return f"{source} {speed(forecast.samples_per_s * demand.sample_bytes)}"
