"""Stands for a program of Python: has it run by a Python that has everything loaded, and ends as that process does.

    python -I -S launcher.py SOCKET PYTHON WORD...

For those who take a command, and start it by themselves. It imports little, for it is started each time.
"""

import json
import os
import signal
import socket
import sys


def main(address: str, python: str, *words: str) -> None:
    """`words`: what Python is given."""
    if not words or (words[0].startswith("-") and words[0] not in ("-m", "-c", "-W")):
        os.execv(python, [python, *words])
    client = socket.socket(socket.AF_UNIX)
    client.connect(address)
    order = json.dumps({"command": words, "folder": os.getcwd(), "environment": dict(os.environ)}).encode()
    text = len(order).to_bytes(4, "big") + order
    client.sendall(text[socket.send_fds(client, [text], [0, 1, 2]) :])
    told = client.makefile("r")
    pid = int(told.readline())
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, frame: os.kill(pid, number))
    code = int(told.readline())
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
