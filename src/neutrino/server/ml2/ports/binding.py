"""Port binding: which mechanism driver binds a port on its host, and to which segment of the network.

It is tried before the transaction, by what the host's agents last reported. A driver binds a segment, or serves it and has
the next level bound on other segments (a top-of-rack switch above a vSwitch), or passes. When no driver binds, the port is
`binding_failed`: Nova then tries another host. Giving `binding:host_id` again repeats the attempt.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.objects import Object, Values
from neutrino.server.db import tables as t
from neutrino.server.db.objects import as_row, encode
from neutrino.server.db.transaction import Transaction
from neutrino.server.hosts.registry import Registry
from neutrino.server.ipam.allocation import DHCP_OWNER
from neutrino.server.ml2.driver_api import (
    VIF_FAILED,
    VIF_UNBOUND,
    Bound,
    BoundLevel,
    Continue,
    DynamicSegments,
    PortToBind,
    Segment,
)
from neutrino.server.ml2.ports import allocations, provisioning
from neutrino.server.ml2.ports.hardware import own_profile
from neutrino.server.ml2.ports.lease_providers import has_live_provider
from neutrino.server.ml2.segments import read_segments

LOG = logging.getLogger(__name__)
Levels = tuple[Values, ...]
MAX_LEVELS = 10  # as in Neutron


@dataclass(frozen=True)
class Binding:
    """Result of binding a port."""

    vif_type: str = VIF_UNBOUND
    vif_details: Values = field(default_factory=dict)
    levels: Levels = ()
    components: Sequence[str] = ()  # that the port waits for, beside DHCP
    is_active: bool = False  # without waiting for any

    @property
    def is_bound(self) -> bool:
        return self.vif_type not in (VIF_UNBOUND, VIF_FAILED)

    @property
    def port_values(self) -> Object:
        """Attributes of a port with this binding. It is DOWN until its provisioning blocks are removed."""
        status = provisioning.ACTIVE if self.is_active else provisioning.DOWN
        return {
            "binding:vif_type": self.vif_type,
            "binding:vif_details": dict(self.vif_details),
            "status": status,
        }


EXPIRED = ""  # as `inactive_since`: INACTIVE for longer than a live migration takes
UNBOUND = Binding()
FAILED = Binding(VIF_FAILED)


@dataclass(frozen=True)
class Binder:
    drivers: Sequence[Any]  # mechanism drivers
    registry: Registry
    dynamic_segments: DynamicSegments

    def bind(self, connection: Connection, port: Object, network: Object) -> Binding:
        """The binding of a port to the host in `binding:host_id`, or UNBOUND without a host."""
        host = port["binding:host_id"]
        if not host:
            return UNBOUND
        vnic_type, profile = port["binding:vnic_type"], port["binding:profile"]
        segments = read_segments(connection, [network["id"]])[network["id"]]
        if len(segments) > 1:
            segments = _of_addresses(connection, port, segments)
        agents, dynamic = self.registry.agents_on(connection, host), self.dynamic_segments
        asked = PortToBind(port, host, vnic_type, profile, segments, agents, network=network, dynamic_segments=dynamic)
        return bind(asked, self.drivers)

    def store_new(self, tx: Transaction, port: Object, binding: Binding) -> None:
        """Write the binding and the provisioning blocks of a port that this transaction creates."""
        if binding is UNBOUND:
            return
        tx.insert(t.port_bindings, [as_row(t.port_bindings, binding_row(port, binding))])
        provisioning.block_new(tx, port["id"], self._components(tx.connection, port, binding))

    def store(self, tx: Transaction, port: Object, binding: Binding) -> None:
        """Replace the port's active binding and its provisioning blocks."""
        host = port["binding:host_id"]
        # Also an INACTIVE binding to this host, which a live migration prepared: the key is port and host.
        tx.write(
            sa.delete(t.port_bindings).where(
                t.port_bindings.c.port_id == port["id"],
                sa.or_(t.port_bindings.c.status == "ACTIVE", t.port_bindings.c.host == host),
            )
        )
        if host:
            tx.write(sa.insert(t.port_bindings).values(as_row(t.port_bindings, binding_row(port, binding))))
        provisioning.block(tx, port["id"], self._components(tx.connection, port, binding))

    def store_profile(self, tx: Transaction, before: Object, after: Object) -> None:
        """Write a changed profile of the active binding, which stays as it is."""
        profile = own_profile(after)
        if profile != own_profile(before):
            of_port = t.port_bindings.c.port_id == after["id"], t.port_bindings.c.status == "ACTIVE"
            tx.write(sa.update(t.port_bindings).where(*of_port).values(profile=encode(profile)))

    def _components(self, connection: Connection, port: Object, binding: Binding) -> list[str]:
        if not binding.is_bound or binding.is_active:
            return []
        components = list(binding.components)
        subnets = [f["subnet_id"] for f in port["fixed_ips"]]
        is_dhcp_server = port["device_owner"] == DHCP_OWNER  # waits for no lease of its own
        if subnets and not is_dhcp_server:
            host, cutoff = port["binding:host_id"], self.registry.cutoff()
            if has_live_provider(connection, port["network_id"], subnets, host, cutoff):
                components.append(provisioning.DHCP)
        return components


