"""Process 1 of the guest. It reads one request per line from the second serial port, and answers in one line.

{"cmd": "smartctl --scan", "timeout": 60} gets {"rc": 0, "out": "..."}. The first line is {"ready": seconds since boot}.
"""

import json
import os
import subprocess
import tty

port = os.open("/dev/ttyS1", os.O_RDWR | os.O_NOCTTY)
tty.setraw(port)


def send(reply: dict[str, object]) -> None:
    left = (json.dumps(reply) + "\n").encode()
    while left:
        left = left[os.write(port, left) :]


def run(request: dict[str, object]) -> dict[str, object]:
    try:
        done = subprocess.run(
            ["/bin/bash", "-c", str(request["cmd"])],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=float(str(request.get("timeout", 60))),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"rc": -1, "out": repr(error)}
    return {"rc": done.returncode, "out": done.stdout.decode("utf-8", "replace")}


def main() -> None:
    with open("/proc/uptime") as uptime:
        send({"ready": float(uptime.read().split()[0])})
    rest = b""
    while True:
        while b"\n" not in rest:
            rest += os.read(port, 4096)
        line, rest = rest.split(b"\n", 1)
        send(run(json.loads(line)))


main()
