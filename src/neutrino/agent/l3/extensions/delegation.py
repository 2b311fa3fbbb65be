"""Prefix delegation: the addresses that a router's DHCPv6 clients send from."""

from neutrino.agent.l3.extension_api import Contribution, L3Extension, RouterNamespace
from neutrino.agent.l3.names import EXTERNAL, device
from neutrino.agent.l3.services.dibbler.render import asked_here, source_address
from neutrino.dataplane.netlink.values import address


class PrefixDelegation(L3Extension):
    name = "prefix delegation"

    def render(self, namespace: RouterNamespace) -> Contribution:
        gateway = namespace.gateway
        if gateway is None or not asked_here(namespace.router):
            return Contribution()
        name, delegations = device(EXTERNAL, gateway.id), namespace.router.delegations
        return Contribution(
            addresses=tuple(
                address(name, f"{source_address(delegation.subnet_id)}/64", nodad=True) for delegation in delegations
            )
        )
