"""NDP proxies: addresses of instances that a router makes reachable on its external network."""

from neutrino.server import errors
from neutrino.server.api import types as t
from neutrino.server.api.definition import REQUIRED, Resource, creatable
from neutrino.server.api.resources.common import IDENTITY, standard

NDP_PROXY = Resource(
    name="ndp_proxy",
    collection="ndp_proxies",
    path="ndp_proxies",
    not_found=errors.NDPProxyNotFound,
    attributes=(
        *IDENTITY,
        creatable("router_id", t.Uuid(), default=REQUIRED, searchable=True),
        creatable("port_id", t.Uuid(), default=REQUIRED, searchable=True),
        creatable("ip_address", t.Nullable(t.IpAddress()), default=None, searchable=True),
        *standard(tags=None),
    ),
)
