"""Faults of PostgreSQL with a synchronous standby."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from neutrino.server.db.session import Database
from qa.bench.workbench import progress
from qa.faults.failover.cloud import Result, cloud
from qa.faults.failover.standby import Pair, pair

SCENARIOS = {
    "postgres-calm": "no fault",
    "postgres-kill": "the primary is killed, the standby promoted, the old primary rejoins by pg_rewind",
    "postgres-freeze": "the primary is stopped (SIGSTOP), then fenced by SIGKILL, and the standby promoted",
    "postgres-isolate": "the primary loses its clients and its standby without any answer; then as above",
    "postgres-restart": "the primary is restarted in order",
    "postgres-standby": "the standby is killed: synchronous commits wait until it is taken out",
}
SETTLE = 4.0
DETECT = 3.0  # seconds after which a failover manager acts


def run(names: Sequence[str], seconds: float) -> Iterator[Result]:
    with contextlib.ExitStack() as stack:
        progress("start PostgreSQL with a standby")
        databases = stack.enter_context(pair())
        nodes = _Databases(databases)
        stack.callback(nodes.close)
        faults = Faults(databases, seconds)
        made = stack.enter_context(cloud([databases.url()] * 3, nodes, {}))
        for name in names:
            yield made.run(name, getattr(faults, name.removeprefix("postgres-")), SETTLE)


class _Databases:
    def __init__(self, databases: Pair) -> None:
        self._pair = databases
        self._made: list[Database] = []

    def __call__(self) -> Mapping[str, Database]:
        self.close()
        self._made = [Database(self._pair.url())]
        return {"primary": self._made[0]}

    def close(self) -> None:
        for db in self._made:
            db.close()


class Faults:
    def __init__(self, databases: Pair, seconds: float) -> None:
        self._pair = databases
        self._seconds = seconds

    def _fail_over(self, detect: float, heal: Callable[[], object] = lambda: None) -> float:
        """As a failover manager does: notice, fence, promote; later the old primary rejoins."""
        time.sleep(detect)
        old = self._pair.primary
        progress("    fence the primary and promote the standby")
        old.kill()
        heal()
        self._pair.fail_over()
        time.sleep(self._seconds)
        progress("    rejoin the old primary")
        began = time.monotonic()
        self._pair.rejoin()
        return time.monotonic() - began

    def calm(self) -> float:
        time.sleep(self._seconds)
        return 0.0

    def kill(self) -> float:
        progress("    kill the primary")
        self._pair.primary.kill()
        return self._fail_over(DETECT)

    def freeze(self) -> float:
        progress("    stop the primary")
        self._pair.primary.freeze()
        return self._fail_over(DETECT)

    def isolate(self) -> float:
        progress("    isolate the primary")
        old = self._pair.primary
        old.network.isolate()
        return self._fail_over(DETECT, old.network.heal)

    def restart(self) -> float:
        progress("    restart the primary")
        began = time.monotonic()
        self._pair.primary.shut_down()
        self._pair.primary.start()
        took = time.monotonic() - began
        time.sleep(self._seconds)
        return took

    def standby(self) -> float:
        progress("    kill the standby")
        self._pair.standby.kill()
        time.sleep(DETECT)
        progress("    take it out of synchronous_standby_names")
        self._pair.primary.set("synchronous_standby_names", "")
        time.sleep(self._seconds)
        began = time.monotonic()
        self._pair.join_standby()
        return time.monotonic() - began
