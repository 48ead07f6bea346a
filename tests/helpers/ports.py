"""A port for a server of a test."""

import random
import socket


def free_port():
    """A port of 127.0.0.1 that is free, and that the system gives to no other program which asks for any port: Linux
    takes those from 32768 on, macOS and Windows from 49152 on."""
    while True:
        port = random.SystemRandom().randrange(10_000, 32_768)
        with socket.socket() as tried:
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
