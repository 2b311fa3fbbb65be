"""Plugs devices into the integration bridge of a host as os-vif does: one transaction on a connection that it keeps."""

from __future__ import annotations

import json
import socket
import threading
import time
from pathlib import Path
from typing import Any

from qa.bench.client import LoadError

_SECONDS = 60.0
_IDLE_SECONDS = 3.0  # the database ends connections that do not answer its echo requests, sent after five idle seconds
_DATABASE = "Open_vSwitch"


class Plugger:
    """The clients of one host share it. `database` is the socket of the host's ovsdb-server."""

    def __init__(self, database: Path, bridge: str) -> None:
        self._database = str(database)
        self._bridge = bridge
        self._lock = threading.Lock()
        self._connect()
        self._ports: dict[str, str] = {}  # rows by device

    def _connect(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(_SECONDS)
        self._socket.connect(self._database)
        self._received = ""
        self._used = time.monotonic()

    def close(self) -> None:
        self._socket.close()

    def plug(self, device: str, port: str, mac: str, instance: str) -> None:
        ids = {"iface-id": port, "iface-status": "active", "attached-mac": mac, "vm-uuid": instance}
        interface = {"name": device, "external_ids": ["map", [*ids.items()]]}
        inserted = self._transact(
            {"op": "insert", "table": "Interface", "uuid-name": "interface", "row": interface},
            {
                "op": "insert",
                "table": "Port",
                "uuid-name": "port",
                "row": {"name": device, "interfaces": ["named-uuid", "interface"]},
            },
            self._mutation("insert", ["named-uuid", "port"]),
        )
        self._ports[device] = inserted[1]["uuid"][1]

    def unplug(self, device: str) -> None:
        self._transact(self._mutation("delete", ["uuid", self._ports.pop(device)]))

    def _mutation(self, kind: str, port: list[str]) -> dict[str, Any]:
        where = [["name", "==", self._bridge]]
        return {"op": "mutate", "table": "Bridge", "where": where, "mutations": [["ports", kind, port]]}

    def _transact(self, *operations: dict[str, Any]) -> list[dict[str, Any]]:
        with self._lock:
            if (
                time.monotonic() - self._used > _IDLE_SECONDS
            ):  # nothing has answered meanwhile: a slow server may take long
                self._socket.close()
                self._connect()
            self._send({"method": "transact", "params": [_DATABASE, *operations], "id": 1})
            while (message := self._receive()).get("method") == "echo":
                self._send({"id": message["id"], "result": message["params"], "error": None})
            self._used = time.monotonic()
        failed = [each for each in message["result"] if each and "error" in each]
        if message.get("error") or failed:
            raise LoadError(f"OVSDB: {message.get('error') or failed}")
        return list(message["result"])

    def _send(self, message: dict[str, Any]) -> None:
        self._socket.sendall(json.dumps(message).encode())

    def _receive(self) -> dict[str, Any]:
        """The next message: they follow each other without a separator."""
        while True:
            try:
                message, end = json.JSONDecoder().raw_decode(self._received)
            except ValueError:
                data = self._socket.recv(65536)
                if not data:
                    raise LoadError("OVSDB has closed the connection") from None
                self._received += data.decode()
            else:
                self._received = self._received[end:].lstrip()
                return dict(message)
