"""What the configuration says of routers on this host."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class L3Options:
    host: str = ""
    state_path: str = ""
    agent_mode: str = "legacy"  # legacy, dvr, dvr_snat, dvr_no_external
    integration_bridge: str = "br-int"
    external_bridge: str = ""  # gateways are plugged here where it is set, else into the integration bridge
    veth: bool = (
        False  # devices are veth pairs: on the userspace datapath others do not survive a restart of the switch
    )
    metadata_port: int = 0  # where the metadata process listens in each namespace; 0: it does not
    ipv6_gateway: str = ""  # next hop for IPv6 where the external subnet names none
    advert_interval: int = 2  # seconds between a VRRP master's signs of life
    authentication: str = ""  # PASS or AH, of VRRP
    password: str = dataclasses.field(default="", repr=False)
    min_rtr_adv_interval: int = 30
    max_rtr_adv_interval: int = 100
    delegations: str = ""  # where the clients that ask for prefixes keep their files
    vendor_pen: int = 8888  # the enterprise number by which they are known
