"""Draw the pictures of commands that print: ``python screenshots/commands.py`` (as root, for the slow disk).

check and loader read from a real disk that answers in 10 ms. doctor examines a new environment with planted faults.
report is made here from the recording of a starved training, and shown by a headless chromium.
"""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.text import Text

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

from draw import Picture, load_page, rasterise, run, tidy  # noqa: E402

from tests.rigs.slowdisk.files import slow_files  # noqa: E402

PROGRAM = str(Path(sys.executable).with_name("iotop-ai"))
TRAINING = Path("/opt/train")
"""The path of the environment in the pictures. It is created and removed again."""
FAULTS = {"CUDA_LAUNCH_BLOCKING": "1", "OMP_NUM_THREADS": "64", "NCCL_SOCKET_IFNAME": "ib9"}
DATASET = """
import os

class Images:
    paths = sorted(entry.path for entry in os.scandir("/mnt/data/set") if entry.is_file())

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        with open(self.paths[index], "rb") as file:
            return len(file.read())

def make():
    import torch
    class Set(Images, torch.utils.data.Dataset):
        pass
    return Set()
"""


@contextmanager
def mounted() -> Iterator[None]:
    """Mount the slow disk with 1500 files as /mnt/data/set."""
    with tempfile.TemporaryDirectory() as folder, slow_files(Path(folder), 1500) as files:
        place = Path("/mnt/data/set")
        place.mkdir(parents=True)
        run("mount", "--bind", str(files), str(place))
        try:
            yield
        finally:
            run("umount", str(place))
            place.rmdir()
            place.parent.rmdir()


def printed(width: int, *words: str, cwd: str = "/tmp", **variables: str) -> str:
    """Return what a command prints on a terminal of this width."""
    environment = {**os.environ, "COLUMNS": str(width), "LC_ALL": "C.UTF-8", **variables}
    process = subprocess.run([PROGRAM, *words], cwd=cwd, env=environment, capture_output=True, text=True)
    if process.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(words)}: {process.stderr}")
    return f"$ iotop-ai {' '.join(words)}\n{process.stdout.rstrip()}\n"


def draw_text(name: str, width: int, text: str, folder: Path) -> None:
    """Draw a terminal with a text. Long lines continue on the next row, as in a terminal."""
    text = "\n".join(line[at : at + width] for line in text.split("\n") for at in range(0, max(1, len(line)), width))
    console = Console(record=True, width=width, file=io.StringIO(), color_system="truecolor", force_terminal=True)
    console.print(Text.from_ansi(text), no_wrap=True, crop=True, highlight=False)
    picture = Picture(name, width, text.count("\n") + 1, "dark")
    rasterise(tidy(console.export_svg(title=""), picture), folder / f"{name}.png", picture)


def draw_check(folder: Path) -> None:
    """Draw the picture of check, for the slow disk and with a forecast."""
    with mounted():
        run(PROGRAM, "cache", "evict", "/mnt/data/set")
        words = (
            "check",
            "/mnt/data/set",
            "--dataset",
            "--seconds",
            "8",
            "--samples-per-s",
            "400",
            "--min-files",
            "2000/s",
        )
        draw_text("check-90", 90, printed(90, *words), folder)


def draw_doctor(folder: Path) -> None:
    """Draw the picture of doctor, for a new environment and in a shell with faults."""
    run(sys.executable, "-m", "venv", str(TRAINING))
    try:
        draw_text("doctor-110", 110, printed(110, "doctor", "--python", f"{TRAINING}/bin/python", **FAULTS), folder)
    finally:
        run("rm", "-r", str(TRAINING))


def draw_loader(folder: Path) -> None:
    """Draw the picture of loader, for a torch dataset on the slow disk."""
    python = os.environ.get("IOTOP_AI_TORCH_PYTHON", "")
    if not python:
        sys.stderr.write("no picture of loader: IOTOP_AI_TORCH_PYTHON names no Python with torch\n")
        return
    TRAINING.mkdir()
    try:
        (TRAINING / "data.py").write_text(DATASET)
        os.symlink(Path(python).parents[1], TRAINING / "env")
        words = ("loader", "data:make", "--python", f"{TRAINING}/env/bin/python", "--seconds", "4")
        with mounted():
            draw_text("loader-90", 90, printed(90, *words, "--cold", "/mnt/data/set", cwd=str(TRAINING)), folder)
    finally:
        run("rm", "-r", str(TRAINING))


def draw_report(folder: Path) -> None:
    """Draw the picture of the page that report writes."""
    with tempfile.TemporaryDirectory() as place:
        page = f"{place}/report.html"
        words = ("report", str(HERE / "starved.iotop.jsonl.gz"), "--allow-root", "--html", page)
        subprocess.run([PROGRAM, *words], check=True, capture_output=True)
        load_page(page, folder / "report.png", 1200, 1500)


DRAWERS = {"check": draw_check, "doctor": draw_doctor, "loader": draw_loader, "report": draw_report}


def main() -> None:
    """Draw all pictures, or the requested ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, default=HERE, help="folder of the pictures")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(DRAWERS)}; all by default")
    args = parser.parse_args()
    for name in args.names or DRAWERS:
        DRAWERS[name](args.into.resolve())
        sys.stdout.write(f"{name}\n")


if __name__ == "__main__":
    main()
