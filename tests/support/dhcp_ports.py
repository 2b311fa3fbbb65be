"""DHCP agents that create their ports themselves: the scheduler writes placements alone."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, cast

from neutrino.server.db.session import Database
from neutrino.server.db.transaction import Transaction
from neutrino.server.dhcp.ports import DhcpPorts
from neutrino.server.dhcp.scheduler import DhcpScheduler
from neutrino.server.hosts.registry import Registry
from neutrino.server.scheduling.scheduler import SchedulingOptions


@dataclass(frozen=True)
class NoPorts:
    db: Database

    def reads(self, *what: Any) -> tuple[()]:
        return ()

    def steps(self, *_: Any, **__: Any) -> list[Any]:
        return []

    @property
    def operations(self) -> NoPorts:
        return self

    def write(self, contexts: Sequence[Any], pending: Sequence[Any]) -> AbstractContextManager[Transaction]:
        return self.db.transaction()

    def networks_incomplete_on(self, *_: Any) -> list[str]:
        return []

    def unbound(self, steps: Sequence[Any]) -> frozenset[str]:
        return frozenset()


def scheduler_without_ports(db: Database, registry: Registry, *options: Any, **more: Any) -> DhcpScheduler:
    ports = cast(DhcpPorts, NoPorts(db))
    return DhcpScheduler(db, registry, SchedulingOptions(*options, **more), ports, lambda cutoff: ())
