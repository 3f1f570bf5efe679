"""The growth of a disk's figures since an earlier reading, and the life that remains at the current rate of wear."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.health.smart import HealthPoint, PastPoint, SmartState

DAY_S = 86_400
HOUR_S = 3600
PAST_POINTS = 64
"""The largest number of points in a curve of past values."""
SHORTEST_WEAR_DAYS = 7.0
"""The shortest period, in days, from which a wear rate is computed: disks report wear in whole percent."""
_STORED_FIELDS = tuple(name for name in HealthPoint._fields if name != "wall_s")


class Growth(NamedTuple):
    """How much a figure grew, and in how many seconds."""

    amount: int
    seconds: float

    @property
    def per_day(self) -> float:
        """The growth per 24 h; over a shorter time, the growth itself."""
        return self.amount / max(1.0, self.seconds / DAY_S)

    @property
    def per_hour(self) -> float:
        """The growth per hour; over a shorter time, the growth itself."""
        return self.amount / max(1.0, self.seconds / HOUR_S)

    @property
    def text(self) -> str:
        """The growth as text, such as "+9 in 24 h"."""
        return f"+{self.amount:,} in {span(self.seconds)}"


def span(seconds: float) -> str:
    """A period of time in one unit: "40 s", "5 min", "24 h", "3 d"."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    # Readings are minutes apart, so a period of about a day counts as 24 h.
    hours = seconds / 3600
    return "24 h" if 22 <= hours <= 26 else f"{hours:.0f} h" if hours < 48 else f"{hours / 24:.0f} d"


def growth(state: SmartState, name: str) -> Growth | None:
    """The growth of the field ``name`` since ``state.earlier``; None if it did not grow, or if a value is unknown."""
    return _growth_since(state, name, state.earlier)


def recent_growth(state: SmartState, name: str) -> Growth | None:
    """The growth of the field ``name`` since ``state.recent``; None in the same cases as ``growth``."""
    return _growth_since(state, name, state.recent)


def _growth_since(state: SmartState, name: str, point: HealthPoint | None) -> Growth | None:
    if point is None or state.read_wall_s is None:
        return None
    now, before = getattr(state, name), getattr(point, name)
    seconds = state.read_wall_s - point.wall_s
    if now is None or before is None or now <= before or seconds <= 0:
        return None
    return Growth(now - before, seconds)


def point_of(state: SmartState, wall_s: int) -> HealthPoint:
    """The figures of a reading that are stored for later comparison."""
    return HealthPoint(wall_s, **{name: getattr(state, name) for name in _STORED_FIELDS})


def nearest(points: tuple[HealthPoint, ...], wall_s: int, ago_s: int = DAY_S) -> HealthPoint | None:
    """Of the points before ``wall_s``, the one nearest to ``ago_s`` seconds earlier; None without a point."""
    before = [point for point in points if point.wall_s < wall_s]
    return min(before, key=lambda point: abs(wall_s - ago_s - point.wall_s), default=None)


def recent_of(points: tuple[HealthPoint, ...], wall_s: int) -> HealthPoint | None:
    """The point nearest to an hour before ``wall_s``; None without a point in the two hours before ``wall_s``."""
    point = nearest(points, wall_s, HOUR_S)
    return point if point is not None and wall_s - point.wall_s <= 2 * HOUR_S else None


def past_of(points: tuple[HealthPoint, ...], wall_s: int, most: int = PAST_POINTS) -> tuple[PastPoint, ...]:
    """The points up to ``wall_s`` for curves, oldest first, at most ``most``.

    If there are more points, the time is divided into ``most`` equal periods, and the newest point of each is kept.
    """
    known = [point for point in points if point.wall_s <= wall_s]
    if len(known) > most:
        first, last = known[0].wall_s, known[-1].wall_s
        step = max(1, last - first) / most
        known = list({min(most - 1, int((point.wall_s - first) / step)): point for point in known}.values())
    return tuple(PastPoint(point.wall_s, point.temperature_celsius, point.used_percent) for point in known)


def wear_left_days(state: SmartState) -> float | None:
    """The days until 100 % of the rated life is used, at the rate observed so far.

    None if 100 % is already reached, if there was no wear, if the readings span less than a week, or if a figure is
    unknown.
    """
    known = [(point.wall_s, point.used_percent) for point in state.past if point.used_percent is not None]
    if state.used_percent is None or state.used_percent >= 100 or state.read_wall_s is None or not known:
        return None
    since, used = known[0]
    days = (state.read_wall_s - since) / DAY_S
    if days < SHORTEST_WEAR_DAYS or state.used_percent <= used:
        return None
    return (100 - state.used_percent) * days / (state.used_percent - used)


def left_words(days: float) -> str:
    """The time left as text, such as "about 5 months at this rate"."""
    if days < 60:
        return f"about {round(days)} days at this rate" if days >= 1.5 else "about a day at this rate"
    if days < 730:
        return f"about {round(days / 30.44)} months at this rate"
    return f"about {round(days / 365.25)} years at this rate"
