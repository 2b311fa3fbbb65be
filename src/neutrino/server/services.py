"""Parts of the server that plugins are built with."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from oslo_config import cfg

from neutrino.server.db.session import Database
from neutrino.server.hosts.registry import Registry
from neutrino.server.quota.quotas import Quotas
from neutrino.server.securitygroups.groups import SecurityGroups

Object = dict[str, Any]


@dataclass(frozen=True)
class Services:
    conf: cfg.ConfigOpts
    db: Database
    quotas: Quotas
    registry: Registry
    security_groups: SecurityGroups
    # Called after the commit with a port before and after its change, for Nova.
    port_changed: Callable[[Object | None, Object | None], None]
    # The same for a floating IP, with the ports, by their ids, that it was and is associated with.
    floating_ip_changed: Callable[[Object | None, Object | None, Mapping[str, Object]], None]
    core: Any = None  # the core plugin, for service plugins, which are built after it
