"""One block device over the whole screen: is it slow, curves, how awaits spread, its rows, facts, mounts, processes."""

from __future__ import annotations

from textwrap import wrap

from iotop_ai.diagnosis.thresholds import LIMITS
from iotop_ai.model.frame import Frame
from iotop_ai.present import devices
from iotop_ai.present.block import device_rows
from iotop_ai.present.columns import rule
from iotop_ai.present.device_facts import ceilings, fullness, mount_rows, settings
from iotop_ai.present.device_figures import ALONE, JOBS, Recent, recent, shown_device, slowness, tie
from iotop_ai.present.device_graphs import device_graph_rows
from iotop_ai.present.device_spread import spread_rows
from iotop_ai.present.devices import Device
from iotop_ai.present.fields import field_rows
from iotop_ai.present.health import health, temperature
from iotop_ai.present.keys import above_rows, mode_spans
from iotop_ai.present.line import Line, Span, blank, row
from iotop_ai.present.process import process_rows
from iotop_ai.present.units import capacity, figure, percent
from iotop_ai.present.view import View

KEYS = (
    ("Esc", "back"),
    ("b/n", "disk"),
    ("h", "health"),
    ("Space", "pause"),
    ("+ -", "interval"),
    ("[ ]", "time"),
    ("?", "help"),
    ("q", "quit"),
)
"""Every one of them works on this screen."""
TALL = 40
_BLOCK = 9
_MOST_ROWS = 6


def device_screen_rows(frame: Frame, view: View, width: int, height: int, name: str) -> list[Line]:
    """Exactly ``height`` lines of ``width`` columns."""
    device = shown_device(frame, view, name)
    if device is None:
        out = [rule(width, "disk"), row(width, [Span(" none here", "dim")])]
    else:
        plain = view._replace(device=device.name, focus="", cursor="", scroll=0, tree=False)
        out = _body(frame, plain, width, height - 1, device)
    return above_rows(out, KEYS, view, width, height)


def _body(frame: Frame, view: View, width: int, height: int, device: Device) -> list[Line]:
    """Rows in the order of what answers "is this disk slow": the first lose nothing when the screen is short."""
    tall, roomy = height >= TALL, height >= 29
    known = recent(frame, device)
    top = _top(frame, view, width, device, known)
    table = device_rows(frame, view, width, "now", _stack(frame, view, device)[: _MOST_ROWS if roomy else 2])
    spread = spread_rows(frame, device.key, width, 3 if tall else 0)
    facts = settings(frame, device)
    if roomy:
        rest = [
            field_rows(ceilings(frame, view, device), width),
            mount_rows(frame, device, width, 4),
            field_rows(facts, width),
        ]
    else:
        # A row each: what it can do, then how full its filesystems are and as much of its queue as fits.
        short = [*fullness(frame, device), *facts]
        rest = [field_rows(ceilings(frame, view, device), width)[:1], [], field_rows(short, width)[:1]]
    gaps = 5 if tall else 0
    left = height - len(top) - len(table) - gaps - (4 if height >= 20 else 0)
    kept: list[list[Line]] = []
    for part, curves in ((spread, 4), *((one, 7) for one in rest)):
        # Curves of the awaits go before all this, those of rates and queue before what rarely changes.
        fits = left - len(part) >= curves
        kept.append(part if fits else [])
        left -= len(part) if fits else 0
    spread, seen, mounts, fields = kept
    graphs = device_graph_rows(frame, view, device.key, width, max(0, min(left, 13)), _hot(known))
    out: list[Line] = []
    for block in (top, graphs, spread, [*table, *seen, *fields], mounts):
        out += block
        if tall and block:
            out.append(blank(width))
    return out + _processes(frame, view, width, height - len(out), device)


def _hot(known: Recent) -> float | None:
    """The read await from which it is slow; None where the time of a read does not tell."""
    if known.facts is None:
        return None
    return LIMITS.disk_await_ms if known.facts.serial else LIMITS.inflation_slow * known.facts.normal_ms


