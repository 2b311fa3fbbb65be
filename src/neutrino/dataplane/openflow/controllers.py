"""Whether a program serves OpenFlow at the address of a controller, as Neutron's agent does while it runs."""

import socket

_SECONDS = 1.0


def is_served(target: str) -> bool:
    """Whether a connection to a controller such as tcp:127.0.0.1:6633 or tcp:[::1]:6633 is accepted."""
    kind, _, address = target.partition(":")
    host, _, port = address.rpartition(":")
    if kind != "tcp" or not port.isdigit():
        return False
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_SECONDS):
            return True
    except OSError:
        return False
