"""Functions that all imports share."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from iotop_ai.sources.imports.common import device_info, logged_time_ns, parse_logged_time

MORNING = int(datetime(2026, 11, 29, 7, 56, 2, tzinfo=UTC).timestamp()) * 10**9
TOKYO = timezone(timedelta(hours=9))


@pytest.mark.parametrize(
    ("name", "kind", "parent"),
    [
        ("sda", "disk", ""),
        ("sda1", "partition", "sda"),
        ("nvme0n1p2", "partition", "nvme0n1"),
        ("rbd0", "disk", ""),
        ("rbd0p1", "partition", "rbd0"),
        ("pmem0p1", "partition", "pmem0"),
        ("bcache0p3", "partition", "bcache0"),
        ("dasda1", "partition", "dasda"),
        ("zd16p1", "partition", "zd16"),
        ("md127p1", "partition", "md127"),
        ("nvme0c1n2", "nvme-path", "nvme0n2"),
        ("vg-home", "dm", ""),
    ],
)
def test_the_kind_and_parent_of_a_device_follow_from_its_name(name: str, kind: str, parent: str) -> None:
    info = device_info(name)
    assert (info.kind, info.parent) == (kind, parent)


@pytest.mark.parametrize(
    "text",
    [
        "2026年11月29日 07时56分02秒",
        "2026年11月29日 07時56分02秒",
        "2026년 11월 29일 07시 56분 02초",
        "29. 11. 2026 07:56:02",
        "29.11.2026 07.56.02",
        "29/11/26 07:56:02 AM IST",
        "29/11/26 07:56:02 AMT",
        "29/11/2026 07:56:02 πμ",
        "29/11/26 07:56:02 पूर्वाह्न UTC",
    ],
)
def test_the_times_of_many_locales_are_parsed(text: str) -> None:
    logged_time = parse_logged_time(text)
    assert logged_time is not None
    assert logged_time_ns(logged_time, True, UTC) == MORNING


@pytest.mark.parametrize("afternoon", ["PM", "μμ", "अपराह्न"])
def test_the_afternoon_is_recognised_in_many_locales(afternoon: str) -> None:
    logged_time = parse_logged_time(f"29/11/2026 07:56:02 {afternoon}")
    assert logged_time is not None
    assert logged_time_ns(logged_time, True, UTC) == MORNING + 12 * 3600 * 10**9


@pytest.mark.parametrize("zone", ["UTC", "GMT", "Z", "+0000"])
def test_a_time_in_utc_does_not_depend_on_the_zone_of_the_machine(zone: str) -> None:
    logged_time = parse_logged_time(f"29/11/26 07:56:02 AM {zone}")
    assert logged_time is not None
    assert logged_time_ns(logged_time, True, TOKYO) == MORNING


@pytest.mark.parametrize(
    "text",
    [
        "29/11/2569 07:56:02",
        "29/11/2026 πμ 07:56:02",
        "Sunday, November 29, 2026 07:56:02 AM UTC",
        "日 07:56:02",
        "29. nov. 2026 kl. 07.56 +0000",
    ],
)
def test_a_time_with_words_or_of_another_calendar_is_not_parsed(text: str) -> None:
    assert parse_logged_time(text) is None
