"""A process of the tiny cluster: reports its birth on a Unix socket, then does what it is told there.

The socket's end tells the test of its death, whoever caused it.
"""

import os
import signal
import socket
import subprocess
import sys
import time


def main() -> None:
    name, nursery, *flags = sys.argv[1:]
    if "die-at-once" in flags:
        print("the tiny child cannot find its toys", flush=True)
        sys.exit(3)
    signal.signal(signal.SIGTERM, signal.SIG_IGN if "stubborn" in flags else lambda *_: sys.exit(0))
    line = socket.socket(socket.AF_UNIX)
    line.connect(nursery)
    line.sendall(f"{name} {os.getpid()}\n".encode())
    if "mother" in flags:
        # It keeps no pipe, has a session of its own, and inherits the socket only in its own name.
        command = [sys.executable, __file__, f"{name}-child", nursery, "stubborn"]
        subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for order in line.makefile():
        word, _, rest = order.strip().partition(" ")
        if word == "exit":
            sys.exit(int(rest))
        if word == "print":
            print("x" * int(rest), flush=True)
            line.sendall(b"printed\n")
    while True:  # the test is gone
        time.sleep(60)


if __name__ == "__main__":
    main()