def _of_addresses(connection: Connection, port: Object, segments: list[Segment]) -> list[Segment]:
    """The segments to bind: on a routed network the one of the port's addresses, which work on no other."""
    ids = [fixed["subnet_id"] for fixed in port["fixed_ips"]]
    statement = sa.select(t.subnets.c.segment_id).where(t.subnets.c.id.in_(ids), t.subnets.c.segment_id.is_not(None))
    own = set(connection.execute(statement).scalars()) if ids else set()
    return [segment for segment in segments if segment.id in own] if own else segments


def binding_row(port: Values, binding: Binding, status: str = "ACTIVE") -> Object:
    return {
        "port_id": port["id"],
        "host": port["binding:host_id"],
        "status": status,
        "vnic_type": port["binding:vnic_type"],
        "vif_type": binding.vif_type,
        "profile": own_profile(port),
        "vif_details": dict(binding.vif_details),
        "levels": [dict(level) for level in binding.levels],
    }


def bind(port: PortToBind, drivers: Sequence[Any]) -> Binding:
    """Ask the drivers in order, level by level."""
    bound = _bind_level(port, drivers, ())
    if bound is None and (providers := allocations.allocated(port.profile)):
        text = "port %s is not bound on %s: no agent there has the resource providers %s with a segment of its network"
        LOG.warning(text, port.port.get("id"), port.host, ", ".join(sorted(providers)))
    return bound or FAILED


def _bind_level(port: PortToBind, drivers: Sequence[Any], above: Levels) -> Binding | None:
    if len(above) >= MAX_LEVELS:
        LOG.warning("port %s is not bound: its binding has more than %s levels", port.port.get("id"), MAX_LEVELS)
        return None
    for driver in drivers:
        bind_port = getattr(driver, "bind_port", None)
        if bind_port is None or _would_repeat(driver.name, port, above):
            continue
        asked = allocations.restricted(port, driver)
        if asked is None:
            continue
        try:
            answer = bind_port(asked)
        except Exception:
            LOG.exception("mechanism driver %s failed to bind port %s", driver.name, port.port.get("id"))
            continue
        if not isinstance(answer, Bound | Continue):
            continue
        levels = (*above, {"level": len(above), "driver": driver.name, "segment_id": answer.segment.id})
        if isinstance(answer, Bound):
            components = dict.fromkeys((*([provisioning.L2] if answer.agent_wires else []), *answer.components))
            details = dict(answer.vif_details)
            return Binding(answer.vif_type, details, levels, tuple(components), answer.is_active)
        bound = (*port.levels, BoundLevel(driver.name, answer.segment))
        deeper = _bind_level(replace(port, segments=answer.next_segments, levels=bound), drivers, levels)
        if deeper is not None:
            return deeper
    return None


def _would_repeat(driver: str, port: PortToBind, above: Levels) -> bool:
    """Prevents endless recursion: a driver that serves one of these segments on a level above is not asked again."""
    here = {segment.id for segment in port.segments}
    return any(level["driver"] == driver and level["segment_id"] in here for level in above)
