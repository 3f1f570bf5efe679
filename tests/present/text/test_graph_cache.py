"""A cached graph that moves by one cell equals a newly drawn graph."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from iotop_ai.model.sample import Sample
from iotop_ai.present.text.braille import GAP, Series, SlidingSeries, area, series, series_spans
from iotop_ai.present.text.curve import curve_text
from iotop_ai.present.text.graph_cache import GraphCache
from tests.present.make import Disk, Machine, disk, snapshots
from tests.present.make import frame as make_frame

SDA = disk("sda")
VALUES = st.one_of(st.none(), st.just(0.0), st.floats(0.001, 12))


def samples(count: int) -> tuple[Sample, ...]:
    taken = snapshots(lambda i: Machine(disks=(Disk(SDA, reads=i, read_bytes=i * 4096),)), count)
    return make_frame(taken).history


ALL = samples(40)


def reads(sample: Sample) -> float | None:
    return next((r.reads_per_s for r in (sample.block.value or {}).values()), None)


def plain_area(values: list[float | None], top: float, rows: int) -> list[str]:
    """The graph, drawn dot by dot."""
    high = 4 * rows - 1
    dots = [None if v is None else 0 if v <= 0 else max(1, min(high, round(v / top * high))) for v in values]
    out = []
    for base in range(4 * (rows - 1), -1, -4):
        text = ""
        for left, right in zip(dots[::2], dots[1::2], strict=True):
            bits = 0
            for k, (low, second) in enumerate(((0x40, 0x80), (0x04, 0x20), (0x02, 0x10), (0x01, 0x08))):
                bits |= low * ((left or 0) > base + k) | second * ((right or 0) > base + k)
            gap = GAP if base == 0 else " "
            text += gap if left is None and right is None else chr(0x2800 + bits) if bits else " "
        out.append(text)
    return out


@given(st.lists(VALUES, min_size=10, max_size=40), st.sampled_from([1.0, 10.0]), st.sampled_from([1, 2]))
def test_a_cached_area_equals_a_new_one(values: list[float | None], top: float, rows: int) -> None:
    cache = GraphCache()
    for at in range(len(values) - 8):
        part = values[at : at + 8]
        assert cache.area(part, top, rows) == area(part, top, rows) == plain_area(part, top, rows)


@given(st.lists(VALUES, min_size=10, max_size=40), st.sampled_from([1.0, 10.0]), st.sampled_from([2, 4, 8]))
def test_a_cached_curve_equals_a_new_one(values: list[float | None], top: float, slots: int) -> None:
    cache = GraphCache()
    for at in range(len(values) - 8):
        part = values[at : at + slots]
        assert cache.curve(part, top, 4) == curve_text(part, top, 4)


def test_two_graphs_with_the_same_scale_do_not_mix() -> None:
    cache = GraphCache()
    for i in range(12):
        one, other = [float(i + k) for k in range(8)], [float(i * k % 7) for k in range(8)]
        assert cache.area(one, 20.0) == plain_area(one, 20.0, 1)
        assert cache.area(other, 20.0) == plain_area(other, 20.0, 1)


@given(
    st.lists(VALUES, min_size=2, max_size=30).filter(lambda v: len(v) % 2 == 0),
    st.integers(0, 30),
    st.one_of(st.none(), st.floats(0, 12)),
)
def test_each_cell_has_the_colour_of_its_two_values(
    values: list[float | None], known: int, limit: float | None
) -> None:
    known = min(known, len(values))
    first = len(values) - known
    data = Series((*[None] * first, *values[first:]), known)
    found = [
        (c, span.token)
        for span in series_spans("".join(map(chr, range(65, 65 + len(values) // 2))), data, limit)
        for c in span.text
    ]
    for i, (char, token) in enumerate(found):
        pair = [v for v in data.values[2 * i : 2 * i + 2] if v is not None]
        hot = limit is not None and any(v > limit for v in pair)
        want = ("faint" if 2 * i + 1 < first else "dim") if not pair else "hot" if hot else "graph"
        assert (char, token) == (chr(65 + i), want)
    assert len(found) == len(values) // 2


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12), st.sampled_from([6, 12, 30]), st.integers(12, 40))
def test_series_that_slide_equal_new_ones(steps: list[int], slots: int, kept: int) -> None:
    sliding, end = SlidingSeries(), 6
    for step in steps:
        end = min(len(ALL), end + step)
        # A Sample that is too old for the history is replaced by another object.
        part = tuple(s._replace() if i % 3 == 0 else s for i, s in enumerate(ALL[max(0, end - kept) : end]))
        assert sliding.series((), part, reads, slots, 1.0) == series(part, reads, slots, 1.0)


def test_each_second_only_one_sample_is_read() -> None:
    asked: list[Sample] = []

    def value(sample: Sample) -> float | None:
        asked.append(sample)
        return reads(sample)

    sliding = SlidingSeries()
    sliding.series((), ALL[:30], value, 20, 1.0)
    asked.clear()
    sliding.series((), ALL[:31], value, 20, 1.0)
    assert asked == [ALL[30]]


def test_another_key_or_interval_starts_a_new_series() -> None:
    sliding = SlidingSeries()
    sliding.series(("sda",), ALL[:20], reads, 10, 1.0)
    assert sliding.series(("sdb",), ALL[:21], lambda _: 5.0, 10, 1.0).values == (5.0,) * 10
    assert sliding.series(("sdb",), ALL[:22], reads, 10, 2.0) == series(ALL[:22], reads, 10, 2.0)


def test_the_cache_does_not_grow() -> None:
    cache = GraphCache()
    for i in range(200):
        cache.area([float(i), 1.0], float(i + 1))
    assert len(cache.newest) <= 20
