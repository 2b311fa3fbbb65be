"""HA networks: the network on which the hosts of a project's HA routers exchange VRRP, and the VRRP ids of the routers.

A project has one, created with its first HA router and deleted with its last. It belongs to no project, so that no tenant
finds it in lists. A constraint keeps the VRRP id of a router unique on it.

It may be deleted, with the last router, while another router becomes HA. Then that router's row in `ha_router_networks`
violates its foreign key, or the delete does; the loser decides again. So `ensure` is part of the attempt that is repeated.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa
from msgspec import UNSET
from sqlalchemy.engine import Connection

from neutrino.features.router.errors import DuplicatedHANetwork, NoVRIDAvailable
from neutrino.features.router.tables import ha_networks, ha_router_networks, routers
from neutrino.model.objects import Object, Values
from neutrino.server import errors
from neutrino.server.api.resources.network import NETWORK
from neutrino.server.context import admin_context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import exists
from neutrino.server.db.session import Database, Stale, retried
from neutrino.server.db.transaction import Transaction
from neutrino.server.ml2.networks import Networks
from neutrino.server.ml2.subnets import Subnets

LOG = logging.getLogger(__name__)
MAX_VR_ID: Final = 255  # one byte in VRRP: the most HA routers of a project
_DEFAULTS = {a.name: a.default for a in NETWORK.attributes if a.post and a.default is not UNSET}
_NETWORK: Final[Object] = {**_DEFAULTS, "project_id": "", "port_security_enabled": False}
_SUBNET: Final[Object] = {
    "project_id": "",
    "description": "",
    "ip_version": 4,
    "enable_dhcp": False,
    "gateway_ip": None,
}


@dataclass(frozen=True)
class HaNetworks:
    db: Database
    networks: Networks
    subnets: Subnets
    cidr: str
    provider: Object  # provider attributes of the networks; none: as those of tenants

    def ensure(self, project_id: str) -> str:
        """The id of the project's HA network, which is created if there is none."""
        known = self._find(project_id)
        if known is not None:
            return known
        own = admin_context()
        network = {**_NETWORK, "name": f"HA network tenant {project_id}", **self.provider}
        network_id: str = self.networks.create(own, network)["id"]
        subnet = {"name": f"HA subnet tenant {project_id}", "network_id": network_id, "cidr": self.cidr}
        try:
            self.subnets.create(own, {**_SUBNET, **subnet})
            # The primary key decides between concurrent requests; no lock is held while drivers create the network.
            kept = self._keep(project_id, network_id)
        except Exception:
            self._take_back(network_id)
            raise
        if kept != network_id:  # a concurrent request created one first
            self.networks.delete(own, network_id, None)
        return kept

    def _take_back(self, network_id: str) -> None:
        """Delete a network that has no subnet or no record: nothing would find it again, and each attempt would add one."""
        try:
            self.networks.delete(admin_context(), network_id, None)
        except Exception:  # the error that led here is the one to show
            LOG.exception("network %s, created for HA routers, is not used and could not be deleted", network_id)

    @retried
    def _keep(self, project_id: str, network_id: str) -> str:
        """Record the network as the project's HA network, unless it has one; gives the id of the recorded one."""
        known = self._find(project_id)
        if known is not None:
            return known
        with self.db.transaction() as tx:
            tx.insert(ha_networks, [{"project_id": project_id, "network_id": network_id}])
        return network_id

    def _find(self, project_id: str) -> str | None:
        with self.db.read() as connection:
            network_id: str | None = connection.execute(
                sa.select(ha_networks.c.network_id).where(ha_networks.c.project_id == project_id)
            ).scalar()
        return network_id

    def values(self, connection: Connection, network_id: str) -> Object:
        """The columns of a router that becomes HA: its network, and a VRRP id that is free there."""
        taken = set(
            connection.execute(sa.select(routers.c.ha_vr_id).where(routers.c.ha_network_id == network_id)).scalars()
        )
        free = next((number for number in range(1, MAX_VR_ID + 1) if number not in taken), None)
        if free is None:
            raise NoVRIDAvailable()
        return {"ha_network_id": network_id, "ha_vr_id": free}

    @contextmanager
    def in_use(self, network_id: str | None) -> Iterator[None]:
        """While a router is decided on that will be on this network: Stale if the network is deleted meanwhile."""
        try:
            yield
        except errors.NotFound as error:
            with self.db.read() as connection:
                if network_id is None or exists(connection, t.networks.c.id == network_id):
                    raise
            raise Stale from error

    @staticmethod
    def refer(tx: Transaction, before: Values | None, after: Values) -> None:
        """Write the reference of a router to its HA network, in the transaction of the router."""
        old, new = None if before is None else before["ha_network_id"], after["ha_network_id"]
        if old == new:
            return
        if old is not None:
            tx.write(sa.delete(ha_router_networks).where(ha_router_networks.c.router_id == after["id"]))
        if new is not None:
            tx.insert(ha_router_networks, [{"router_id": after["id"], "network_id": new}])

    def without_network(self) -> list[str]:
        """HA routers that have lost their network, as in databases of earlier releases."""
        with self.db.read() as connection:
            return list(
                connection.execute(
                    sa.select(routers.c.id).where(routers.c.ha, routers.c.ha_network_id.is_(None))
                ).scalars()
            )

    def delete_unused(self, project_id: str) -> None:
        """Delete the network if the project has no HA router any more."""
        network_id = self._find(project_id)
        if network_id is None:
            return
        with self.db.read() as connection:
            if exists(connection, routers.c.ha_network_id == network_id):
                return
        try:
            self.networks.delete(admin_context(), network_id, None)
        except errors.ApiError as error:  # a router was created meanwhile, and has ports on it
            LOG.info("HA network %s is kept: %s", network_id, error.message)


# --- requests for networks with `ha`, and of networks that HA routers need --------------------------------------------


def check_network(connection: Connection, network: Object) -> None:
    """Refuse a second HA network of a project."""
    if network.get("ha") and exists(connection, ha_networks.c.project_id == network["project_id"]):
        raise DuplicatedHANetwork(project_id=network["project_id"])


def record_network(tx: Transaction, network: Object) -> None:
    if network.get("ha"):
        tx.insert(ha_networks, [{"project_id": network["project_id"], "network_id": network["id"]}])


def routers_on(connection: Connection, network_id: str) -> list[str]:
    """HA routers of a network: they have no ports there while they have no agent."""
    ids = sa.select(ha_router_networks.c.router_id).where(ha_router_networks.c.network_id == network_id)
    return [f"of HA router {router_id}" for router_id in connection.execute(ids).scalars()]
