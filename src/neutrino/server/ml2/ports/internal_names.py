"""Which project has a name on a network that several share: the first, as `dns_assignment` of its ports records it.

Another project's port keeps its `dns_name`, but is assigned the name of its address: Nova sets `dns_name` to the name of
the instance, and a refusal would fail its boot. It is assigned its own when the name is free and is set again.
"""

from collections.abc import Callable, Iterable, Mapping

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.dns_names import first_label, is_of_another_address
from neutrino.model.objects import Object, Values
from neutrino.server.db import tables as t
from neutrino.server.db.objects import decode

NameFor = Callable[[str, str], dict[str, str]]  # (dns_name, address): the address's entry in a port's dns_assignment


def assigned(connection: Connection, port: Object, before: Object | None, network: Values, name_for: NameFor) -> Object:
    """The port with names that lead to its project, after the extension drivers have decided on them."""
    label, names = first_label(port["dns_name"]), port["dns_assignment"]
    if not label or not names or (before is not None and names == before["dns_assignment"]):
        return port
    addresses = [fixed["ip_address"] for fixed in port["fixed_ips"]]
    if is_of_another_address(label, addresses) or _is_taken(connection, port, label, network):
        return {**port, "dns_assignment": [name_for("", address) for address in addresses]}
    return port


def holds(dns_name: str, names: Iterable[Mapping[str, str]]) -> bool:
    """Whether a port with these names is known by its own; one without any is."""
    hostnames = [name["hostname"] for name in names]
    return not hostnames or first_label(dns_name) in hostnames


def _is_taken(connection: Connection, port: Object, label: str, network: Values) -> bool:
    """Whether a port of another project on the network has the name."""
    if not network["shared"] and port["project_id"] == network["project_id"]:
        return False  # the owner of the network decides about it; most networks have ports of one project only
    rows = connection.execute(
        sa.select(t.ports.c.dns_name, t.ports.c.dns_assignment).where(
            t.ports.c.network_id == port["network_id"],
            t.ports.c.project_id != port["project_id"],
            sa.or_(t.ports.c.dns_name == label, t.ports.c.dns_name.startswith(f"{label}.", autoescape=True)),
        )
    )
    return any((names := decode(row.dns_assignment)) and holds(row.dns_name, names) for row in rows)
