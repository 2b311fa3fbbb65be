"""Example of a third-party package: an extension driver that adds attributes, and a driver for hierarchical binding.

`Rack` adds `rack` and `rack_units` to ports and `rack_fabric`, which administrators set, to networks. `RackSwitch` serves
tunnel networks by a top-of-rack switch: it allocates a VLAN of the rack for the network, and leaves the port on that VLAN
to the next driver (Open vSwitch). When the last port of a network is deleted, the VLAN is released.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from oslo_config import cfg

from neutrino.model.objects import Values
from neutrino.server import errors
from neutrino.server.api.definition import Attribute, Extension, writable
from neutrino.server.api.types import Integer, Text
from neutrino.server.db import tables as t
from neutrino.server.ml2.driver_api import Continue, DriverContext, PortToBind


class Rack:
    extensions = (Extension("rack", "Racks", "The rack of a port."),)

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        pass

    def extend_resources(self) -> Mapping[str, Sequence[Attribute]]:
        return {
            "port": (
                writable("rack", Text(16), default="", searchable=True),
                writable("rack_units", Integer(min=1, max=42), default=1, filter=True),
            ),
            "network": (writable("rack_fabric", Text(16), default="", guarded=True),),
            "subnet": (writable("rack_row", Text(16), default="a"),),
        }

    def process_create_port(self, values: Values, port: Values, network: Values) -> Values:
        return {"rack": self._checked(port["rack"])}

    def process_update_port(self, values: Values, port: Values, network: Values, before: Values) -> Values:
        return {"rack": self._checked(port["rack"])} if "rack" in values else {}

    def _checked(self, rack: str) -> str:
        if rack == "basement":
            raise errors.InvalidInput("Invalid input for rack: there is no rack in the basement.")
        return rack.lower()


class RackSwitch:
    name = "rack_switch"

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        conf.register_opts([cfg.StrOpt("physical_network", default="physnet1")], group="ml2_rack")
        self._physical_network = conf.ml2_rack.physical_network

    def bind_port(self, port: PortToBind) -> Continue | None:
        tunnel = next((s for s in port.segments if s.network_type == "vxlan"), None)
        if tunnel is None:
            return None
        vlan = port.allocate_dynamic_segment("vlan", self._physical_network)
        return Continue(tunnel, [vlan])

    def delete_port_precommit(self, context: DriverContext) -> None:
        ports = sa.select(sa.func.count()).where(t.ports.c.network_id == context.network["id"])
        if not context.tx.execute(ports).scalar():
            s = t.network_segments.c
            vlans = sa.select(s.id).where(s.network_id == context.network["id"], s.network_type == "vlan")
            for segment_id in context.tx.execute(vlans).scalars().all():
                context.release_dynamic_segment(segment_id)
