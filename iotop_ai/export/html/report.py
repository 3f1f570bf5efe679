"""A Story as one HTML file: the verdict and its cost, then the shares of time, then the details."""

from __future__ import annotations

from iotop_ai.export.html.axes import TimeAxis
from iotop_ai.export.html.charts import (
    Line,
    gap_boxes,
    heat_map,
    line_chart,
    share_bar,
    share_chart,
    state_strip,
    time_marks,
)
from iotop_ai.export.html.markup import Markup, tag
from iotop_ai.export.html.page import page
from iotop_ai.export.html.parts import (
    BigFigure,
    figures,
    finding_article,
    key,
    label_lines,
    section,
    table,
    verdict_head,
)
from iotop_ai.export.report import tables, words
from iotop_ai.export.report.money import Price, gpu_time
from iotop_ai.export.report.series import Curve
from iotop_ai.export.report.story import DeviceStory, JobStory, Story
from iotop_ai.export.report.tables import detailed_jobs, key_device, listed_devices, share_table
from iotop_ai.model.job.time_shares import SHARES, shares_of
from iotop_ai.model.snapshot import CLOCK_SET_BACK, COMMAND_END, COMMAND_START
from iotop_ai.playback.timeline_reader import ALERT, MARK, TROUBLE
from iotop_ai.present.job.time_words import Part
from iotop_ai.present.text import units
from iotop_ai.present.text.states import HUE
from iotop_ai.present.text.units import MIB, amount, clock, percent, plural

MOST_MARKS = 80
"""The most events that are marked on a chart."""
MOST_ROWS = 24
"""The most disks in the heat map, and the most findings."""
_MARKED_EVENTS = frozenset((MARK, ALERT, COMMAND_START, COMMAND_END, "drop_caches", CLOCK_SET_BACK)) | TROUBLE


def render_report_html(story: Story, price: Price | None = None) -> str:
    """The text of the HTML file."""
    axis = TimeAxis(story.begin_ns, story.end_ns)
    return page(
        f"iotop-ai report: {words.title(story)}",
        _head(story, price),
        *(_job_section(story, job, axis, price) for job in detailed_jobs(story)),
        _time_section(story, axis),
        _heat_section(story, axis),
        _findings(story),
        *(table(content) for content in _tables(story, price)),
        tag("footer", f"Made by iotop-ai from {story.file}. The page is self-contained: open it anywhere."),
    )


def _head(story: Story, price: Price | None) -> Markup:
    state, hue = words.state_word(story), "unsure"
    lines: list[tuple[str, str]] = []
    if story.primary is not None:
        hue = HUE[story.primary.finding.state]
        lines = [(label, text) for label, text in words.finding_lines(story.primary) if label in ("because", "do")]
    if sentence := words.gpu_sentence(story, price):
        lines.append(("cost", sentence))
    when = clock(story.begin_ns, pattern="%Y-%m-%d %H:%M:%S")
    origin = tag(
        "div",
        tag("span", f"{story.machine.host.name}, {when}, {words.length(story)}"),
        tag("span", f"iotop-ai report of {story.file}"),
        class_="from",
    )
    return tag(
        "header",
        origin,
        verdict_head(state, hue, words.headline(story)),
        label_lines(lines),
        _big_figures(story, price),
    )


def _big_figures(story: Story, price: Price | None) -> Markup:
    """The shares of time, the cost, the steps and, if the shares are unknown, the bytes read.

    Computing is green if it takes 80 % or more; waiting for data is yellow at 5 % or more, and red at 20 % or more.
    """
    big: list[BigFigure] = []
    main = story.main_job
    shares = None if main is None else shares_of(main.counts)
    if shares is not None:
        hue = "ok" if shares.goodput >= 0.8 else ""
        big.append(BigFigure(f"{percent(shares.goodput)} %", "of the time computed", hue))
        hue = "bad" if shares.data >= 0.2 else "warn" if shares.data >= 0.05 else ""
        big.append(BigFigure(f"{percent(shares.data)} %", "waited for data", hue))
    hours = gpu_time(story.jobs)
    if hours is not None:
        lost = units.gpu_time(hours.lost).removesuffix(" of GPU time").removesuffix(" GPU-hours")
        big.append(BigFigure(lost, f"of {units.gpu_time(hours.used)} lost"))
        if price is not None:
            big.append(BigFigure(price.text(hours.lost), f"of {price.text(hours.used)} lost"))
    if story.steps is not None and story.steps.per_s is not None:
        big.append(BigFigure(words.step_rate(story.steps.per_s), f"steps/s, {words.step_count(story.steps.steps)}"))
    disks = [device for device in story.devices if device.info is None or device.info.kind == "disk"]
    read_bytes = sum(disk.read_bytes or 0.0 for disk in disks)
    if shares is None and read_bytes:
        big.append(BigFigure(amount(read_bytes), "read from disks"))
    return figures(big)


def _job_section(story: Story, job: JobStory, axis: TimeAxis, price: Price | None) -> Markup:
    shares = {name: job.shares[name] for name in SHARES if name in job.shares}
    names = {name: Part(name, 0.0, "").short_name for name in SHARES}
    parts = [share_bar(job.counts)]
    if shares:
        parts += [tag("h3", "Over time"), share_chart(axis, shares, names), key([(f"s-{n}", names[n]) for n in shares])]
    parts.append(table(share_table(job, price)._replace(title="In figures"), "h3"))
    numbers = ((job.ranks, "rank"), (job.workers, "worker"), (job.gpus, "GPU"))
    facts = [plural(number, name) for number, name in numbers if number is not None]
    return section(
        f"Where the time of {job.name} went",
        *parts,
        small=", ".join(filter(None, (f"pid {job.pid}", job.label, *facts))),
    )


