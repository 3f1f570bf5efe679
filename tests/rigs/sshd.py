"""A real OpenSSH server on 127.0.0.1 with new keys and a free port, and a client to which it is known as "box"."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

SERVER = "/usr/sbin/sshd"
TOP = Path(__file__).resolve().parents[2]
HOST = "box"
_START_S = 20.0


def why_no_sshd() -> str:
    """The reason why this rig cannot run here; "" if it can."""
    if not os.path.exists(SERVER):
        return "needs sshd (openssh-server)"
    if not shutil.which("ssh") or not shutil.which("ssh-keygen"):
        return "needs ssh (openssh-client)"
    if os.geteuid() == 0 and not os.path.isdir("/run/sshd"):
        try:
            # this is sshd's privilege separation directory, which the package's service normally creates
            os.mkdir("/run/sshd", 0o755)
        except OSError as error:
            return f"/run/sshd: {error.strerror}"
    return ""


class Sshd:
    """Use it as ``with Sshd(folder) as server: subprocess.run(["ssh", "box", "true"], env=server.environment)``.

    program: whether iotop-ai is in the PATH after login. environment: variables with which ``ssh`` finds the host.
    """

    def __init__(self, folder: Path, *, program: bool = True) -> None:
        self.folder = folder
        self._has_program = program
        self._server: subprocess.Popen[bytes] | None = None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.environment = {
            "PATH": f"{folder / 'client'}:{os.environ.get('PATH', os.defpath)}",
            "IOTOP_AI_SSH": str(folder / "client" / "ssh"),
        }

    def __enter__(self) -> Sshd:
        folder = self.folder
        for name in ("client", "there"):
            (folder / name).mkdir()
        for name in ("hostkey", "key", "otherkey"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
        (folder / "authorized").write_text((folder / "key.pub").read_text())
        if self._has_program:
            program = folder / "there" / "iotop-ai"
            program.write_text(f'#!/bin/sh\nPYTHONPATH={TOP} exec {sys.executable} -m iotop_ai "$@"\n')
            program.chmod(0o755)
        (folder / "sshd_config").write_text(
            f"ListenAddress 127.0.0.1\nPort {self.port}\nHostKey {folder / 'hostkey'}\nPidFile none\n"
            f"AuthorizedKeysFile {folder / 'authorized'}\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n"
            f"KbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n"
            f"SetEnv PATH={folder / 'there'}:/usr/bin:/bin\n"
        )
        public = (folder / "hostkey.pub").read_text().split()[:2]
        (folder / "known").write_text(f"[127.0.0.1]:{self.port} {' '.join(public)}\n")
        self.write_client_config()
        ssh = folder / "client" / "ssh"
        ssh.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {folder / "ssh_config"} "$@"\n')
        ssh.chmod(0o755)
        with (folder / "sshd.log").open("wb") as log:
            self._server = subprocess.Popen(
                [SERVER, "-D", "-e", "-f", str(folder / "sshd_config")], stdout=log, stderr=log, start_new_session=True
            )
        end = time.monotonic() + _START_S
        while time.monotonic() < end:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return self
            if self._server.poll() is not None:
                break
            time.sleep(0.05)
        self.__exit__(None, None, None)
        raise RuntimeError(f"sshd does not answer: {(folder / 'sshd.log').read_text()[-500:]}")

    def write_client_config(
        self, *, key: str = "key", port: int | None = None, known: Path | None = None, options: Sequence[str] = ()
    ) -> None:
        """Write the configuration of the client: the key, the port, the known hosts and further lines."""
        lines = [
            f"Host {HOST}", "HostName 127.0.0.1", f"Port {self.port if port is None else port}",
            f"IdentityFile {self.folder / key}", "IdentitiesOnly yes", "IdentityAgent none",
            f"UserKnownHostsFile {known or self.folder / 'known'}", "GlobalKnownHostsFile none", "UpdateHostKeys no",
            "ConnectTimeout 10", *options,
        ]  # fmt: skip
        (self.folder / "ssh_config").write_text("\n".join(lines) + "\n")

    def sessions(self) -> list[int]:
        """The pids of the server's processes, one for each open connection."""
        assert self._server is not None
        text = Path(f"/proc/{self._server.pid}/task/{self._server.pid}/children").read_text()
        return [int(pid) for pid in text.split()]

    def cut(self) -> None:
        """End every connection without a message, as if the cable were pulled."""
        for pid in self.sessions():
            for below in (pid, *_below(pid)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(below, signal.SIGKILL)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None and self._server.poll() is None:
            self.cut()
            self._server.terminate()
            self._server.wait(10)


def _below(pid: int) -> list[int]:
    """The pids of all descendants."""
    try:
        children = [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return [p for child in children for p in (child, *_below(child))]
