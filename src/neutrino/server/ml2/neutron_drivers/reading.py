"""Reads and writes of the server for drivers written for Neutron, in the transaction of the call if it has one."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.objects import Object, Values
from neutrino.server import errors
from neutrino.server.db import tables as t
from neutrino.server.db.objects import decode
from neutrino.server.db.transaction import Transaction
from neutrino.server.db.view import View
from neutrino.server.ml2.attributes import completed
from neutrino.server.ml2.driver_api import Segment
from neutrino.server.ml2.neutron_drivers.runtime import components_of_call, current, matching, transaction
from neutrino.server.ml2.ports.provisioning import ACTIVE
from neutrino.server.ml2.segments import DYNAMIC
from neutrino.server.query import Query

R = TypeVar("R")
MAX_COMPONENT = 32  # characters of a provisioning component


@contextmanager
def _connection() -> Iterator[Connection]:
    """Of the transaction of a precommit, which sees its rows, or one to read."""
    with transaction() as tx:
        if tx is not None:
            yield tx.connection
            return
    with current().db.read() as connection:
        yield connection


def _write(work: Callable[[Transaction], R]) -> R:
    with transaction() as tx:
        if tx is not None:
            return work(tx)
    db = current().db

    def attempt() -> R:
        with db.transaction() as own:
            return work(own)

    return db.retrying(attempt)


# --- networks, subnets, ports -----------------------------------------------------------------------------------------


def find(kind: str, key: str) -> Object | None:
    """An object of any project."""
    with _connection() as connection:
        found = _view(kind).load(connection, key)
        return found if found is None or kind != "port" else _completed(connection, [found])[0]


def find_all(kind: str, filters: Mapping[str, Any] | None) -> list[Object]:
    """Objects of all projects; filters as in Neutron's plugins, each with the values that match."""
    wanted = {
        name: tuple(values) if isinstance(values, list | tuple | set) else (values,)
        for name, values in (filters or {}).items()
    }
    with _connection() as connection:
        rows = _view(kind).many(connection, Query(wanted, everyone=True), None)
        rows = _completed(connection, rows) if kind == "port" else rows
    found: list[Object] = msgspec.json.decode(msgspec.json.encode(rows))
    return found


def completed_port(port: Values) -> Object:
    """A port with what is computed for it, such as `trunk_details`, as the API shows it."""
    with _connection() as connection:
        return _completed(connection, [dict(port)])[0]


def _completed(connection: Connection, ports: Sequence[Object]) -> list[Object]:
    return list(completed(current().ports.added, connection, ports))


def _view(kind: str) -> View:
    server = current()
    return {"network": server.networks.view, "subnet": server.subnets.view, "port": server.ports.view}[kind]


# --- segments ---------------------------------------------------------------------------------------------------------


def segments(*, dynamic: bool | None = None, **filters: Any) -> list[Object]:
    """Segments as dictionaries, in their order; `dynamic`: only those that drivers have allocated, or only the others."""
    s = t.network_segments.c
    statement = sa.select(
        s.id, s.network_id, s.network_type, s.physical_network, s.segmentation_id, s.position
    ).order_by(s.network_id, s.position)
    if isinstance(filters.get("network_id"), str):
        statement = statement.where(s.network_id == filters["network_id"])
    with _connection() as connection:
        rows = [row._asdict() for row in connection.execute(statement)]
    for row in rows:
        row["segment_index"] = row.pop("position")
        row["is_dynamic"] = row["segment_index"] >= DYNAMIC
    return [row for row in matching(rows, filters) if dynamic is None or row["is_dynamic"] == dynamic]


def allocate_dynamic_segment(network_id: str, wanted: Mapping[str, Any]) -> Object:
    asked = Segment(wanted["network_type"], wanted.get("physical_network"), wanted.get("segmentation_id"))
    with transaction() as tx:
        made = current().segments.allocate(network_id, asked, tx)
    return {
        "id": made.id,
        "network_type": made.network_type,
        "physical_network": made.physical_network,
        "segmentation_id": made.segmentation_id,
        "network_id": network_id,
    }


def release_dynamic_segment(segment_id: str) -> None:
    with transaction() as tx:
        current().segments.release(segment_id, tx)


