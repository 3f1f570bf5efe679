"""Draw the pictures of ``iotop-ai fleet``: ``python screenshots/fleet.py``. On Debian: apt install prometheus chromium.

A real Prometheus scrapes the 200 replayed machines of ``python -m tests.bench.fleet``. The app queries it in this
process.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

from draw import Picture, rasterise, tidy  # noqa: E402

from iotop_ai.fleet.client import Address, Prometheus  # noqa: E402
from iotop_ai.present.fleet.view import FleetView  # noqa: E402
from iotop_ai.present.screen.view import View  # noqa: E402
from iotop_ai.tui.fleet_app import FleetApp  # noqa: E402
from tests.bench.fleet import plan  # noqa: E402
from tests.rigs.fleet.exporter import exporter  # noqa: E402
from tests.rigs.prometheus import prometheus_of  # noqa: E402

WINDOW_S, EVERY_S, WATCHED_S = 20.0, 5, 150.0
SHOWN_AS = "http://prometheus:9090"
ANSWER_TIMEOUT_S = 30.0
PICTURES = (
    Picture("fleet-80x24", 80, 24, "dark"),
    Picture("fleet-160x48", 160, 48, "dark"),
    Picture("fleet-jobs-160x48", 160, 48, "dark", ("j",)),
)


async def draw(picture: Picture, url: str, folder: Path) -> None:
    """Draw one picture, once the graphs have been loaded."""
    view = FleetView(View(utc_offset_s=0), server=SHOWN_AS, window_s=WINDOW_S, interval_s=3600.0)
    app = FleetApp(Prometheus(Address(url)), view, picture.theme)
    async with app.run_test(size=(picture.width, picture.height)) as pilot:
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            while not app.state.fleet_view.history.machine:
                await pilot.pause(0.1)
        await pilot.press(*picture.keys)
        await pilot.pause()
        svg = tidy(app.export_screenshot(simplify=True), picture)
    rasterise(svg, folder / f"{picture.name}.png", picture)


def main() -> None:
    """Run the machines, then draw the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, default=HERE, help="folder of the pictures")
    folder = parser.parse_args().into.resolve()
    with (
        exporter(plan(200).machines) as configs,
        tempfile.TemporaryDirectory() as place,
        prometheus_of(Path(place), configs, interval_s=EVERY_S) as server,
    ):
        time.sleep(WATCHED_S)
        for picture in PICTURES:
            asyncio.run(draw(picture, server.url, folder))
            sys.stdout.write(f"{picture.name}.png\n")


if __name__ == "__main__":
    main()
