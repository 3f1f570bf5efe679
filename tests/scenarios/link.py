"""A second network on this machine, which is reached through a pair of interfaces and has a server in it."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tests.rigs.slowdisk.loop import run
from tests.scenarios.place import die_with_us


class Link(NamedTuple):
    """The link to the second network. near: the interface on our side. address: the address of the server."""

    near: str
    address: str


@contextlib.contextmanager
def linked_server(command: Sequence[str], near: str, far: str, net: str) -> Iterator[Link]:
    """Run a server in a second network; it must print a line once it listens.

    near, far: the first parts of the interfaces' names. net: the first two numbers of the addresses, such as "10.231".

    The network ends with the server, the server ends with this process, and the interfaces end with the network.
    """
    number = os.getpid() % 10_000
    near, far, net = f"{near}{number}", f"{far}{number}", f"{net}.{number % 250}"
    command = ["unshare", "--net", *command]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=die_with_us) as server:
        try:
            assert server.stdout is not None
            if not server.stdout.readline():
                raise RuntimeError(f"the server ended with {server.wait()}")
            pid = str(server.pid)
            run("ip", "link", "add", near, "type", "veth", "peer", "name", far, "netns", pid)
            run("ip", "address", "add", f"{net}.1/30", "dev", near)
            run("ip", "link", "set", near, "up")
            inside = ("nsenter", "-t", pid, "-n", "ip")
            run(*inside, "address", "add", f"{net}.2/30", "dev", far)
            run(*inside, "link", "set", far, "up")
            yield Link(near, f"{net}.2")
        finally:
            server.kill()
