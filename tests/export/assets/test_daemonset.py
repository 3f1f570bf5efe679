"""The DaemonSet: it has the shape that the API server requires, and arguments that ``serve`` accepts.

Source: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/daemon-set-v1/
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from iotop_ai.export.assets import content
from tests.cli.program import iotop

DAEMONSET: dict[str, Any] = json.loads(content("daemonset.json", ""))
POD: dict[str, Any] = DAEMONSET["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
"""The form of the names of objects, containers and volumes, by RFC 1123."""
POD_TOKEN_MODE = next(one["secret"]["defaultMode"] for one in POD["volumes"] if "secret" in one)
QUANTITY = re.compile(r"\d+(m|Ki|Mi|Gi)?")
POD_KEYS = {
    *("automountServiceAccountToken", "containers", "dnsPolicy", "enableServiceLinks", "hostNetwork", "hostPID"),
    *("nodeSelector", "priorityClassName", "terminationGracePeriodSeconds", "tolerations", "volumes"),
}
CONTAINER_KEYS = {
    *("args", "command", "env", "image", "livenessProbe", "name", "ports", "resources", "securityContext"),
    "volumeMounts",
}
SECURITY_KEYS = {
    *("allowPrivilegeEscalation", "appArmorProfile", "capabilities", "privileged", "readOnlyRootFilesystem"),
    *("runAsUser", "seccompProfile"),
}


def test_the_daemonset_has_the_fields_of_its_kind_and_no_others() -> None:
    assert (DAEMONSET["apiVersion"], DAEMONSET["kind"]) == ("apps/v1", "DaemonSet")
    assert DAEMONSET.keys() == {"apiVersion", "kind", "metadata", "spec"}
    assert DAEMONSET["spec"].keys() <= {
        "minReadySeconds",
        "revisionHistoryLimit",
        "selector",
        "template",
        "updateStrategy",
    }
    assert POD.keys() <= POD_KEYS
    assert CONTAINER.keys() <= CONTAINER_KEYS
    assert CONTAINER["securityContext"].keys() <= SECURITY_KEYS
    assert DAEMONSET["spec"]["updateStrategy"]["type"] in ("RollingUpdate", "OnDelete")


def test_the_selector_selects_the_pods_of_the_daemonset() -> None:
    wanted = DAEMONSET["spec"]["selector"]["matchLabels"]
    labels = DAEMONSET["spec"]["template"]["metadata"]["labels"]
    assert wanted
    assert wanted.items() <= labels.items()


def test_names_quantities_and_volumes_are_valid() -> None:
    volumes = {one["name"]: one for one in POD["volumes"]}
    mounts = {one["name"]: one for one in CONTAINER["volumeMounts"]}
    assert mounts.keys() == volumes.keys()
    for name in (DAEMONSET["metadata"]["name"], CONTAINER["name"], *volumes):
        assert LABEL.fullmatch(name)
    for volume in volumes.values():
        assert len(volume.keys() - {"name"}) == 1
    for part in CONTAINER["resources"].values():
        assert all(QUANTITY.fullmatch(value) for value in part.values())
    assert all(isinstance(one["value"], str) for one in CONTAINER["env"])
    (port,) = CONTAINER["ports"]
    assert port["hostPort"] == port["containerPort"]  # hostNetwork requires this
    assert CONTAINER["livenessProbe"]["tcpSocket"]["port"] == port["name"]
    assert len(port["name"]) <= 15


def test_the_pod_can_read_the_node_and_change_nothing() -> None:
    security = CONTAINER["securityContext"]
    assert security["capabilities"] == {"drop": ["ALL"], "add": ["SYS_PTRACE", "DAC_READ_SEARCH"]}
    assert (security["privileged"], security["allowPrivilegeEscalation"]) == (False, False)
    assert security["readOnlyRootFilesystem"] is True
    host_volumes = {one["name"] for one in POD["volumes"] if "hostPath" in one}
    assert host_volumes == {"proc", "sys"}
    assert all(one["readOnly"] for one in CONTAINER["volumeMounts"] if one["name"] in host_volumes)
    assert POD["automountServiceAccountToken"] is False
    (token,) = (one["secret"] for one in POD["volumes"] if "secret" in one)
    assert token["defaultMode"] & 0o077 == 0  # serve refuses a token that others can read


def test_serve_accepts_the_arguments_of_the_container(own_folder: Path) -> None:
    path = own_folder / "token"
    path.write_text("abc\n")
    path.chmod(POD_TOKEN_MODE)
    local = {":9743": "127.0.0.1:0", "/etc/iotop-ai/token": str(path), "/host/proc": "/proc", "/host/sys": "/sys"}
    arguments = [local.get(argument, argument) for argument in CONTAINER["args"]]
    assert arguments != CONTAINER["args"]
    mounted = {one["mountPath"] for one in CONTAINER["volumeMounts"]}
    assert {argument for argument in CONTAINER["args"] if argument.startswith("/")} <= mounted
    done = iotop(*arguments, "--duration", "1", timeout=60)
    assert done.returncode == 0, done.stderr
    assert "http://127.0.0.1:" in done.stderr
