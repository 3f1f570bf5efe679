"""The shipped files, each checked by the program that reads it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from iotop_ai.export.assets import ASSETS
from iotop_ai.export.prometheus.server import MetricsServer, ScrapeText
from iotop_ai.model.finding import Finding, Severity
from iotop_ai.model.frame import Frame
from tests.bench.scrape import session
from tests.cli.program import iotop, iotop_here
from tests.rigs.prometheus import need_prometheus, prometheus, promtool, wait_for


@pytest.fixture
def folder(own_folder: Path) -> Path:
    done = iotop_here("assets", "install", "all", str(own_folder))
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in own_folder.iterdir()) == sorted(asset.name for asset in ASSETS)
    return own_folder


def test_each_asset_is_listed_and_shown(folder: Path) -> None:
    listed = iotop("assets", "list").stdout
    for asset in ASSETS:
        assert asset.name in listed
        assert iotop_here("assets", "show", asset.name).stdout == (folder / asset.name).read_text()
    again = iotop_here("assets", "install", "rules.yml", str(folder))
    assert (again.returncode, again.stderr) == (2, f"usage: {folder}/rules.yml exists; --force replaces it\n")
    assert iotop_here("assets", "install", "rules.yml", str(folder), "--force").returncode == 0


def test_the_alert_rules_pass_their_tests(folder: Path) -> None:
    need_prometheus()
    assert promtool("check", "rules", str(folder / "rules.yml")).returncode == 0
    done = promtool("test", "rules", str(folder / "rules_test.yml"))
    assert done.returncode == 0, (done.stdout + done.stderr).decode()


def expressions(path: Path) -> list[str]:
    """The queries of a dashboard's panels, for all machines and a window of 5 s."""
    found = [target["expr"] for panel in json.loads(path.read_text())["panels"] for target in panel["targets"]]
    return [one.replace("$__rate_interval", "5s").replace("$instance", ".+") for one in found]


def failing(frame: Frame) -> Frame:
    """The Frame with a failing disk."""
    finding = Finding("failing_disk", Severity.CRITICAL, 0.9, "nvme3n1", gpu_hours_lost=0.5)
    return frame._replace(verdict=frame.verdict._replace(findings=(finding,)))


def test_each_panel_has_data_and_an_alert_fires_and_ends(folder: Path, tmp_path: Path) -> None:
    need_prometheus()
    queries = expressions(folder / "dashboard.json")
    assert len(queries) >= 15
    scrape, stop = ScrapeText(), threading.Event()
    healthy = threading.Event()

    def feed() -> None:
        for frame in session(240):  # more Frames than the test needs; each is made only when it is needed
            scrape.put(frame if healthy.is_set() else failing(frame))
            if stop.wait(0.5):
                return

    server = MetricsServer(("127.0.0.1", 0), scrape)
    server.start()
    feeder = threading.Thread(target=feed, daemon=True)
    feeder.start()
    try:
        with prometheus(tmp_path, f"127.0.0.1:{server.server_port}", rules=(folder / "rules.yml",)) as running:
            for query in queries:
                assert wait_for(lambda query=query: running.query(query), query)  # type: ignore[misc]
            wait_for(lambda: running.alerts().get("IotopFailingDisk") == "firing", "firing alert")
            healthy.set()
            wait_for(lambda: "IotopFailingDisk" not in running.alerts(), "end of the alert")
    finally:
        stop.set()
        server.stop()
        feeder.join(10)


def test_each_panel_has_a_different_place_and_id(folder: Path) -> None:
    panels = json.loads((folder / "dashboard.json").read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


def test_systemd_accepts_the_unit(folder: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed (Debian: systemd)")
    unit = folder / "iotop-ai-serve.service"
    text = unit.read_text()
    assert "@PROGRAM@" not in text
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert not re.search(r"iotop-ai-serve\.service", done.stderr), done.stderr
    capabilities = re.findall(r"^CapabilityBoundingSet=(.*)$", text, re.MULTILINE)
    assert len(capabilities) == 1
    assert "CAP_SYS_MODULE" not in capabilities[0]
