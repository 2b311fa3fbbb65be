"""The attribute `trunk_details` of parent ports: Nova gives instances their VLANs and MACs by it.

Other ports do not have it. Whether a port is a parent is a column of the statement that reads it (`trunk_id`), so a port
without a trunk costs no further query.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.trunk.tables import trunk_subports, trunks
from neutrino.model.objects import Object
from neutrino.server.api import types
from neutrino.server.api.definition import Attribute
from neutrino.server.db import tables as t
from neutrino.server.ml2.attributes import PortAttributes

NAME, TRUNK_ID = "trunk_details", "trunk_id"
_SUBPORTS = (
    sa.select(
        *(trunk_subports.c[name] for name in ("trunk_id", "port_id", "segmentation_type", "segmentation_id")),
        t.ports.c.mac_address,
    )
    .join(t.ports, t.ports.c.id == trunk_subports.c.port_id)
    .where(trunk_subports.c.trunk_id.in_(sa.bindparam("trunks", expanding=True)))
    .order_by(trunk_subports.c.segmentation_id)
)


def complete(connection: Connection, ports: Sequence[Object]) -> None:
    """Give parents their details; one query for ports with parents among them, else none."""
    parents = [port for port in ports if port.get(TRUNK_ID)]
    details: dict[str, list[Object]] = {port[TRUNK_ID]: [] for port in parents}
    for row in connection.execute(_SUBPORTS, {"trunks": sorted(details)}) if details else ():
        details[row.trunk_id].append({name: value for name, value in row._asdict().items() if name != TRUNK_ID})
    for port in parents:
        port[NAME] = {TRUNK_ID: port[TRUNK_ID], "sub_ports": details[port[TRUNK_ID]]}
    for port in ports:
        port.pop(TRUNK_ID, None)


PORT_ATTRIBUTES = PortAttributes(
    definitions=(Attribute(NAME, types.AnyObject()),),
    columns={TRUNK_ID: sa.select(trunks.c.id).where(trunks.c.port_id == t.ports.c.id).scalar_subquery()},
    of_new_port=lambda values, network: {TRUNK_ID: None},
    needs={NAME: (TRUNK_ID,)},
    complete=complete,
)
