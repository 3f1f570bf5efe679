"""The HTML report: recorded text stays text, and a real browser requests nothing, logs no error and has both themes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from iotop_ai.export.compare.comparison import Comparison, compare_runs
from iotop_ai.export.html.compare import render_compare_html
from iotop_ai.export.html.page import policy
from iotop_ai.export.html.report import render_report_html
from iotop_ai.export.report.money import Price
from iotop_ai.export.report.story import Story
from iotop_ai.model.snapshot import Event
from tests.export.report.stories import slow_story
from tests.rigs.browser import browser, chromium

HOSTILE = "</title><script>document.title='owned'</script><img src=x onerror=alert(1)>'\"&[x](javascript:y)"
needs_chromium = pytest.mark.skipif(not chromium(), reason="needs chromium")


def hostile_story() -> Story:
    story = slow_story()
    (job,) = story.jobs
    host = story.machine.host._replace(name=HOSTILE)
    devices = tuple(one._replace(name=HOSTILE) for one in story.devices)
    return story._replace(
        file=HOSTILE,
        machine=story.machine._replace(host=host, gpus=(HOSTILE,)),
        jobs=(job._replace(name=HOSTILE, label=HOSTILE, user=HOSTILE),),
        devices=devices,
        events=(Event(0, story.begin_ns + 10**10, "mark", HOSTILE),),
        processes=tuple(one._replace(name=HOSTILE, user=HOSTILE) for one in story.processes),
        findings=tuple(one._replace(sentence=HOSTILE, because=HOSTILE, advice=HOSTILE) for one in story.findings),
    )


def test_no_markup_comes_from_recorded_text() -> None:
    plain, hostile = render_report_html(slow_story()), render_report_html(hostile_story())
    names = re.compile(r"<([a-zA-Z]+)")
    assert set(names.findall(hostile)) == set(names.findall(plain))
    assert hostile.count("<script") == plain.count("<script") == 1
    assert "onerror=" not in re.sub(r"&lt;.*?&gt;", "", hostile)


def test_the_page_refers_to_no_other_server() -> None:
    page = render_report_html(slow_story(), Price(2.5, "$"))
    without_namespace = page.replace("http://www.w3.org/2000/svg", "")
    assert not re.findall(
        r"https?://|//[a-z]|url\(|@import|<link|<img|<iframe| src=| href=| style=| on\w+=", without_namespace
    )
    assert "default-src 'none'" in policy()
    assert "unsafe" not in policy()


def test_the_page_begins_with_the_main_figures() -> None:
    page = render_report_html(slow_story(), Price(2.5, "$"))
    head = re.sub(r"<[^>]+>", " ", page[: page.index("<section")])
    for words in (
        "STARVED",
        "the GPU waits for data 67 % of the time",
        "29 %",
        "of the time computed",
        "waited for data",
    ):
        assert words in head
    assert "$0.02" in head


def test_a_story_without_a_job_or_a_gpu_becomes_a_page() -> None:
    story = slow_story()._replace(jobs=(), gpus=(), findings=(), timeline=(), totals={})
    page = render_report_html(story)
    assert "the run was too short to judge" in page
    assert "Disks" in page


def hostile_comparison() -> Comparison:
    story = hostile_story()
    return compare_runs(story, story._replace(end_ns=story.end_ns - 10**9))


@needs_chromium
async def test_a_browser_shows_the_comparison(tmp_path: Path) -> None:
    path = tmp_path / "compare.html"
    path.write_text(render_compare_html(hostile_comparison()))
    async with browser() as page:
        colours = []
        for dark in (False, True):
            await page.open(path, dark=dark)
            colours.append(await page.value("getComputedStyle(document.body).backgroundColor"))
            assert await page.value("document.title") != "owned"
            assert await page.value("document.querySelectorAll('img, body script').length") <= 1
            assert not await page.value("document.documentElement.scrollWidth > innerWidth")
        assert colours == ["rgb(251, 251, 249)", "rgb(15, 19, 23)"]
        assert (await page.print()).startswith(b"%PDF")
        assert page.logged == []
        assert set(page.requests) == {path.resolve().as_uri()}


@needs_chromium
@pytest.mark.parametrize("story", [slow_story, hostile_story], ids=["plain", "hostile"])
async def test_a_browser_shows_the_report(story, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "report.html"
    path.write_text(render_report_html(story(), Price(2.5, "$")))
    async with browser() as page:
        await page.open(path)
        light = await page.value("getComputedStyle(document.body).backgroundColor")
        title = await page.value("document.title")
        assert title != "owned"
        chart = "document.querySelector('svg[data-step]')"
        await page.value(f"{chart}.scrollIntoView({{block:'center'}})")
        box = await page.value(f"(b=>[b.x+b.width/2,b.y+b.height/2])({chart}.getBoundingClientRect())")
        await page.point(*box)
        tip = await page.value(
            "document.getElementById('tip').hidden ? '' : document.getElementById('tip').textContent"
        )
        lines = tip.splitlines()
        assert re.fullmatch(r"\d\d:\d\d:\d\d", lines[0])
        assert any(re.fullmatch(r"data disk  [\d.]+ %", line) for line in lines)
        await page.point(2, 2)
        assert await page.value("document.getElementById('tip').hidden")
        assert not await page.value("document.documentElement.scrollWidth > innerWidth")
        await page.open(path, dark=True)
        dark = await page.value("getComputedStyle(document.body).backgroundColor")
        assert (light, dark) == ("rgb(251, 251, 249)", "rgb(15, 19, 23)")
        pdf = await page.print()
        assert pdf.startswith(b"%PDF")
        assert page.logged == []
        assert set(page.requests) == {path.resolve().as_uri()}
