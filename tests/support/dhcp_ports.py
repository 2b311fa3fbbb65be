"""DHCP agents that create their ports themselves: the scheduler writes placements alone."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from neutrino.server.db.session import Database
from neutrino.server.db.transaction import Transaction
from neutrino.server.dhcp.ports import DhcpPorts
from neutrino.server.dhcp.scheduler import DhcpScheduler
from neutrino.server.hosts.registry import Registry
from neutrino.server.scheduling.scheduler import SchedulingOptions


class NoPorts(DhcpPorts):
    def __init__(self, db: Database) -> None:
        self._db = db

    def steps(self, *_: Any, **__: Any) -> list[Any]:
        return []

    def write(self, steps: Sequence[Any]) -> AbstractContextManager[Transaction]:
        return self._db.transaction()

    def networks_incomplete_on(self, *_: Any) -> list[str]:
        return []


def scheduler_without_ports(db: Database, registry: Registry, *options: Any, **more: Any) -> DhcpScheduler:
    return DhcpScheduler(db, registry, SchedulingOptions(*options, **more), NoPorts(db), lambda cutoff: ())
