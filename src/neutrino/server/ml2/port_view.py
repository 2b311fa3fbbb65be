"""The view of ports."""

import ipaddress
from typing import Any

import sqlalchemy as sa

from neutrino.server import errors
from neutrino.server.db import tables as t
from neutrino.server.db.view import PROJECT, View, among, own_ids, shared_with_viewer

Object = dict[str, Any]
_c, _n, _a, _g = t.ports.c, t.networks.c, t.ip_allocations.c, t.port_security_groups.c
MAX_PARTS = 32  # of ip_address_substr: each one is searched in every address
RENAMED = {
    "binding:host_id": "host",
    "binding:vif_type": "vif_type",
    "binding:vif_details": "vif_details",
    "binding:vnic_type": "vnic_type",
    "binding:profile": "profile",
}


def _address(text: str) -> str:
    """An address in its stored form; other text stays unchanged and matches nothing."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return text


_STORED_FORMS = {"ip_address": _address, "subnet_id": str.lower, "ip_address_substr": str.lower}


def _by_fixed_ip(values: tuple[Any, ...]) -> sa.ColumnElement[bool]:
    """The filter `fixed_ips`: `ip_address=…`, `subnet_id=…`, `ip_address_substr=…`; OR within a kind, AND between kinds.

    Other kinds are ignored, as in Neutron: clients send whole fixed IPs of other APIs.
    """
    kinds: dict[str, list[str]] = {"ip_address": [], "subnet_id": [], "ip_address_substr": []}
    for text in values:
        kind, _, value = text.partition("=")
        if not kind or not value:
            raise errors.InvalidInput(f"Invalid input for fixed_ips: '{text}' is not a key and a value.")
        if kind in kinds:
            kinds[kind].append(_STORED_FORMS[kind](value))
    where: list[sa.ColumnElement[bool]] = []
    if kinds["ip_address"]:
        where.append(_a.ip_address.in_(kinds["ip_address"]))
    if kinds["subnet_id"]:
        where.append(_a.subnet_id.in_(kinds["subnet_id"]))
    if len(kinds["ip_address_substr"]) > MAX_PARTS:
        raise errors.InvalidInput(f"Invalid input for fixed_ips: more than {MAX_PARTS} of ip_address_substr.")
    if kinds["ip_address_substr"]:
        where.append(sa.or_(*(_a.ip_address.contains(part, autoescape=True) for part in kinds["ip_address_substr"])))
    return _c.id.in_(sa.select(_a.port_id).where(*where)) if where else sa.true()


_p, _b = t.ports.alias().c, t.port_bindings.c


def _by_host(values: tuple[Any, ...]) -> sa.ColumnElement[bool]:
    """By host of any binding, also an inactive one: Nova looks for the ports of a migration's other host."""
    hosts = list(values)
    bound = sa.select(_b.port_id).where(_b.host.in_(hosts))
    return _c.id.in_(sa.select(_p.id).where(_p.host.in_(hosts)).union(bound))


VIEW = View(
    t.ports,
    renamed=RENAMED,
    computed={
        "resource_request": sa.null(),
        "network:project_id": sa.select(_n.project_id).where(_n.id == _c.network_id).scalar_subquery(),
        "network:shared": shared_with_viewer(_c.network_id),
    },
    filters={
        "binding:host_id": _by_host,
        "fixed_ips": _by_fixed_ip,
        "security_groups": lambda ids: _c.id.in_(sa.select(_g.port_id).where(_g.security_group_id.in_(list(ids)))),
    },
    scope=sa.or_(_c.project_id == PROJECT, _c.network_id.in_(sa.select(_n.id).where(_n.project_id == PROJECT))),
    listed=among(t.ports, own_ids(t.ports), sa.select(_p.id).where(_p.network_id.in_(own_ids(t.networks)))),
    hidden=("network:project_id", "network:shared"),
)