def _top(frame: Frame, view: View, width: int, device: Device, known: Recent) -> list[Line]:
    """Its state with who it is, what that is taken from, its health."""
    word, hue = _state(frame, device, known)
    info = device.info
    names = [d.name for d in devices.listed(frame, view)]
    home = device.name if device.name in names else devices.home_of(device.name, frame)
    place_of = f"{names.index(home) + 1} of {len(names)}  b/n " if home in names else "b/n "
    left = [Span(f" {word}".ljust(_BLOCK), f"block-{hue}"), Span(f" {devices.title_of(device, frame)}", "strong")]
    if info is not None:
        if info.detail:
            left.append(Span(f"  {info.detail}"))
        rest = [info.model, capacity(info.size_bytes) if info.size_bytes else "", info.serial and f"sn {info.serial}"]
        left.append(Span("".join(f"  {one}" for one in rest if one), "dim"))
    out = [row(width, left, [*mode_spans(view), Span(place_of, "dim")])]
    text = _because(device, known)
    for i, line in enumerate(wrap(text, max(20, width - _BLOCK - 2))):
        label = " because" if i == 0 else ""
        # The block is the red of these rows: what it stands for is strong.
        token = "strong" if hue in ("bad", "warn") else "text"
        out.append(row(width, [Span(label.ljust(_BLOCK + 1), "dim"), Span(line, token)]))
    said, degrees = health(frame, device.name), temperature(frame, device.name)
    spans = [Span(" health".ljust(_BLOCK + 1), "dim"), Span(said.word, said.token)]
    if said.reason:
        spans.append(Span(f"  {said.reason}", "dim"))
    end = [] if degrees is None else [Span("temp ", "dim"), Span(f"{degrees:.0f}"), Span(" C ", "dim")]
    return [*out, row(width, spans, end)]


def _state(frame: Frame, device: Device, known: Recent) -> tuple[str, str]:
    """(the word of the block, its hue)."""
    said = health(frame, device.name)
    if said.token == "bad":
        return said.word.upper(), "bad"
    if known.facts is None or device.rates.reads_per_s is None:
        return "UNSURE", "unsure"
    slow = slowness(known.facts)
    if slow or device.guilty:
        return "SLOW", "bad" if slow == 2 or device.guilty else "warn"
    if said.token == "warn":
        return said.word.upper(), "warn"
    return ("OK", "ok") if device.busy else ("IDLE", "dim")


def _because(device: Device, known: Recent) -> str:
    """The reads against what is normal, over the window that the verdict looks at."""
    facts = known.facts
    if facts is None:
        return "nothing is known of it yet" if device.info is not None else "nobody has said what it is"
    when = f"in {known.seconds:.0f} s"
    if facts.read_await_ms is None or not facts.reads_per_s:
        text = f"nothing was read {when}"
        if facts.await_ms is not None:
            took = f"{figure(facts.await_ms)} ms" if facts.await_ms else "less than 0.1 ms"
            text += f", a write took {took}"
    else:
        much = facts.read_await_ms / facts.normal_ms
        against = "within the normal" if much <= 1 else f"{figure(much)} x the normal"
        text = f"a read took {figure(facts.read_await_ms) if facts.read_await_ms else '<0.1'} ms {when}, "
        text += f"{against} {figure(facts.normal_ms)} ms of {'this disk' if known.learned else 'its kind'}"
    if facts.serial:
        text += f"; it seeks, so {percent(facts.busy_ratio)} %util tells its load"
    return text


def _stack(frame: Frame, view: View, device: Device) -> list[tuple[Device, bool]]:
    """The device, what folds under it, and, of what folds itself, the one above."""
    inner = devices.nested(device.name, frame, view)
    home = devices.home_of(device.name, frame)
    above = [d for d in devices.everything(frame, view) if d.name == home and home != device.name]
    return [*((d, False) for d in above), (device, bool(above)), *((d, True) for d in inner)]


def _processes(frame: Frame, view: View, width: int, height: int, device: Device) -> list[Line]:
    """Who moves bytes, with a word on how far they can be tied to this device."""
    if height < 3:
        return []
    how, job = tie(frame, view, device)
    if how == ALONE:
        said = "no other disk moved a byte: what these read from and wrote to disks was here"
    elif how == JOBS:
        said = f"the files of {job} lie here; of others the disk is not told"
    else:
        said = "which of them use this disk is not told: the busiest of all"
    # On a short screen the two busiest go before the footer.
    more = 1 if height <= 4 else 0
    lines = process_rows(frame, view._replace(only_active=True), width, height - 1 + more)[: height - 1]
    return [*lines[:1], row(width, [Span(f" {said}", "dim")]), *lines[1:]]
