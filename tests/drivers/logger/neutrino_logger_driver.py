"""A mechanism driver that writes every change to a file and binds nothing: a start for one of your own.

A driver is a class whose instances the server makes with its configuration. It may have, for `create`, `update` and
`delete` of a `network`, `subnet` or `port`,

* `…_precommit(change)`, which runs in the transaction. It can read and write by `change.tx`, must be quick, must not talk
  to anything outside, and refuses the change by raising: nothing of it stays.
* `…_postcommit(change)`, which runs after the transaction and may talk to equipment. When it raises on a create, the
  object is taken back and the client is told; on an update or delete the client is told, and the change stays. After a
  crash of the server it may run a second time for the same change, so it has to bear that.

`change.current` is the object as it is now (as it was, on a delete), `change.original` what it was before an update,
`change.network` the network it belongs to and `change.segments` the segments of a network. A driver that wires ports has
`bind_port(port)`, too, which answers with `Bound`, `Continue` or None. Only methods that are there are called, so a
driver writes down those it needs; this one needs all of the same kind and makes them in a loop.
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

    def log(self, phase: str, change: DriverContext) -> None:
        """One line a change. Lines of several processes do not mix: each is one write to a file opened for appending."""
        line = {
            "phase": phase,
            "operation": change.operation,
            "kind": change.kind,
            "id": change.current["id"],
            "revision": change.current["revision_number"],
            "in_transaction": change.tx is not None,
            "segments": [segment.network_type for segment in change.segments],
        }
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, json.dumps(line).encode() + b"\n")
        finally:
            os.close(file)


def _method(phase: str) -> Callable[[Logger, DriverContext], None]:
    return lambda driver, change: driver.log(phase, change)


for _operation in ("create", "update", "delete"):
    for _kind in ("network", "subnet", "port"):
        for _phase in ("precommit", "postcommit"):
            setattr(Logger, f"{_operation}_{_kind}_{_phase}", _method(_phase))
