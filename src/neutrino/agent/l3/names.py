"""Names of a router's namespaces and devices, as in Neutron: a prefix and the first eleven characters of a port's
id."""

from neutrino.agent.leftovers.recognise import LeftoverKind
from neutrino.dataplane.nft.api import METERING
from neutrino.model.routing import Router

ROUTER, SNAT, FIP = "qrouter-", "snat-", "fip-"
INTERNAL, EXTERNAL, HA, SNAT_PORT, AGENT_GATEWAY = "qr-", "qg-", "ha-", "sg-", "fg-"
TO_FIP, TO_ROUTER = "rfp-", "fpr-"
PLUGGED = (INTERNAL, EXTERNAL, HA, SNAT_PORT, AGENT_GATEWAY)  # devices that are ports of the switch
ROUTER_KIND = LeftoverKind(ROUTER, (INTERNAL, EXTERNAL, HA), (TO_FIP,))
SNAT_KIND = LeftoverKind(SNAT, (SNAT_PORT, EXTERNAL, HA))
FIP_KIND = LeftoverKind(FIP, (AGENT_GATEWAY,), (TO_ROUTER,))
METERING_PATH = f"inet {METERING}"  # the table of metering counters
_LABEL = "label_"
_LENGTH = 14  # as in Neutron, one less than the kernel allows


def device(prefix: str, port_id: str) -> str:
    return (prefix + port_id)[:_LENGTH]


def plugged(name: str) -> str:
    """The end of a veth pair that is plugged into the bridge, by the name of the end in the namespace."""
    return "tap" + name.partition("-")[2]


def router_namespace(router_id: str) -> str:
    return ROUTER + router_id


def snat_namespace(router_id: str) -> str:
    return SNAT + router_id


def fip_namespace(network_id: str) -> str:
    return FIP + network_id


def gateway_namespace(router: Router) -> str:
    """The namespace with the gateway device. With HA, it is the one that fails over."""
    return snat_namespace(router.id) if router.distributed else router_namespace(router.id)


def counter(label_id: str) -> str:
    """The name of a label's counter."""
    return _LABEL + label_id.replace("-", "_")


def label_of(name: str) -> str:
    """The label of a counter."""
    return name.removeprefix(_LABEL).replace("_", "-")
