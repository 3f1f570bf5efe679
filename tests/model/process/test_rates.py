from hypothesis import given, settings
from hypothesis import strategies as st

from iotop_ai.model.process.inherited_io import settle
from iotop_ai.model.process.rates import process_rates
from iotop_ai.model.process.records import (
    Debt,
    ProcessIo,
    ProcessKey,
    ProcessRates,
    ProcessSample,
    ProcessStat,
    ProcessTable,
    ThreadLook,
)
from iotop_ai.model.reading import Rated, Reading, Status
from tests.examples import quick_or

S = 10**9
A, B, C = ProcessKey(10, 100), ProcessKey(11, 200), ProcessKey(12, 300)
ZERO = ProcessIo(0, 0, 0, 0, 0, 0, 0)


def io(amount: int, cancelled: int = 0) -> ProcessIo:
    return ProcessIo(2 * amount, 3 * amount, amount // 10, amount // 5, amount, 2 * amount, cancelled)


def stat(state: str = "S", ppid: int = 1, **fields: int) -> ProcessStat:
    return ProcessStat(state, ppid, 100, 0, 0, 0, 0, 1, 1, 0)._replace(**fields)


def table(at_s: int, io_: dict, stat_: dict, **fields: object) -> ProcessTable:
    at = at_s * S
    made = ProcessTable(io_, stat_, {}, frozenset(), at, at, (at,) * 5, {}, {}, {}, {}, delayacct=True)
    return made._replace(**fields)


def reading(value: ProcessTable) -> Reading[ProcessTable]:
    return Reading(value, Status.OK, at_ns=value.io_at_ns)


def rates_of(*tables: ProcessTable) -> Rated:
    before, last = None, None
    for value in tables:
        after = reading(value)
        last = process_rates(before, after, last)
        before = after
    return last


def test_the_first_table_gives_no_rate() -> None:
    rated = rates_of(table(1, {A: io(1000)}, {A: stat()}))
    assert (dict(rated.value.rates), rated.seconds, rated.renewed) == ({}, None, True)


def test_rates_of_one_process_are_computed() -> None:
    before = table(1, {A: io(1000, 5)}, {A: stat(utime_ticks=10)})
    after = table(3, {A: io(3000, 25)}, {A: stat(utime_ticks=60, stime_ticks=50, majflt=4, blkio_ticks=150)})
    rated = rates_of(before, after)
    assert rated.seconds == 2.0
    assert rated.value.rates[A] == ProcessRates(
        read_bytes_per_s=1000.0,
        write_bytes_per_s=2000.0,
        cancelled_bytes_per_s=10.0,
        rchar_bytes_per_s=2000.0,
        wchar_bytes_per_s=3000.0,
        read_calls_per_s=100.0,
        write_calls_per_s=200.0,
        cpu_ratio=0.5,
        io_delay_ratio=0.75,
        major_faults_per_s=2.0,
        io_s=2.0,
        stat_s=2.0,
    )


def test_an_idle_process_is_not_listed_and_one_in_state_d_is() -> None:
    before = table(1, {A: io(5), B: io(5)}, {A: stat(), B: stat()})
    after = table(2, {A: io(5), B: io(5)}, {A: stat(), B: stat("D")})
    rated = rates_of(before, after)
    assert list(rated.value.rates) == [B]
    assert rated.value.rates[B].read_bytes_per_s == 0.0


def test_a_new_process_starts_at_zero() -> None:
    before = table(1, {A: io(5)}, {A: stat()})
    after = table(3, {A: io(5), B: io(1000)}, {A: stat(), B: stat(utime_ticks=20)})
    rate = rates_of(before, after).value.rates[B]
    assert (rate.read_bytes_per_s, rate.write_bytes_per_s, rate.cpu_ratio) == (500.0, 1000.0, 0.1)


def test_after_an_incomplete_table_a_new_process_is_unknown() -> None:
    before = table(1, {A: io(5)}, {A: stat()}, complete=False)
    after = table(3, {A: io(5), B: io(1000)}, {A: stat(), B: stat(utime_ticks=20)}, complete=False)
    rate = rates_of(before, after).value.rates[B]
    assert (rate.read_bytes_per_s, rate.cpu_ratio) == (None, None)


def test_a_process_that_cannot_be_read_has_no_io_rate_and_is_listed_if_it_computes() -> None:
    denied = frozenset({A, B})
    before = table(1, {}, {A: stat(), B: stat()}, denied=denied)
    after = table(2, {}, {A: stat(utime_ticks=100), B: stat()}, denied=denied)
    rates = rates_of(before, after).value.rates
    assert list(rates) == [A]
    assert (rates[A].read_bytes_per_s, rates[A].cpu_ratio) == (None, 1.0)


def test_a_counter_that_fell_gives_an_unknown_rate() -> None:
    before = table(1, {A: io(5000)}, {A: stat(utime_ticks=50)})
    after = table(2, {A: io(1000)}, {A: stat(utime_ticks=20)})
    rate = rates_of(before, after).value.rates[A]
    assert (rate.read_bytes_per_s, rate.cpu_ratio) == (None, None)


def test_with_equal_times_the_rates_are_repeated() -> None:
    before, after = table(1, {A: io(0)}, {A: stat()}), table(2, {A: io(10)}, {A: stat()})
    rated = rates_of(before, after, after)
    assert rated == rates_of(before, after)._replace(renewed=False)


def test_the_rates_of_a_stat_are_repeated_until_it_is_read_again() -> None:
    first = table(1, {A: io(0)}, {A: stat()})
    second = table(2, {A: io(0)}, {A: stat(utime_ticks=50)})
    third = table(3, {A: io(0)}, second.stat, stat_at=(2 * S,) * 5)
    fourth = table(4, {A: io(0)}, {A: stat(utime_ticks=70)})
    assert rates_of(first, second, third).value.rates[A].cpu_ratio == 0.5
    assert rates_of(first, second, third, fourth).value.rates[A].cpu_ratio == 0.1
    assert rates_of(first, third).value.rates[A].cpu_ratio == 0.5
    own_seconds = [rates_of(*seen).value.rates[A].stat_s for seen in ((first, second), (first, second, third))]
    assert own_seconds == [1.0, 0.0]
    assert rates_of(first, second, third, fourth).value.rates[A].stat_s == 2.0


def test_io_that_is_not_read_again_repeats_its_rate() -> None:
    first, second = table(1, {A: io(0)}, {A: stat()}), table(2, {A: io(10)}, {A: stat()})
    third = table(3, second.io, {A: stat()}, io_stale={A: 2 * S})
    fourth = table(4, {A: io(30)}, {A: stat()})
    assert rates_of(first, second, third).value.rates[A].read_bytes_per_s == 10.0
    assert rates_of(first, second, third, fourth).value.rates[A].read_bytes_per_s == 10.0
    assert rates_of(first, second, third).value.rates[A].io_s == 0.0
    assert rates_of(first, second, third, fourth).value.rates[A].io_s == 2.0


def test_the_delay_is_that_of_the_most_blocked_thread() -> None:
    looks = (ThreadLook((("S", 2),), ((10, 5), (11, 100))), ThreadLook((("D", 1), ("S", 1)), ((10, 15), (11, 180))))
    before = table(1, {A: io(0)}, {A: stat(threads=2)}, threads={A: looks[0]})
    after = table(2, {A: io(0)}, {A: stat(threads=2)}, threads={A: looks[1]})
    rate = rates_of(before, after).value.rates[A]
    assert (rate.io_delay_ratio, rate.main_thread_only) == (0.8, False)
    alone = rates_of(before, after._replace(threads={}, stat={A: stat("D", threads=2, blkio_ticks=900)})).value.rates[A]
    assert (alone.io_delay_ratio, alone.main_thread_only) == (1.0, True)


def test_a_delay_over_only_some_threads_comes_with_their_number() -> None:
    looks = (ThreadLook((("S", 2),), ((10, 5), (11, 100))), ThreadLook((("S", 2),), ((10, 15), (11, 180))))
    before = table(1, {A: io(0)}, {A: stat(threads=300)}, threads={A: looks[0]})
    after = table(2, {A: io(0)}, {A: stat(threads=300)}, threads={A: looks[1]})
    rate = rates_of(before, after).value.rates[A]
    assert (rate.io_delay_ratio, rate.main_thread_only, rate.threads_looked) == (0.8, False, 2)
    of_all = rates_of(before, after._replace(stat={A: stat(threads=2)})).value.rates[A]
    assert of_all.threads_looked is None


def test_without_delay_accounting_the_delay_is_unknown() -> None:
    before, after = table(1, {A: io(0)}, {A: stat()}), table(2, {A: io(9)}, {A: stat()})
    for off in (False, None):
        rated = rates_of(before._replace(delayacct=off), after._replace(delayacct=off))
        assert rated.value.rates[A].io_delay_ratio is None


def reaped(parent_io: ProcessIo, cminflt: int, **fields: object) -> Rated:
    """A is the parent of B, which vanishes after io(1000) and 100 page faults."""
    before = table(1, {A: io(50), B: io(1000)}, {A: stat(), B: stat(ppid=10)})
    return rates_of(before, table(2, {A: parent_io}, {A: stat(cminflt=cminflt)}, **fields))


def test_the_bytes_of_a_reaped_child_are_subtracted_from_its_parent() -> None:
    rated = reaped(io(1250), 130)
    assert rated.value.rates[A].read_bytes_per_s == 200.0
    assert rated.value.debts == ()


def test_growth_without_the_faults_of_the_child_belongs_to_the_parent() -> None:
    rated = reaped(io(1250), 0)
    assert rated.value.rates[A].read_bytes_per_s == 1200.0
    assert [debt.key for debt in rated.value.debts] == [B]


def test_a_debt_waits_one_table_for_its_heir() -> None:
    before = table(1, {A: io(50), B: io(1000)}, {A: stat(), B: stat(ppid=10)})
    after = table(2, {A: io(50)}, {A: stat(cminflt=100)})
    later = table(3, {A: io(1050)}, {A: stat(cminflt=100)})
    settled = rates_of(before, after, later)
    assert (dict(settled.value.rates), settled.value.debts) == ({}, ())
    assert rates_of(before, after, later._replace(io=after.io)).value.debts == ()


def test_inherited_bytes_are_settled_once_for_both_users_of_the_tables() -> None:
    """The job times and the rates of a tick settle the same tables, each with the debts of its own last Sample."""
    before = table(1, {A: io(50), B: io(1000)}, {A: stat(), B: stat(ppid=10)})
    after = table(2, {A: io(1250)}, {A: stat(cminflt=130)})
    found = settle(before, after, None)
    assert found.taken[A] == io(1000)
    assert settle(before, after, ProcessSample({})) is found
    waiting = ProcessSample({}, (Debt(C, 10, io(100), 30),))
    assert settle(before, after, waiting).taken[A] == io(1100)
    assert settle(before, after._replace(io={A: io(50)}), None).taken == {}
    assert settle(before, after, None) == found


def test_the_reaper_of_an_unreadable_or_stale_child_is_marked() -> None:
    before = table(1, {A: io(50)}, {A: stat(), B: stat(ppid=10)}, denied=frozenset({B}))
    after = table(2, {A: io(1250)}, {A: stat(cminflt=130)})
    rate = rates_of(before, after).value.rates[A]
    assert (rate.incl_children, rate.read_bytes_per_s) == (True, 1200.0)
    stale = table(1, {A: io(50), B: io(1000)}, {A: stat(), B: stat(ppid=10)}, io_stale={B: 0})
    rate = rates_of(stale, after).value.rates[A]
    assert (rate.incl_children, rate.read_bytes_per_s) == (True, 200.0)
    assert not reaped(io(1250), 130).value.rates[A].incl_children


def test_a_child_and_a_grandchild_may_vanish_together() -> None:
    before = table(
        1, {A: io(0), B: io(1000), C: io(500)}, {A: stat(), B: stat(ppid=10), C: stat(ppid=11)}
    )  # fmt: skip
    after = table(2, {A: io(1600)}, {A: stat(cminflt=200)})
    rated = rates_of(before, after)
    assert rated.value.rates[A].read_bytes_per_s == 100.0


def test_a_living_parent_that_was_not_read_yet_keeps_its_childs_bytes_from_an_older_ancestor() -> None:
    """Only some processes are read in each tick. B reaps C and is read in the next tick, while A has grown by more."""
    tree = {A: stat(), B: stat(ppid=10), C: stat(ppid=11)}
    before = table(1, {A: io(0), B: io(0), C: io(1000)}, tree)
    after = table(2, {A: io(5000), B: io(0)}, {A: stat(cminflt=400), B: stat(ppid=10)}, io_stale={B: S})
    later = table(3, {A: io(5000), B: io(1000)}, {A: stat(cminflt=400), B: stat(ppid=10, cminflt=100)})
    between = rates_of(before, after)
    assert between.value.rates[A].read_bytes_per_s == 5000.0
    assert [debt.key for debt in between.value.debts] == [C]
    assert rates_of(before, after, later).value.rates.get(B) is None
    orphan = later._replace(io={A: io(6000)}, stat={A: stat(cminflt=600)})
    assert rates_of(before, after, orphan).value.rates.get(A) is None


def test_bytes_that_a_living_grandparent_may_inherit_wait_for_it_too() -> None:
    """C and its parent B end in one tick; A, the parent of B, was not read."""
    older = ProcessKey(9, 50)
    tree = {older: stat(), A: stat(ppid=9), B: stat(ppid=10), C: stat(ppid=11)}
    before = table(1, {older: io(0), A: io(0), B: io(100), C: io(1000)}, tree)
    grown = {older: stat(cminflt=900), A: stat(ppid=9)}
    after = table(2, {older: io(5000), A: io(0)}, grown, io_stale={A: S})
    later = table(3, {older: io(5000), A: io(1100)}, grown | {A: stat(ppid=9, cminflt=200)})
    assert rates_of(before, after).value.rates[older].read_bytes_per_s == 5000.0
    assert rates_of(before, after, later).value.rates.get(A) is None


def test_the_reaper_of_an_orphan_is_found_by_its_equal_growth_though_a_living_ancestor_was_not_read() -> None:
    init = ProcessKey(1, 0)
    tree = {init: stat(ppid=0), A: stat(), B: stat(ppid=10), C: stat(ppid=11)}
    before = table(1, {init: io(0), A: io(0), B: io(0), C: io(1000)}, tree)
    after = table(2, {init: io(1000), A: io(0)}, {init: stat(ppid=0, cminflt=100), A: stat()}, io_stale={A: S})
    assert settle(before, after, None).taken == {init: io(1000)}


def test_between_tables_far_apart_a_parent_counts_as_read_if_it_was_read_since_the_first() -> None:
    """The sums since a point in time, and long recordings, compare tables that are minutes apart."""
    before = table(1, {A: io(0), B: io(1000)}, {A: stat(), B: stat(ppid=10)})
    after = table(181, {A: io(1100)}, {A: stat(cminflt=130)}, io_stale={A: 173 * S})
    assert settle(before, after, None).taken == {A: io(1000)}
    assert settle(before, after._replace(io_stale={A: S}), None).taken == {}


number = st.integers(0, 10**6)
records = st.builds(ProcessIo, *[number] * 7)
stats = st.builds(
    ProcessStat, st.sampled_from("SDRZ"), st.integers(0, 8), number, number, number, number, number,
    st.integers(1, 3), number, number,
)  # fmt: skip
keys = st.builds(ProcessKey, st.integers(1, 8), st.integers(0, 3))
looks = st.builds(
    ThreadLook, st.just((("S", 1),)), st.lists(st.tuples(st.integers(1, 4), number), max_size=3).map(tuple)
)  # fmt: skip


@st.composite
def tables(draw: st.DrawFn) -> ProcessTable:
    at = draw(st.integers(0, 6))
    stat_ = draw(st.dictionaries(keys, stats, max_size=8))
    some = st.sets(st.sampled_from(sorted(stat_)), max_size=3) if stat_ else st.just(set())
    denied = draw(some)
    io_ = {key: draw(records) for key in stat_ if key not in denied}
    times = st.integers(0, at * S)
    return table(
        at, io_, stat_, denied=frozenset(denied), complete=draw(st.booleans()),
        stat_at=tuple(draw(st.lists(times, min_size=5, max_size=5))),
        stat_out={key: draw(times) for key in draw(some)},
        io_stale={key: draw(times) for key in draw(some) if key in io_},
        threads={key: draw(looks) for key in draw(some)},
        delayacct=draw(st.sampled_from([True, False, None])),
    )  # fmt: skip


@settings(max_examples=quick_or(25, 200))
@given(st.lists(tables(), min_size=1, max_size=4))
def test_no_table_gives_a_negative_rate_or_an_error(several: list[ProcessTable]) -> None:
    before, last = None, None
    for value in several:
        after = reading(value)
        last = process_rates(before, after, last)
        for key, rate in last.value.rates.items():
            assert key in value.stat or not last.renewed
            assert all(figure is None or figure >= 0 for figure in rate[:10])
            assert rate.io_delay_ratio is None or rate.io_delay_ratio <= 1
        before = after


def test_the_bytes_of_a_process_that_is_found_late_are_spread_over_its_life() -> None:
    """Its pid is out of order: it started at 2.99 s, and is found by the listing for the table of 33 s."""
    late = ProcessKey(400, 299)
    before = table(32, {A: io(0)}, {A: stat()})
    after = table(33, {A: io(0), late: io(60_000)}, {A: stat(), late: stat(utime_ticks=1500)})
    rate = rates_of(before, after).value.rates[late]
    assert (rate.read_bytes_per_s, rate.io_s, rate.cpu_ratio, rate.stat_s) == (2000.0, 30.0, 0.5, 30.0)


def test_a_process_that_started_after_the_last_sweep_is_counted_from_that_sweep() -> None:
    """This includes a process whose start time counts a suspension, which the monotonic clock leaves out."""
    for start in (3200, 3250, 99_000):
        key = ProcessKey(400, start)
        before = table(32, {A: io(0)}, {A: stat()})
        after = table(33, {A: io(0), key: io(1000)}, {A: stat(), key: stat(utime_ticks=50)})
        rate = rates_of(before, after).value.rates[key]
        assert (rate.read_bytes_per_s, rate.io_s, rate.cpu_ratio, rate.stat_s) == (1000.0, 1.0, 0.5, 1.0)
