"""Free loopback ports for the servers that the tests start."""

import functools
import itertools
import os
import random
import socket
from collections.abc import Iterator

# Below the range from which the kernel takes the source ports of connections (32768 to 60999): a port of that range that
# is free now may be the source port of a connection when the server binds it, or when the server is started again; and a
# client that connects to it while no server listens can connect to itself.
_FIRST, _AFTER_LAST = 10240, 32768


@functools.cache
def _candidates(process: int) -> Iterator[int]:
    """All ports, from any of them on: processes in one network namespace seldom meet. Workers are forks."""
    start = random.SystemRandom().randrange(_FIRST, _AFTER_LAST)
    return itertools.cycle([*range(start, _AFTER_LAST), *range(_FIRST, start)])


def free_port() -> int:
    """A free TCP port that this process has not been given yet."""
    for port in itertools.islice(_candidates(os.getpid()), _AFTER_LAST - _FIRST):
        with socket.socket() as sock:
            try:
                sock.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("no TCP port is free")


def listening(port: int, host: str = "127.0.0.1") -> bool:
    with socket.socket() as sock:
        sock.settimeout(1)
        return sock.connect_ex((host, port)) == 0
