"""A fleet of eleven machines, and a real Prometheus's answers about it, for tests that run without Prometheus.

``python -m tests.rigs.fleet.small`` records the answers again.
"""

from __future__ import annotations

import gzip
import json
import tempfile
import time
import urllib.parse
from pathlib import Path

from iotop_ai.fleet.answer import Answer, parse_vector
from iotop_ai.fleet.queries import queries
from tests.rigs.fleet.exporter import exporter
from tests.rigs.fleet.scenes import (
    CHECKPOINT,
    DATA,
    FAILING_DISK,
    HEALTHY,
    JOB,
    LATE,
    ONE_THREAD,
    PEER,
    SLOW_DISK,
    Scene,
)
from tests.rigs.prometheus import fetch, prometheus_of

ANSWERS = DATA / "fleet" / "answers.json.gz"
WINDOW_S = 20.0
MACHINES: dict[str, Scene] = {
    "gpu01": HEALTHY,
    "gpu02": HEALTHY,
    "gpu03": SLOW_DISK,
    "gpu04": ONE_THREAD,
    "gpu05": FAILING_DISK,
    "gpu06": CHECKPOINT,
    "gpu07": PEER._replace(first_rank=0),
    "gpu08": PEER._replace(first_rank=4),
    "gpu09": LATE._replace(first_rank=8),
}
OTHERS = ("node01", "blank02")
RULES = """groups:
  - name: small
    rules:
      - {alert: IotopFailingDisk, expr: 'iotop_finding{class="failing_disk"} == 1', labels: {severity: critical}}
      - {alert: LooseAlert, expr: vector(1)}
"""
assert LATE.slurm == PEER.slurm == JOB


def kept_answers() -> dict[str, Answer]:
    """The recorded answers, by the name of the query."""
    with gzip.open(ANSWERS) as file:
        return {name: parse_vector(body.encode()) for name, body in json.load(file).items()}


def main() -> None:
    """Record the answers, and save them."""
    with exporter(MACHINES, OTHERS) as configs, tempfile.TemporaryDirectory() as folder:
        rules = Path(folder) / "rules.yml"
        rules.write_text(RULES)
        with prometheus_of(Path(folder), configs, rules=(rules,)) as server:
            time.sleep(WINDOW_S + 10)
            bodies = {}
            for name, query in queries(WINDOW_S).items():
                url = f"{server.url}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
                bodies[name] = fetch(url)[2].decode()
    ANSWERS.write_bytes(gzip.compress(json.dumps(bodies).encode(), mtime=0))


if __name__ == "__main__":
    main()
