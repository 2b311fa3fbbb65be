"""A mechanism driver for tests, which fails or blocks by files in a directory.

`fail-create_port_postcommit` makes that method raise. `block-create_port_postcommit` makes it create the file
`blocked-<pid>` and wait until its process is killed or the file is removed. Every call is appended to `calls`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from oslo_config import cfg

from neutrino.server.ml2.driver_api import DriverContext

LONGEST_WAIT = 60.0


class Faulty:
    name = "faulty"

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        conf.register_opts([cfg.StrOpt("directory")], group="ml2_faulty")
        self._directory = Path(conf.ml2_faulty.directory)

    def called(self, method: str, context: DriverContext) -> None:
        with open(self._directory / "calls", "a") as calls:
            calls.write(f"{method} {context.current['id']} {len(context.segments)}\n")
        block = self._directory / f"block-{method}"
        if block.exists():
            (self._directory / f"blocked-{os.getpid()}").touch()
            give_up = time.monotonic() + LONGEST_WAIT
            while block.exists() and time.monotonic() < give_up:
                time.sleep(0.01)
        if (self._directory / f"fail-{method}").exists():
            raise RuntimeError("the test wants this to fail")


def _method(name: str) -> Callable[[Faulty, DriverContext], None]:
    return lambda driver, context: driver.called(name, context)


_EVENTS = [
    *(f"{operation}_{kind}" for kind in ("network", "subnet", "port") for operation in ("create", "update", "delete")),
    *(f"{operation}_port_binding" for operation in ("create", "update", "activate", "delete")),
]
for _event in _EVENTS:
    for _phase in ("precommit", "postcommit"):
        setattr(Faulty, f"{_event}_{_phase}", _method(f"{_event}_{_phase}"))
