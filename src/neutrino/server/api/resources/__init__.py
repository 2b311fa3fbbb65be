"""Declarations of resources. `CORE` are those that `GET /v2.0` lists."""

from neutrino.server.api.resources.network import NETWORK
from neutrino.server.api.resources.port import PORT
from neutrino.server.api.resources.subnet import SUBNET
from neutrino.server.api.resources.subnetpool import SUBNETPOOL

CORE = (NETWORK, SUBNET, SUBNETPOOL, PORT)
