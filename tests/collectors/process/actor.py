"""A process that follows commands: ``actor.py DIRECTORY NAME``.

It reads one command per line from the FIFO DIRECTORY/NAME.in and answers each with "NAME PID" in DIRECTORY/answers. The
commands are: write MEGABYTES, fork NAME, wait, ignore (SIGCHLD), subreaper, rename NAME (by prctl), and exit. Any other
command does nothing. Without a command for a minute, the process ends.
"""

import ctypes
import os
import select
import signal
import sys

PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 15, 36
LIBC = ctypes.CDLL(None)


def enter(directory: str, name: str) -> int:
    path = f"{directory}/{name}.in"
    os.mkfifo(path)
    return os.open(path, os.O_RDWR)


def main(directory: str, name: str) -> None:
    block = b"x" * (1 << 20)
    answers = os.open(f"{directory}/answers", os.O_RDWR)
    commands = enter(directory, name)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    output = -1
    while True:
        os.write(answers, f"{name} {os.getpid()}\n".encode())
        if not select.select([commands], [], [], 60)[0]:
            os._exit(1)
        line = b""
        while not line.endswith(b"\n"):
            line += os.read(commands, 1)
        verb, _, what = line.decode().strip("\n").partition(" ")
        if verb == "write":
            output = os.open(f"{directory}/{name}.data", os.O_CREAT | os.O_WRONLY, 0o600) if output < 0 else output
            for _ in range(int(what)):
                os.write(output, block)
        elif verb == "fork":
            if os.fork() == 0:
                os.close(commands)
                name, output, commands = what, -1, enter(directory, what)
        elif verb == "wait":
            os.wait()
        elif verb == "ignore":
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        elif verb == "subreaper":
            LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        elif verb == "rename":
            LIBC.prctl(PR_SET_NAME, what.encode("latin-1"), 0, 0, 0)
        elif verb == "exit":
            os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
