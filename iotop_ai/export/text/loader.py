"""A sweep of a data loader as text: a table, the curve over workers, the recommendation, and what failed.

A sweep runs the loader in several configurations, one after another.
"""

from __future__ import annotations

from iotop_ai.export.text.charts import chart
from iotop_ai.export.text.table import UNDEFINED, number, table
from iotop_ai.model.errors import UnknownError
from iotop_ai.model.preflight.loader.report import Report
from iotop_ai.model.preflight.loader.run import Configuration, Run, curve
from iotop_ai.model.preflight.report import NO_ANSWER
from iotop_ai.present.preflight.loader import failure_lines, findings_text
from iotop_ai.present.text.units import amount, percent, size

_HEIGHT = 10
_LEAST_POINTS = 3
"""_HEIGHT: the rows of the chart. _LEAST_POINTS: the fewest points of a curve that is drawn."""


def loader_text(report: Report, width: int, ascii_only: bool = False) -> str:
    """The sweep as text, without a final newline; if no run gave an answer, its first lines and the first failure."""
    kind = next((run.built.kind for run in report.runs if run.built), "")
    lines = [f"{report.target}{f' ({kind})' if kind else ''}, by {report.python}"]
    if report.cold:
        lines.append(f"{report.cold} is evicted from the page cache before each run")
    failure = next((run.failure for run in report.runs if run.failure), None)
    if failure and report.exit_code == NO_ANSWER:
        return "\n".join([*lines, failure.text])
    settings = _setting_columns(report.runs)
    titles = (*settings, "samples/s", "first s", "CPU/worker", "disk-wait", "read", "memory", "shm", "")
    lines += ["", *table(titles, [_row(run, settings) for run in report.runs])]
    if curve_text := workers_curve(report, width, ascii_only):
        lines += ["", curve_text]
    failed = [line for run in report.runs for line in failure_lines(run)]
    return "\n".join([*lines, "", *failed, *findings_text(report)])


def _setting_columns(runs: tuple[Run, ...]) -> tuple[str, ...]:
    """The settings that get a column: workers, and the settings that differ between the configurations."""
    names = ("batch_size", "prefetch", "interleave", "start")
    differing = [name for name in names if len({getattr(run.configuration, name) for run in runs}) > 1]
    return ("workers", *(name.replace("_size", "") for name in differing))


def _cell(configuration: Configuration, name: str) -> str:
    value = getattr(configuration, {"batch": "batch_size"}.get(name, name))
    return UNDEFINED if value in (None, "") else str(value)


def _row(run: Run, settings: tuple[str, ...]) -> tuple[str, ...]:
    steady, used = run.steady, run.used
    cells = tuple(_cell(run.configuration, name) for name in settings)
    if steady is None:
        return (*cells, *[UNDEFINED] * 7, f"FAILED: {run.failure.kind if run.failure else ''}")
    rate, workers = run.samples_per_s, max(run.configuration.workers, 1)
    cpu = None if used.worker_cores is None else used.worker_cores / workers
    if run.built is not None and run.built.kind == "tensorflow":
        cpu = used.main_cores  # tf.data reads in threads of the main process
    return (
        *cells,
        number(rate, 0 if rate >= 100 else 1),
        number(steady.first_batch_s, 2),
        f"{percent(cpu)}%",
        f"{percent(used.blocked_ratio)}%",
        size(used.storage_bytes),
        size(used.memory_bytes),
        size(used.shm_bytes),
        "" if used.growth_bytes is None else f"+{amount(used.growth_bytes)} a batch",
    )


def workers_curve(report: Report, width: int, ascii_only: bool = False) -> str:
    """The curve of samples per second over the number of workers, with the recommended values of all other settings.

    "" without a recommendation, with fewer than three points, or if no chart can be drawn.
    """
    if report.choice is None:
        return ""
    runs = curve(report.runs, report.choice.run.configuration)
    if len(runs) < _LEAST_POINTS:
        return ""
    points = [(float(run.configuration.workers), run.samples_per_s) for run in runs]
    labels = [str(run.configuration.workers) for run in runs]
    try:
        return chart("samples per second, by workers", points, width, _HEIGHT, ascii_only, labels)
    except UnknownError:
        return ""