# --- trunks -----------------------------------------------------------------------------------------------------------


def subports(filters: Mapping[str, Any]) -> list[Object]:
    """Of all trunks: port_id, trunk_id, segmentation_type, segmentation_id."""
    table = t.metadata.tables["trunk_subports"]  # of a feature, which the core does not import
    with _connection() as connection:
        rows = connection.execute(sa.select(table).order_by(table.c.segmentation_id)).all()
    return matching([row._asdict() for row in rows], dict(filters))


def trunks(filters: Mapping[str, Any]) -> list[Object]:
    """Trunks, without their subports."""
    table = t.metadata.tables["trunks"]
    columns = [table.c[name] for name in ("id", "project_id", "name", "port_id", "admin_state_up")]
    with _connection() as connection:
        rows = connection.execute(sa.select(*columns)).all()
    return matching([row._asdict() for row in rows], dict(filters))


# --- bindings and agents ----------------------------------------------------------------------------------------------


def binding_levels(filters: Mapping[str, Any]) -> list[Object]:
    """Levels of all bindings, also INACTIVE ones: port_id, host, level, driver, segment_id."""
    b = t.port_bindings.c
    statement = sa.select(b.port_id, b.host, b.levels).where(b.levels != "[]")
    if isinstance(filters.get("port_id"), str):
        statement = statement.where(b.port_id == filters["port_id"])
    with _connection() as connection:
        rows = connection.execute(statement).all()
    levels = [{"port_id": row.port_id, "host": row.host, **level} for row in rows for level in decode(row.levels)]
    return matching(levels, dict(filters))


def agents_on(host: str) -> list[Object]:
    with _connection() as connection:
        return current().registry.agents_on(connection, host) if host else []


def agents(filters: Mapping[str, Any] | None) -> list[Object]:
    with _connection() as connection:
        hosts = connection.execute(sa.select(t.agents.c.host).distinct()).scalars().all()
        found = [agent for host in hosts for agent in current().registry.agents_on(connection, host)]
    return matching(found, dict(filters or {}))


# --- provisioning -----------------------------------------------------------------------------------------------------


def add_component(port_id: str, component: str) -> None:
    """The port is not ACTIVE before `complete`. While the port is being bound, part of the binding's own write."""
    if len(component) > MAX_COMPONENT:
        raise errors.InvalidInput(f"provisioning component {component!r} has more than {MAX_COMPONENT} characters")
    components = components_of_call(port_id)
    if components is not None:
        if component not in components:
            components.append(component)
        return
    p = t.provisioning_blocks

    def insert(tx: Transaction) -> None:
        here = tx.execute(sa.select(t.ports.c.id).where(t.ports.c.id == port_id).with_for_update()).first()
        known = tx.execute(sa.select(p.c.component).where(p.c.port_id == port_id)).scalars().all()
        if here is not None and component not in known:
            tx.write(sa.insert(p).values(port_id=port_id, component=component))

    _write(insert)


def remove_component(port_id: str, component: str) -> bool:
    p = t.provisioning_blocks
    delete = sa.delete(p).where(p.c.port_id == port_id, p.c.component == component)
    return _write(lambda tx: bool(tx.execute(delete).rowcount))


def complete(port_id: str, component: str) -> None:
    """The component's work for the port is done: if it was the last one, the port becomes ACTIVE."""
    port = find("port", port_id)
    if port is not None:
        current().provisioning.complete(port_id, component, port["binding:host_id"])


def is_blocked(port_id: str) -> bool:
    blocks = sa.select(t.provisioning_blocks.c.component).where(t.provisioning_blocks.c.port_id == port_id)
    with _connection() as connection:
        return connection.execute(blocks).first() is not None


def set_status(port_id: str, status: str) -> bool:
    """Whether there is the port. ACTIVE whatever it waits for, as in Neutron."""
    if status == ACTIVE:
        for component in _components(port_id):
            remove_component(port_id, component)
    return current().provisioning.set_status(port_id, status)


def _components(port_id: str) -> list[str]:
    with _connection() as connection:
        blocks = sa.select(t.provisioning_blocks.c.component).where(t.provisioning_blocks.c.port_id == port_id)
        return list(connection.execute(blocks).scalars())
