"""Example of a mechanism driver: writes every change to a file and binds nothing.

`neutrino.server.ml2.driver_api` documents the methods. The server calls those that a driver has, so a driver defines only
those it needs; this one has all of them, with the same body, and defines them in a loop.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable

from oslo_config import cfg

from neutrino.server.ml2.driver_api import DriverContext

OPTIONS = [cfg.StrOpt("path", help="The file that changes are written to.")]


class Logger:
    name = "logger"

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        conf.register_opts(OPTIONS, group="ml2_logger")
        self._path = conf.ml2_logger.path

    def log(self, phase: str, context: DriverContext) -> None:
        """One line per change, in one write to a file opened for appending: lines of several processes do not mix."""
        line = {
            "phase": phase,
            "operation": context.operation,
            "kind": context.kind,
            "id": context.current["id"],
            "revision": context.current.get("revision_number"),
            "status": context.current.get("status"),
            "host": context.current.get("host"),
            "port": None if context.port is None else context.port["id"],
            "network": context.network["id"],
            "in_transaction": context.tx is not None,
            "segments": [segment.network_type for segment in context.segments],
        }
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, json.dumps(line).encode() + b"\n")
        finally:
            os.close(file)


def _method(phase: str) -> Callable[[Logger, DriverContext], None]:
    return lambda driver, context: driver.log(phase, context)


_EVENTS = [
    *(f"{operation}_{kind}" for kind in ("network", "subnet", "port") for operation in ("create", "update", "delete")),
    *(f"{operation}_port_binding" for operation in ("create", "update", "activate", "delete")),
]
for _event in _EVENTS:
    for _phase in ("precommit", "postcommit"):
        setattr(Logger, f"{_event}_{_phase}", _method(_phase))
