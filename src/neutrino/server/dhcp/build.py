"""DHCP as the core plugin uses it, and the scheduler, which the core plugin has built on its own networks and ports.

The core plugin needs the DHCP scheduler (a subnet needs agents and ports), and the scheduler needs the core's ports. The
composition root passes this object to the core plugin, so `server/ml2` imports nothing of `server/dhcp`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from oslo_config import cfg
from sqlalchemy.engine import Connection

from neutrino.server.db.session import Database
from neutrino.server.dhcp.lease_providers import has_live_provider, is_provider, without_live_provider
from neutrino.server.dhcp.ports import DhcpPorts
from neutrino.server.dhcp.scheduler import NETWORKS, DhcpScheduler, scheduling_options
from neutrino.server.hosts.registry import Registry
from neutrino.server.ml2.networks import Networks
from neutrino.server.ml2.operations import Operations
from neutrino.server.ml2.ports.collection import Ports
from neutrino.server.ml2.ports.provisioning import LeaseProviders, Provisioning

Object = dict[str, Any]
LEASE_PROVIDERS = LeaseProviders(is_provider, without_live_provider)


@dataclass(frozen=True)
class Dhcp:
    conf: cfg.ConfigOpts
    db: Database
    registry: Registry
    lease_providers: LeaseProviders = LEASE_PROVIDERS

    def zones_of(self, connection: Connection, network_ids: Sequence[str]) -> dict[str, list[str]]:
        return NETWORKS.zones_of(connection, network_ids)

    def has_live_provider(self, connection: Connection, network_id: str, subnets: Sequence[str], host: str) -> bool:
        return has_live_provider(connection, network_id, subnets, host, self.registry.cutoff())

    def scheduler(
        self,
        networks: Networks,
        ports: Ports,
        operations: Operations,
        provisioning: Provisioning,
        port_changed: Callable[[Object | None, Object | None], None],
    ) -> DhcpScheduler:
        dhcp_ports = DhcpPorts(networks, ports, operations, port_changed, self.conf.base_mac)
        options = scheduling_options(self.conf)
        return DhcpScheduler(self.db, self.registry, options, dhcp_ports, provisioning.release_unserved)

    def scheduler_without_ports(self) -> DhcpScheduler:
        """For a core plugin that leaves DHCP ports to its agents."""
        return DhcpScheduler(self.db, self.registry, scheduling_options(self.conf))
