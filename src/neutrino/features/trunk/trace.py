"""Trunks in a trace: the packets of a subport have a VLAN tag at the device of the parent, which its instance must set."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.trunk.tables import trunk_subports, trunks
from neutrino.server.db import tables as t
from neutrino.server.feed.readers.rows import read_rows
from neutrino.server.trace.feature_part import Reached, TracePart
from neutrino.server.trace.steps.walk import Subject, Walk
from neutrino.server.trace.values import Snapshot, TracedPort

_parent = t.ports.alias("parent")
_SUBPORTS = (
    sa.select(
        *(trunk_subports.c.port_id, trunk_subports.c.segmentation_id),
        *(trunks.c.id, trunks.c.name, trunks.c.project_id),
        *(_parent.c.id.label("parent_id"), _parent.c.name.label("parent_name")),
    )
    .join(trunks, trunks.c.id == trunk_subports.c.trunk_id)
    .join(_parent, _parent.c.id == trunks.c.port_id)
)


@dataclass(frozen=True)
class Subport:
    trunk: Subject
    vlan: int
    parent: str  # its name, or its id


@dataclass(frozen=True)
class TracedTrunks(TracePart):
    subports: Mapping[str, Subport] = field(default_factory=dict)  # by port

    def with_rules(self, connection: Connection, snapshot: Snapshot) -> "TracedTrunks":
        rows = read_rows(connection, _SUBPORTS, trunk_subports.c.port_id, sorted(snapshot.ports))
        return TracedTrunks(
            {
                row.port_id: Subport(
                    Subject("trunk", row.id, row.name, row.project_id),
                    row.segmentation_id,
                    row.parent_name or row.parent_id,
                )
                for row in rows
            }
        )

    def sent_by_port(self, walk: Walk, port: TracedPort) -> None:
        self._inform(walk, port, "sends it")

    def received_by_port(self, walk: Walk, port: TracedPort) -> None:
        self._inform(walk, port, "gets it")

    def _inform(self, walk: Walk, port: TracedPort, verb: str) -> None:
        if (sub := self.subports.get(port.id)) is not None:
            where = f"by the device of parent port {sub.parent}, with VLAN tag {sub.vlan}"
            walk.informs("trunk", sub.trunk, f"{sub.trunk.title}: the instance {verb} {where}.")


def read_part(_connection: Connection, _reached: Reached) -> TracedTrunks:
    return TracedTrunks()
