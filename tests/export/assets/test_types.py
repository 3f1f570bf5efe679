"""The dashboard and the DaemonSet have the types that Grafana and Kubernetes publish. npm makes this test slow."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import iotop

PACKAGES = ("typescript@5", "@grafana/schema@13", "kubernetes-types@1.30")
TYPES = {
    "dashboard.json": ("Dashboard", "@grafana/schema"),
    "daemonset.json": ("DaemonSet", "kubernetes-types/apps/v1"),
}
WRONG: dict[str, dict[str, Any]] = {
    "dashboard.json": {"panels": [{"id": "one", "type": "stat", "gridPos": {"h": "x", "w": 1, "x": 0, "y": 0}}]},
    "daemonset.json": {"apiVersion": "apps/v1", "kind": "DaemonSet", "spec": {"template": {"spec": {"hostPid": True}}}},
}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("npm") is None:
        pytest.skip("needs npm")
    folder = tmp_path_factory.mktemp("npm")
    done = subprocess.run(
        ["npm", "install", "--no-audit", "--no-fund", *PACKAGES], cwd=folder, capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"npm install: {done.stderr.strip()[-300:]}")
    return folder


def errors(modules: Path, asset: str, text: str) -> str:
    """The errors that the TypeScript compiler finds in an asset; "" if there are none."""
    name, module = TYPES[asset]
    source = modules / "check.ts"
    source.write_text(f"import type {{ {name} }} from '{module}';\nexport const asset: {name} = {text};\n")
    flags = ("--noEmit", "--strict", "--skipLibCheck", "--moduleResolution", "node", "--target", "es2020")
    compiler = modules / "node_modules/.bin/tsc"
    return subprocess.run([str(compiler), *flags, source.name], cwd=modules, capture_output=True, text=True).stdout


@pytest.mark.parametrize("asset", TYPES)
def test_an_asset_has_the_published_type(modules: Path, asset: str) -> None:
    shown = json.loads(iotop("assets", "show", asset).stdout)
    # The keys for the import dialog are not a part of the dashboard.
    shown = {key: value for key, value in shown.items() if not key.startswith("__")}
    assert errors(modules, asset, json.dumps(shown)) == ""
    assert "error TS" in errors(modules, asset, json.dumps(WRONG[asset]))
