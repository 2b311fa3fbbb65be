"""Notifications to the service manager (systemd's Type=notify): a datagram to the socket that NOTIFY_SOCKET names."""

import os
import socket


def notify(state: str) -> bool:
    """Send `READY=1`, `STOPPING=1`, `STATUS=…`. Returns false if there is no service manager, or it does not listen."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return False
    if address.startswith("@"):  # the abstract namespace
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.sendto(state.encode(), address)
    except OSError:
        return False
    return True
