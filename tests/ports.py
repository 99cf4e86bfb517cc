"""Ports for servers that a test starts later, or again."""

from __future__ import annotations

import secrets
import socket


def free_port() -> int:
    """Return a free port that the system gives to nobody who asks for any port.

    A port that the system chose could be given to another program between now and the start of the server. It
    chooses from 32768 on Linux, and from 49152 elsewhere.
    """
    while True:
        port = 15_000 + secrets.randbelow(17_000)
        with socket.socket() as tried:
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
