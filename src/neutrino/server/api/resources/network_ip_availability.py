"""How many addresses of each network are taken."""

from __future__ import annotations

from neutrino.server import errors
from neutrino.server.api.definition import Attribute, Resource
from neutrino.server.api.types import AnyObject, Integer, ListOf, OneOf, Text, Uuid

NETWORK_IP_AVAILABILITY = Resource(
    name="network_ip_availability",
    collection="network_ip_availabilities",
    key="network_id",
    bulk=False,
    verbs=frozenset({"index", "show"}),
    not_found=errors.NetworkNotFound,
    hidden=errors.HTTPNotFound,
    extension="network-ip-availability",
    attributes=(
        Attribute("network_id", Uuid(), filter=True, sort=True),
        Attribute("network_name", Text(), filter=True),
        Attribute("project_id", Text(), filter=True),
        Attribute("total_ips", Integer(min=0, max=2**129)),
        Attribute("used_ips", Integer(min=0, max=2**129)),
        Attribute("subnet_ip_availability", ListOf(AnyObject())),
        Attribute("ip_availability_details", AnyObject()),
        Attribute("ip_version", OneOf((4, 6)), visible=False, filter=True),
    ),
)
