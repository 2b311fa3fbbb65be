"""The networks on which the hosts of a project's HA routers meet, and the VRRP ids of these routers.

A project has one such network, made with its first HA router and taken away with its last. It belongs to no project, so
that nobody finds it in their lists. A router's VRRP id is unique on it by a constraint, not by looking first.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Callable
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server import errors
from neutrino.server.context import admin_context
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database

LOG = logging.getLogger(__name__)
Object = dict[str, Any]
MOST_VR_IDS: Final = 255
_h, _r, _p = t.ha_networks.c, t.routers.c, t.ports.c


class HaNetworks:
    def __init__(
        self,
        db: Database,
        create_network: Callable[[Any, Object], Object],
        create_subnet: Callable[[Any, Object], Object],
        delete_network: Callable[[Any, str, int | None], None],
        cidr: str,
        network_type: str = "",
        physical_network: str = "",
    ) -> None:
        self._db = db
        self._create_network = create_network
        self._create_subnet = create_subnet
        self._delete_network = delete_network
        self._cidr = str(ipaddress.ip_network(cidr))
        self._provider = {
            name: value
            for name, value in (
                ("provider:network_type", network_type),
                ("provider:physical_network", physical_network),
            )
            if value
        }

    def ensure(self, project_id: str) -> str:
        """The project's HA network; of several requests that make it at once, one does."""
        found = self._find(project_id)
        if found is not None:
            return found
        own = admin_context()
        network = self._create_network(own, {**_NETWORK, "name": f"HA network tenant {project_id}", **self._provider})
        subnet = {
            **_SUBNET,
            "name": f"HA subnet tenant {project_id}",
            "network_id": network["id"],
            "cidr": self._cidr,
        }
        self._create_subnet(own, subnet)
        kept = self._db.retrying(lambda: self._keep(project_id, network["id"]))
        if kept != network["id"]:  # another request was faster
            self._delete_network(own, network["id"], None)
        return kept

    def _keep(self, project_id: str, network_id: str) -> str:
        """Make the network the project's HA network, unless there is one; which network it is now."""
        found = self._find(project_id)
        if found is not None:
            return found
        with self._db.transaction() as tx:
            tx.insert(t.ha_networks, [{"project_id": project_id, "network_id": network_id}])
        return network_id

    def _find(self, project_id: str) -> str | None:
        with self._db.read() as connection:
            found: str | None = connection.execute(sa.select(_h.network_id).where(_h.project_id == project_id)).scalar()
        return found

    def free_vr_id(self, connection: Connection, network_id: str) -> int:
        taken = set(connection.execute(sa.select(_r.ha_vr_id).where(_r.ha_network_id == network_id)).scalars())
        free = next((i for i in range(1, MOST_VR_IDS + 1) if i not in taken), None)
        if free is None:
            raise errors.NoVRIDAvailable()
        return free

    def discard(self, project_id: str) -> None:
        """Take the network away if the project has no HA router any more."""
        network_id = self._find(project_id)
        if network_id is None:
            return
        with self._db.read() as connection:
            used = connection.execute(sa.select(_r.id).where(_r.ha_network_id == network_id).limit(1)).first()
        if used is not None:
            return
        try:
            self._delete_network(admin_context(), network_id, None)
        except errors.ApiError as error:  # a router was made meanwhile, and needs it
            LOG.info("HA network %s stays: %s", network_id, error.message)


_NETWORK: Object = {
    "project_id": "",
    "admin_state_up": True,
    "shared": False,
    "router:external": False,
    "is_default": False,
    "mtu": 0,
    "port_security_enabled": False,
    "dns_domain": "",
    "availability_zone_hints": [],
    "description": "",
    "extra_dhcp_opts": None,
}
_SUBNET: Object = {
    "project_id": "",
    "ip_version": 4,
    "enable_dhcp": False,
    "gateway_ip": None,
    "description": "",
}