def _marks(story: Story, axis: TimeAxis, height: float) -> list[Markup]:
    """The marks of events and gaps on a chart. Of more than MOST_MARKS events, faults are kept first, then alerts."""
    marked = [event for event in story.events if event.kind in _MARKED_EVENTS]
    kept = sorted(marked, key=lambda event: (event.kind not in TROUBLE, event.kind != ALERT))[:MOST_MARKS]
    marks = [
        (event.wall_ns, f"{clock(event.wall_ns)} {event.kind}: {event.text}", event.kind in TROUBLE)
        for event in sorted(kept, key=lambda event: event.wall_ns)
    ]
    gaps = gap_boxes(axis, [(gap.begin_ns, gap.end_ns) for gap in story.gaps], height)
    return [*gaps, *time_marks(axis, marks, height)]


def _time_section(story: Story, axis: TimeAxis) -> Markup:
    parts: list[Markup] = []
    if story.timeline:
        parts += [tag("h3", "Verdict"), state_strip(axis, story.timeline)]
    device = key_device(story)
    lines = _busy_lines(story, device)
    if lines:
        parts.append(tag("h3", " against ".join(line.name for line in lines)))
        parts.append(line_chart(axis, lines, top=100.0, over=_marks(story, axis, 110)))
    for title, curves in _more_lines(story, device):
        parts += [tag("h3", title), line_chart(axis, curves, height=80, over=_marks(story, axis, 80))]
    return section("Over time", *parts) if parts else Markup("")


def _busy_lines(story: Story, device: DeviceStory | None) -> list[Line]:
    """The curves of the GPUs (without GPUs, the CPUs) and of the main disk in percent, on one axis."""
    lines: list[Line] = []
    for name, title in (("gpu_busy_ratio", "GPUs busy"), ("cpu_busy_ratio", "CPUs busy")):
        if name in story.totals and not lines:
            lines.append(Line(title, story.totals[name], "ok", "%", 100.0, True))
    if device is not None and "busy_ratio" in device.curves:
        lines.append(Line(f"{device.name} busy", device.curves["busy_ratio"], "hot", "%", 100.0))
    return lines


def _more_lines(story: Story, device: DeviceStory | None) -> list[tuple[str, list[Line]]]:
    """The titles and curves of steps, throughput, latency and network.

    Byte rates that are always 0 are left out, and so is the network unless it once carried more than 1 MiB/s in one
    direction.
    """
    out: list[tuple[str, list[Line]]] = []
    if story.steps is not None and story.steps.curve is not None:
        out.append(("Steps", [Line("steps/s", story.steps.curve, "info", "/s", 1.0, True)]))
    if device is not None:
        throughput = _lines(
            device.curves, (("read_bytes_per_s", "read", "graph"), ("write_bytes_per_s", "written", "warn"))
        )
        if throughput:
            out.append((f"Throughput of {device.name}", throughput))
        awaits = [
            Line(title, device.curves[name], hue, "ms")
            for name, title, hue in (("read_await_ms", "r_await", "hot"), ("write_await_ms", "w_await", "warn"))
            if name in device.curves
        ]
        if awaits:
            out.append((f"Latency of {device.name}", awaits))
    network = _lines(story.totals, (("rx_bytes_per_s", "received", "graph"), ("tx_bytes_per_s", "sent", "warn")))
    if network and max(_peak(line.curve) for line in network) > MIB:
        out.append(("Network", network))
    return out


def _lines(curves: dict[str, Curve], wanted: tuple[tuple[str, str, str], ...]) -> list[Line]:
    """The curves of byte rates, except those that are missing or always 0. wanted: (name, title, hue) of each curve."""
    return [
        Line(title, curves[name], hue, "MB/s", 1 / MIB, title in ("read", "received"))
        for name, title, hue in wanted
        if name in curves and _peak(curves[name]) > 0
    ]


def _peak(curve: Curve) -> float:
    return max((value for value in curve.values if value is not None), default=0.0)


def _heat_section(story: Story, axis: TimeAxis) -> Markup:
    rows = [
        (disk.name, disk.curves["busy_ratio"], f"{amount(disk.read_bytes)} read, {amount(disk.written_bytes)} written")
        for disk in listed_devices(story)[:MOST_ROWS]
        if "busy_ratio" in disk.curves
    ]
    if not rows:
        return Markup("")
    return section("I/O over time", heat_map(axis, rows), small="how busy each disk was (%util): the darker the busier")


def _findings(story: Story) -> Markup:
    if not story.findings:
        return Markup("")
    articles = [
        finding_article(finding.finding, finding.sentence, words.finding_lines(finding))
        for finding in story.findings[:MOST_ROWS]
    ]
    return section("Findings", *articles, small="sorted by the time lost while each was the verdict")


def _tables(story: Story, price: Price | None) -> list[tables.ReportTable]:
    """All tables except the tables of shares, which are shown with their jobs."""
    share_titles = {share_table(job, price).title for job in detailed_jobs(story)}
    return [content for content in tables.every_table(story, price) if content.title not in share_titles]
