"""Builds the DHCP scheduler on the core plugin's networks and ports, and registers it with them.

The core imports nothing of `server/dhcp`: it calls what is registered here when subnets and ports change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy.engine import Connection

from neutrino.server.dhcp.lease_providers import has_live_provider, is_provider, without_live_provider
from neutrino.server.dhcp.ports import DhcpPorts
from neutrino.server.dhcp.scheduler import DhcpScheduler, scheduling_options
from neutrino.server.hosts.registry import Registry
from neutrino.server.ipam.allocation import DHCP_OWNER
from neutrino.server.ml2.operations import PendingWrite
from neutrino.server.ml2.ports.provisioning import LeaseProviders
from neutrino.server.services import Services

Object = dict[str, Any]


def build(services: Services) -> DhcpScheduler:
    conf, db, core = services.conf, services.db, services.core
    ports = DhcpPorts(core.networks, core.ports, core.operations, services.port_changed, conf.base_mac)
    release = core.provisioning.release_unserved
    scheduler = DhcpScheduler(db, services.registry, scheduling_options(conf), ports, release)
    core.subnets.observers.append(_SubnetObserver(scheduler, ports))

    def port_changed(before: Object | None, after: Object | None) -> None:
        if before is not None and after is None and before["device_owner"] == DHCP_OWNER:
            scheduler.settle(before["network_id"])  # somebody deleted the port that an agent serves from

    core.ports.commit_hooks.append(port_changed)
    return scheduler


def lease_providers(registry: Registry) -> LeaseProviders:
    def has_live(connection: Connection, network_id: str, subnets: Sequence[str], host: str) -> bool:
        return has_live_provider(connection, network_id, subnets, host, registry.cutoff())

    return LeaseProviders(has_live, is_provider, without_live_provider)


class _SubnetObserver:
    """Keeps DHCP ports and agents of a network in line with its subnets (`ml2.subnets.SubnetObserver`)."""

    def __init__(self, scheduler: DhcpScheduler, ports: DhcpPorts) -> None:
        self._scheduler = scheduler
        self._ports = ports

    def prepare(self, connection: Connection, network_id: str, subnets: Sequence[Object]) -> list[PendingWrite]:
        return self._ports.steps(connection, network_id, subnets=subnets)

    def committed(
        self, network: Object, before: Object | None, after: Object | None, writes: Sequence[PendingWrite]
    ) -> None:
        self._ports.notify(writes)
        had = before is not None and before["enable_dhcp"]
        has = after is not None and after["enable_dhcp"]
        if has and not had:
            self._scheduler.schedule(network["id"], network["availability_zone_hints"])
        elif had and not has and after is not None:
            self._scheduler.settle(network["id"])
