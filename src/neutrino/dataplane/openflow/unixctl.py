"""Commands to a running ovs-vswitchd over its control socket, as `ovs-appctl` sends them.

Flushing a thousand connections takes a thousand commands, and a process for each would take seconds. The client of the
`ovs` library has no timeout: it would hang with the switch.
"""

import contextlib
import json
import socket
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

DEFAULT_RUN_DIRECTORY = "/var/run/openvswitch"
_PROGRAM = "ovs-vswitchd"
_CHUNK = 1 << 18


class ControlError(Exception):
    """The switch did not answer, or rejected a command."""


def control_socket(run_directory: str) -> str:
    """The control socket of the ovs-vswitchd with this run directory."""
    pid_file = Path(run_directory) / f"{_PROGRAM}.pid"
    try:
        return str(Path(run_directory) / f"{_PROGRAM}.{int(pid_file.read_text())}.ctl")
    except (OSError, ValueError) as error:
        raise ControlError(f"{pid_file}: {error}") from error


class ControlConnection:
    """A connection for any number of commands; `timeout` is for all of them together."""

    def __init__(self, path: str, timeout: float) -> None:
        self._path = path
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._number = 0

    def __enter__(self) -> Self:
        try:
            self._socket.settimeout(self._left())
            self._socket.connect(self._path)
        except OSError as error:
            self._socket.close()
            raise ControlError(f"{self._path}: {error}") from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._socket.close()

    def call(self, command: str, *arguments: str) -> str:
        self._number += 1
        request = {"id": self._number, "method": command, "params": list(arguments)}
        try:
            self._socket.settimeout(self._left())
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
            self._socket.settimeout(self._left())
            chunk = self._socket.recv(_CHUNK)
            if not chunk:
                raise ControlError("the switch has closed the connection")
            received += chunk
            if chunk.endswith(b"}"):  # the end of the message, or of a text inside it, which does not parse yet
                with contextlib.suppress(ValueError):
                    answer: dict[str, Any] = json.loads(received)
                    return answer

    def _left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise ControlError(f"the switch did not answer within {self._timeout:.0f} s")
        return left
