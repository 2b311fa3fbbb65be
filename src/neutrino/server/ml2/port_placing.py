"""Putting ports on hosts: which driver binds them there, and what they wait for before they are ACTIVE."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server.db import tables as t
from neutrino.server.db.objects import as_row
from neutrino.server.db.transaction import Transaction
from neutrino.server.ipam.allocation import DHCP_OWNER
from neutrino.server.ml2.driver_api import PortToBind
from neutrino.server.ml2.ports import provisioning
from neutrino.server.ml2.ports.binding import UNBOUND, Binding, bind
from neutrino.server.ml2.ports.rows import binding_row
from neutrino.server.ml2.segments import read_segments

Object = dict[str, Any]
_b = t.port_bindings.c


@dataclass(frozen=True)
class Placing:
    drivers: Sequence[Any]
    agents_on: Callable[[Connection, str], Sequence[Mapping[str, Any]]]
    dhcp_served: Callable[[Connection, str, Sequence[str], str], bool]  # a network, a port's subnets, the port's host

    def place(self, connection: Connection, port: Object, network: Object) -> Binding:
        """Bind a port to its host, and show in it what came of that. It is DOWN until it is wired there."""
        binding = UNBOUND
        if port["binding:host_id"]:
            asked = port["binding:host_id"], port["binding:vnic_type"], port["binding:profile"]
            binding = self.try_bind(connection, port, network, *asked)
        port["binding:vif_type"] = binding.vif_type
        port["binding:vif_details"] = dict(binding.vif_details)
        port["status"] = provisioning.DOWN
        return binding

    def try_bind(
        self,
        connection: Connection,
        port: Object,
        network: Object,
        host: str,
        vnic_type: str,
        profile: Mapping[str, Any],
    ) -> Binding:
        segments = read_segments(connection, [network["id"]])[network["id"]]
        agents = self.agents_on(connection, host)
        return bind(PortToBind(port, network, host, vnic_type, profile, segments, agents), self.drivers)

    def store(self, tx: Transaction, port: Object, binding: Binding) -> None:
        """The port's active binding, and what holds it back from being ACTIVE."""
        host = port["binding:host_id"]
        if binding is UNBOUND and port["revision_number"] == 1:
            return  # new and nowhere
        tx.execute(
            sa.delete(t.port_bindings).where(_b.port_id == port["id"], sa.or_(_b.status == "ACTIVE", _b.host == host))
        )
        if host:
            tx.execute(sa.insert(t.port_bindings).values(as_row(t.port_bindings, binding_row(port, binding))))
        provisioning.block(tx, port["id"], self._components(tx.connection, port, binding))

    def _components(self, connection: Connection, port: Object, binding: Binding) -> list[str]:
        if not binding.is_bound:
            return []
        components = [provisioning.L2] if binding.agent_wires else []
        subnets = [f["subnet_id"] for f in port["fixed_ips"]]
        is_server = port["device_owner"] == DHCP_OWNER  # which gives leases, and waits for none
        host = port["binding:host_id"]
        if subnets and not is_server and self.dhcp_served(connection, port["network_id"], subnets, host):
            components.append(provisioning.DHCP)
        return components
