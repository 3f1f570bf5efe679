"""The process that runs smartctl. It reads requests from stdin and writes responses to stdout, one JSON object a line.

    python -m iotop_ai.collectors.health.helper
    {"id": 1, "do": "scan", "smartctl": "/usr/sbin/smartctl", "timeout_s": 20}
    {"id": 2, "do": "read", "smartctl": "…", "device": "/dev/sda", "type": "sat", "sudo": false, "timeout_s": 20}
    {"id": 3, "do": "short", …}

"short" and "long" start a self-test, and "abort" aborts it. A response has the id of its request. If the request could
not be served, the response has ``error``. Otherwise it has ``out``, ``stderr``, ``status`` (of smartctl; null when
smartctl was killed), ``timed_out`` and ``refused`` (whether sudo has refused; null when sudo was not used). The
response to "read" also has ``pysmart_values``, the values that pySMART found; null if there are none. If pySMART
failed, ``pysmart_error`` has the reason.

The helper is a separate process because importing pySMART sets LANG and the logger class of the whole process, and
because a smartctl that hangs in the kernel must block only its caller. The helper ends when stdin ends or at SIGTERM,
and then kills a running smartctl.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from types import FrameType
from typing import Any, NamedTuple

from pySMART import Device
from pySMART.smartctl import Smartctl
from pySMART.utils import smartctl_isvalid_type

from iotop_ai.collectors.health.commands import TEST_COMMANDS, argv
from iotop_ai.collectors.health.parse import parse_json, refusal
from iotop_ai.collectors.io.programs import SYSTEM_PATH, find_program
from iotop_ai.collectors.io.spawn import start

_KILLED_WAIT_S = 1.0
_LONGEST_REQUEST_BYTES = 1 << 16


class Answer(NamedTuple):
    """The output of one command. status: its exit status; None when the command was killed at its time limit."""

    out: bytes
    stderr: bytes
    status: int | None

    @property
    def timed_out(self) -> bool:
        """Whether the command was killed at its time limit."""
        return self.status is None


class _Sigterm:
    """Ends the helper at SIGTERM: at once, or after a block that must not be interrupted."""

    def __init__(self) -> None:
        self._delay = False
        self._received = False

    def handle(self, number: int, frame: FrameType | None) -> None:
        """End the helper now, or after the block of ``delayed``.

        Further signals are ignored, because they must not interrupt the code that kills a running smartctl.
        """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self._received = True
        if not self._delay:
            raise SystemExit(0)

    @contextlib.contextmanager
    def delayed(self) -> Iterator[None]:
        """Let a SIGTERM end the helper only after this block."""
        self._delay = True
        try:
            yield
        finally:
            self._delay = False
        if self._received:
            raise SystemExit(0)


_sigterm = _Sigterm()


def run(command: list[str], timeout_s: float) -> Answer:
    """Run one command in a new session; kill the command and its children after ``timeout_s``.

    A command that cannot be killed, because it hangs in the kernel or runs as root through sudo, is abandoned.
    """
    env = {"LC_ALL": "C", "PATH": SYSTEM_PATH}
    child = None
    try:
        with _sigterm.delayed():  # else a SIGTERM within Popen would leave a child that is never killed
            child = start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, env=env)
        out, stderr = child.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        return Answer(b"", b"", None)
    finally:
        if child is not None and child.poll() is None:
            _kill(child)
    return Answer(out, stderr, child.returncode)


def _kill(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    for pipe in (child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(_KILLED_WAIT_S)


class SafeSmartctl(Smartctl):  # type: ignore[misc]
    """Calls smartctl for pySMART, with a timeout; runs only the command ``text`` of COMMANDS, and only once per disk.

    pySMART tries further commands to detect the type of a disk. The type is already known here, so these commands fail
    without being run: they lack ``-n standby``, and the sudoers lines do not allow them.
    """

    def __init__(self, smartctl: str, kind: str, device: str, prefix: list[str], timeout_s: float) -> None:
        super().__init__(smartctl_path=smartctl)
        self._command = [*prefix, *argv("text", smartctl, kind, device)]
        self._timeout_s = timeout_s
        self._lines: list[str] | None = None
        self.answer: Answer | None = None

    def generic_call(self, params: list[str], pass_options: bool = False) -> tuple[list[str], int]:
        """Return the lines and status of ``--all``; for any other command, no lines and status 1."""
        if "--all" not in params:
            return [], 1
        if self._lines is None:
            self._lines = self._exec(self._command)[0]
        return self._lines, self.answer.status or 0 if self.answer else 1

    def _exec(self, cmd: list[str]) -> tuple[list[str], int]:
        self.answer = run(cmd, self._timeout_s)
        return self.answer.out.decode("utf-8", "replace").splitlines(), self.answer.status or 0


def pysmart_values(smartctl: str, kind: str, device: str, prefix: list[str], timeout_s: float) -> dict[str, Any] | None:
    """Return the values that pySMART finds; None if it does not know the type or smartctl gives no output in time."""
    if not smartctl_isvalid_type(kind):
        return None
    caller = SafeSmartctl(smartctl, kind, device, prefix, timeout_s)
    disk = Device(device, interface=kind, smartctl=caller)
    answer = caller.answer
    if answer is None or answer.timed_out or not answer.out:
        return None
    table = getattr(disk.if_attributes, "legacyAttributes", None) or []
    return {
        "model": disk.model,
        "serial": disk.serial,
        "firmware": disk.firmware,
        "assessment": disk.assessment,
        "temperature": disk.temperature,
        "messages": [str(message) for message in disk.messages],
        "attributes": [_attribute(row) for row in table if row is not None],
        "tests": [_test(entry) for entry in disk.tests or []],
        "text": answer.out.decode("utf-8", "replace"),
    }


def _attribute(row: Any) -> dict[str, Any]:
    # pySMART's own number properties raise an exception for the "---" that smartctl prints for a missing figure.
    return {
        "id": row.num,
        "name": row.name,
        "value": _number(row._value),
        "worst": _number(row._worst),
        "thresh": _number(row._thresh),
        "raw": str(row.raw),
        "when_failed": row.when_failed,
        "type": row.type,
    }


def _test(entry: Any) -> dict[str, str]:
    return {"type": str(entry.type), "status": str(entry.status), "hours": str(entry.hours)}


def _number(text: object) -> int | None:
    return int(text) if isinstance(text, str) and text.isdigit() else None


def sudo_prefix() -> list[str] | None:
    """Return ``sudo -n`` with the absolute path of sudo; None for root and when sudo is not installed."""
    if os.geteuid() == 0:
        return None
    path = find_program("sudo")
    return [path, "-n"] if path else None


def serve(request: dict[str, Any]) -> dict[str, Any]:
    """Return the response to one request, without its id. Raises OSError, ValueError and KeyError."""
    smartctl, timeout_s = str(request["smartctl"]), float(request["timeout_s"])
    do = str(request["do"])
    scan = do == "scan"
    kind, device = ("", "") if scan else (str(request["type"]), str(request["device"]))
    command = argv(do if scan or do in TEST_COMMANDS else "json", smartctl, kind, device)
    prefix: list[str] = []
    answer = run(command, timeout_s)
    refused = None
    sudo = sudo_prefix() if request.get("sudo") else None
    if sudo is not None and not answer.timed_out and (scan or _may_be_denied(do, answer)):
        sudo_answer = run([*sudo, *command], timeout_s)
        # A refusal by sudo begins with sudo's name; messages of smartctl do not.
        refused = sudo_answer.stderr.startswith(b"sudo:") and not sudo_answer.out
        if not refused:
            answer, prefix = sudo_answer, sudo
    response: dict[str, Any] = {
        "out": answer.out.decode("utf-8", "replace"),
        "stderr": answer.stderr.decode("utf-8", "replace")[:2000],
        "status": answer.status,
        "timed_out": answer.timed_out,
        "refused": refused,
    }
    if do == "read":
        parsed = parse_json(response["out"])
        readable = not answer.timed_out and (parsed is None or refusal(parsed) is None)
        response["pysmart_values"] = None
        try:
            response["pysmart_values"] = pysmart_values(smartctl, kind, device, prefix, timeout_s) if readable else None
        except Exception as error:  # smartctl's JSON is still there without pySMART's values
            response["pysmart_error"] = f"{type(error).__name__}: {error}"
    return response


def _may_be_denied(do: str, answer: Answer) -> bool:
    """Whether smartctl may have lacked the right to open the disk. Without JSON (before 7.0), this is unknown."""
    parsed = parse_json(answer.out.decode("utf-8", "replace"))
    if parsed is None:
        return do == "read"
    unavailable = refusal(parsed)
    return unavailable is not None and unavailable.status == "denied"


def main() -> None:
    """Serve requests until stdin ends."""
    signal.signal(signal.SIGTERM, _sigterm.handle)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests, responses = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb", buffering=0)
    # The output of a library must not mix with the responses.
    os.dup2(2, 1)
    for line in iter(lambda: requests.readline(_LONGEST_REQUEST_BYTES), b""):
        request = json.loads(line)
        try:
            response = serve(request)
        except Exception as error:  # report the error and go on with the next disk
            response = {"error": f"{type(error).__name__}: {error}"}
        responses.write(json.dumps({"id": request.get("id"), **response}).encode() + b"\n")


if __name__ == "__main__":
    main()
