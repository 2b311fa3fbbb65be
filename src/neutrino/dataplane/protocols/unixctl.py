"""Commands to a running ovs-vswitchd over its control socket, as `ovs-appctl` sends them.

Flushing a thousand connections takes a thousand commands, and a process for each would take seconds. The client of the
`ovs` library has no timeout: it would hang with the switch.
"""

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DEFAULT_RUN_DIRECTORY = "/var/run/openvswitch"
_PROGRAM = "ovs-vswitchd"
_CHUNK = 1 << 18


class ControlError(Exception):
    """The switch did not answer, or rejected a command."""


class ControlConnection:
    """A connection for any number of commands; `timeout` is for all of them together."""

    def __init__(self, connection: socket.socket, timeout: float) -> None:
        self._socket = connection
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout
        self._number = 0

    def call(self, command: str, *arguments: str) -> str:
        self._number += 1
        request = {"id": self._number, "method": command, "params": list(arguments)}
        try:
            self._limit()
            self._socket.sendall(json.dumps(request).encode())
            answer = self._receive()
        except OSError as error:
            raise ControlError(f"{command}: {str(error) or 'the switch does not answer'}") from error
        if answer.get("error") is not None:
            raise ControlError(f"{command}: {str(answer['error']).strip()}")
        return str(answer.get("result") or "")

    def _receive(self) -> dict[str, Any]:
        received = bytearray()
        while True:
            self._limit()
            chunk = self._socket.recv(_CHUNK)
            if not chunk:
                raise ControlError("the switch has closed the connection")
            received += chunk
            if chunk.endswith(b"}"):  # the end of the message, or of a text inside it, which does not parse yet
                with contextlib.suppress(ValueError):
                    answer: dict[str, Any] = json.loads(received)
                    return answer

    def _limit(self) -> None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise ControlError(f"the switch did not answer within {self._timeout:.0f} s")
        self._socket.settimeout(left)


@contextlib.contextmanager
def control_connection(run_directory: str, timeout: float) -> Iterator[ControlConnection]:
    """Connects to the ovs-vswitchd with this run directory; empty: the default one."""
    directory = Path(run_directory or DEFAULT_RUN_DIRECTORY)
    where = directory / f"{_PROGRAM}.pid"  # the name of the socket has the pid
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            where = directory / f"{_PROGRAM}.{int(where.read_text())}.ctl"
            connection.settimeout(timeout)
            connection.connect(str(where))
        except (OSError, ValueError) as error:
            raise ControlError(f"{where}: {error}") from error
        yield ControlConnection(connection, timeout)
