"""What a plugin may build on: the parts of the server that are there before any plugin is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oslo_config import cfg

from neutrino.server.db.session import Database
from neutrino.server.hosts.registry import Registry
from neutrino.server.quota.quotas import Quotas
from neutrino.server.securitygroups.groups import SecurityGroups

if TYPE_CHECKING:
    from neutrino.server.dhcp.build import Dhcp

Object = dict[str, Any]


@dataclass(frozen=True)
class Services:
    conf: cfg.ConfigOpts
    db: Database
    quotas: Quotas
    registry: Registry
    dhcp: Dhcp  # for the core plugin, which has the scheduler built
    security_groups: SecurityGroups
    port_changed: Callable[[Object | None, Object | None], None]  # before and after, for those who must be told
    # The same of a floating IP, with the ports, by their ids, that it was and is in front of.
    floating_ip_changed: Callable[[Object | None, Object | None, Mapping[str, Object]], None] = (
        lambda before, after, ports: None
    )
    core: Any = None  # the core plugin, for those that are built after it
