"""Ports of the loopback interface."""

import random
import socket


def free_port() -> int:
    """Returns a free port, below those that systems assign to connections, so nothing takes it before the program listens."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
